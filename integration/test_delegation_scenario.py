"""Delegation: work goes to other Hosts, across their crash, and no further than it may."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Host, Limits, Loop
from agentic_kernel_engine.loop import Action, Context, Delegate, FinalAnswer, Turn
from agentic_kernel_engine.seams import (
    Delegation,
    DelegationRefused,
    OnRuntime,
    Planner,
    ScriptedPlanner,
)
from agentic_kernel_file import FileStore


class Editor:
    """A planner that has an article researched, and would then ask the competition."""

    async def plan(self, context: Context) -> Action:
        turns = [entry for entry in context.transcript if isinstance(entry, Turn)]
        match turns:
            case []:
                return Delegate("spawn", instructions="Find out.", agent="news/researcher")
            case [spawned]:
                found: Any = spawned.observations[0].output
                return Delegate("join", child=found["child"])
            case [_, _]:
                return Delegate("spawn", instructions="Find out more.", agent="news/rival")
        joined, refused = turns[1].observations[0], turns[2].observations[0]
        return FinalAnswer([joined.output, refused.error, refused.message])


class ToTheResearcher(OnRuntime):
    """A Delegation: the researcher sits elsewhere, and there is nobody else."""

    def admit(self, parent: Task, child: Task) -> Task:
        if child.agent_name != "news/researcher":
            raise DelegationRefused(f"{child.agent_name} is not on our list")
        return super().admit(parent, child)


def editor(state: Path, delegation: Delegation | None) -> Host:
    loop = Loop(Editor(), delegation=delegation, limits=Limits(max_depth=1))
    return Host(loop, FileStore(state / "editor"), runtime_kinds=["editor"], interval=0.02)


class Researcher:
    """A planner that says when it begins, and takes as long as it takes to find out."""

    def __init__(self, began: asyncio.Event, found: asyncio.Event) -> None:
        self._began = began
        self._found = found

    async def plan(self, context: Context) -> Action:
        self._began.set()
        await self._found.wait()
        return FinalAnswer("it was the wind")


def researcher(state: Path, planner: Planner | None = None) -> Host:
    loop = Loop(planner or ScriptedPlanner(FinalAnswer("it was the wind")))
    return Host(loop, FileStore(state / "research"), runtime_kinds=["research"])


def article() -> Task:
    return Task.new(
        summary="", instructions="Why?", runtime_kind="editor", agent_name="news/editor"
    )


async def test_work_goes_to_another_host_and_to_nobody_else(tmp_path: Path) -> None:
    async with researcher(tmp_path) as other:
        delegation = ToTheResearcher(other, runtime_kind="research")
        async with editor(tmp_path, delegation) as host:
            done = await host.run(article())
            assert len(await host.find()) == 1
        (child,) = await other.find()
    assert done.status is TaskStatus.SUCCESS
    found, error, message = done.result
    assert found == {"child": child.id, "result": "it was the wind"}
    assert (error, message) == ("child_failed", "news/rival is not on our list")
    assert child.metadata["engine/lineage"] == ["news/editor", "news/researcher"]


async def test_a_restart_in_between_starts_nothing_twice(tmp_path: Path) -> None:
    """The editor's Host goes away while it waits; the next one waits for the same child."""
    task, began, found = article(), asyncio.Event(), asyncio.Event()
    async with researcher(tmp_path, Researcher(began, found)) as other:
        delegation = ToTheResearcher(other, runtime_kind="research")
        async with editor(tmp_path, delegation) as host:
            await host.dispatch(task)
            await began.wait()
        found.set()
        async with editor(tmp_path, delegation) as host:
            done = await host.wait(task.id)
        (child,) = await other.find()
    assert done.result[0] == {"child": child.id, "result": "it was the wind"}


async def test_without_the_seam_the_work_stays_at_home(tmp_path: Path) -> None:
    """The editor's own planner gets it, and gives it on until it may not any more."""
    async with researcher(tmp_path) as other:
        async with editor(tmp_path, None) as host:
            done = await host.run(article())
            assert len(await host.find()) > 1
        assert await other.find() == []
    assert "it was the wind" not in str(done.result)

"""The tokens and the cost of a Task, as `list` and `show` tell them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agentic_kernel import Task, TaskStatus
from agentic_kernel_cli import costs
from agentic_kernel_cli.commands import app
from agentic_kernel_cli.costs import NOTHING, Used, used_by, used_in
from agentic_kernel_engine import Event, Host, Loop, MemoryStore
from agentic_kernel_engine.events import from_stored
from agentic_kernel_engine.loop import (
    AskUser,
    Context,
    FinalAnswer,
    Plan,
    PlannerError,
    Thought,
    Usage,
)
from agentic_kernel_engine.plans import vocabulary
from agentic_kernel_engine.seams import ScriptedPlanner
from agentic_kernel_file import FileStore


def plan(action: Any, *, given: int, made: int, cost: float) -> Plan:
    return Plan((action,), usage=Usage(given, made, cost=cost))


FAILED = PlannerError("busy", "try again", usage=Usage(7, 0, cost=0.5))
SCRIPTS: dict[str, list[Any]] = {
    "one turn": [plan(FinalAnswer("done"), given=100, made=20, cost=0.25)],
    "two turns": [
        plan(Thought("hm"), given=100, made=20, cost=0.25),
        plan(FinalAnswer("done"), given=130, made=5, cost=0.125),
    ],
    "a failed call": [FAILED],
    "a question": [plan(AskUser("which?"), given=40, made=2, cost=0.0)],
}


def a_task() -> Task:
    return Task.new(id="it", summary="", instructions="do it", runtime_kind="test")


@pytest.mark.parametrize("script", sorted(SCRIPTS))
async def test_what_is_told_is_the_usage_of_the_outcome(script: str) -> None:
    async with Host(Loop(ScriptedPlanner(*SCRIPTS[script])), MemoryStore()) as host:
        await host.dispatch(a_task())
        await host.wait("it", TaskStatus.SUCCESS, TaskStatus.FAILURE, TaskStatus.PAUSED)
        usage = (await host.outcome("it")).usage
        expected = Used(usage.input_tokens, usage.output_tokens, usage.cost)
        assert expected != NOTHING
        assert await used_by(host, await host.record("it")) == expected
        history = [from_stored(*each) for each in await host.store.events("it")]
        assert used_in(history) == expected


async def test_a_killed_task_has_used_what_it_had_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Host(Loop(ScriptedPlanner(*SCRIPTS["a question"])), MemoryStore()) as host:
        await host.dispatch(a_task())
        await host.wait("it", TaskStatus.PAUSED)
        await host.kill("it")
        assert await used_by(host, await host.record("it")) == Used(40, 2)
        monkeypatch.setattr(costs, "MOST", 2)
        assert await used_by(host, await host.record("it")) is None, "too many events to read"


@pytest.mark.parametrize(
    "usage", [None, 3, {}, {"input_tokens": "9"}, {"cost": float("nan")}, {"output_tokens": -1}]
)
def test_a_foreign_usage_counts_nothing(usage: Any) -> None:
    assert used_in([Event(vocabulary.PLAN_MADE, {"usage": usage})]) == NOTHING


@pytest.mark.parametrize(
    ("used", "tokens", "price"),
    [
        (Used(), "", ""),
        (Used(900, 50), "950 tokens", ""),
        (Used(1_200, 34, 0.01234), "1.2k tokens", "0.0123"),
        (Used(3_000_000, 0, 1234.567), "3.0M tokens", "1,234.57"),
        (Used(1, 0, 0.00000001), "1 tokens", "<0.0001"),
    ],
)
def test_an_amount_is_short(used: Used, tokens: str, price: str) -> None:
    assert (used.tokens, used.price) == (tokens, price)


def test_list_and_show_tell_it_in_every_form(tmp_path: Path) -> None:
    async def working() -> None:
        store = FileStore(tmp_path)
        async with Host(Loop(ScriptedPlanner(*SCRIPTS["two turns"])), store) as host:
            await host.dispatch(a_task())
            await host.wait("it", TaskStatus.SUCCESS)
        store.close()

    asyncio.run(working())

    def said(*words: str) -> str:
        return CliRunner().invoke(app, ["--state", str(tmp_path), *words]).stdout

    used = {"input_tokens": 230, "output_tokens": 25, "cost": 0.375}
    for verb in ("list", "show it"):
        assert json.loads(said("--json", *verb.split()))["used"] == used
    assert said("list").rstrip("\n").endswith("\t255\t0.375")
    assert "used: 230 tokens in, 25 out, cost 0.3750\n" in said("show", "it")


def test_show_tells_what_a_call_that_a_kill_cut_may_have_used(tmp_path: Path) -> None:
    class Hangs:
        def worst_case(self, context: Context) -> Usage:
            return Usage(1_000, 500, cost=0.125)

        async def plan(self, context: Context) -> Plan:
            if context.step:
                asked.set()
                await asyncio.Event().wait()
            return plan(Thought("hm"), given=100, made=20, cost=0.0625)

    def said(*words: str) -> str:
        return CliRunner().invoke(app, ["--state", str(tmp_path), *words]).stdout

    async def working() -> None:
        store = FileStore(tmp_path)
        async with Host(Loop(Hangs()), store) as host:
            await host.dispatch(a_task())
            await asked.wait()
            running = await asyncio.to_thread(said, "--json", "show", "it")
            assert json.loads(running)["reserved"] == reserved
            assert "may have used" not in await asyncio.to_thread(said, "show", "it")
            await host.kill("it")
        store.close()

    asked = asyncio.Event()
    reserved = {"input_tokens": 1_000, "output_tokens": 500, "cost": 0.125}
    asyncio.run(working())
    told = json.loads(said("--json", "show", "it"))
    assert told["used"] == {"input_tokens": 100, "output_tokens": 20, "cost": 0.0625}
    assert told["reserved"] == reserved
    shown = said("show", "it")
    assert "used: 100 tokens in, 20 out, cost 0.0625\n" in shown
    more = "1,000 tokens in, 500 out, cost 0.1250 more, in the call that was cut"
    assert f"may have used: {more}\n" in shown


def test_the_reservation_of_a_call_that_is_over_is_not_told(tmp_path: Path) -> None:
    async def working() -> None:
        store = FileStore(tmp_path)
        done = plan(FinalAnswer("done"), given=100, made=20, cost=0.25)
        planner = ScriptedPlanner(done, worst=Usage(1_000, 500))
        async with Host(Loop(planner), store) as host:
            await host.run(a_task())
        store.close()

    asyncio.run(working())
    ran = CliRunner().invoke(app, ["--state", str(tmp_path), "--json", "show", "it"])
    assert json.loads(ran.stdout)["reserved"] == {"input_tokens": 0, "output_tokens": 0, "cost": 0}

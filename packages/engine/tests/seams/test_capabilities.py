"""Capabilities: an Agent's capability names become instructions and tools, once per entry."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from agentic_kernel import Agent, CannotStart, Capability, InvalidValue, TaskNotFound, TaskStatus
from agentic_kernel_engine.plans.action import AskUser, Delegate, FinalAnswer, ToolCall
from agentic_kernel_engine.seams.capabilities import (
    InMemoryCapabilities,
    Repertoire,
    UnknownAgent,
    UnknownCapability,
)
from agentic_kernel_engine.seams.planner import Context
from agentic_kernel_engine.tools.tool import Tool, tool

from ..conftest import Crash
from ..scripting import Runner, World, last_turn, new_task

Seen = list[tuple[tuple[str, ...], list[str]]]


def named(name: str, *capabilities: str) -> Agent:
    return Agent(name, tuple(map(Capability, capabilities)))


def tool_called(name: str, world: World | None = None) -> Tool:
    """A tool that leaves its name in the world."""

    async def act() -> str:
        if world is not None:
            world.done.append(name)
        return name

    return tool(act, name=name, description="", effect="none")


def files() -> InMemoryCapabilities:
    """A reader who may read, and a writer who may read and write."""
    agents = [
        named("acme/reader", "acme/reading"),
        named("acme/writer", "acme/reading", "acme/writing", "acme/reading"),
    ]
    provided = {
        "acme/reading": Repertoire("Read first.", [tool_called("read")]),
        "acme/writing": Repertoire(["Write short.", "Sign."], [tool_called("save")]),
    }
    return InMemoryCapabilities(agents, provided)


def look(seen: Seen) -> Callable[[Context], Any]:
    """A planner's answer that takes note of what it was shown."""

    def answer(context: Context) -> Any:
        seen.append((tuple(context.instructions), [each.name for each in context.tools]))
        return FinalAnswer("done")

    return answer


@pytest.mark.parametrize(
    ("agent", "instructions", "tools"),
    [
        (None, (), []),
        ("acme/reader", ("Read first.",), ["read"]),
        ("acme/writer", ("Read first.", "Write short.", "Sign."), ["read", "save"]),
    ],
)
async def test_the_planner_sees_what_the_agents_capabilities_give(
    runner: Runner, agent: str | None, instructions: tuple[str, ...], tools: list[str]
) -> None:
    seen: Seen = []
    own = [tool_called("own")]
    async with runner.host(look(seen), tools=own, capabilities=files()) as host:
        assert (await host.run(new_task(agent_name=agent))).result == "done"
    assert seen == [(instructions, ["own", *tools])]


async def test_without_a_registry_an_agent_is_no_more_than_a_name(runner: Runner) -> None:
    seen: Seen = []
    async with runner.host(look(seen), tools=[]) as host:
        assert (await host.run(new_task(agent_name="acme/anybody"))).result == "done"
    assert seen == [((), [])]


async def test_what_the_capabilities_do_not_give_cannot_be_called(
    runner: Runner, world: World
) -> None:
    seen: list[str] = []

    def observe(context: Context) -> Any:
        seen.extend(o.error for o in last_turn(context).observations)
        return FinalAnswer("done")

    given = {
        "a/look": Repertoire(tools=[tool_called("look", world)]),
        "a/act": Repertoire(tools=[tool_called("act", world)]),
    }
    agents = [named("a/one", "a/look"), named("a/two", "a/act")]
    script = ([ToolCall("look"), ToolCall("act")], observe)
    capabilities = InMemoryCapabilities(agents, given)
    async with runner.host(*script, tools=[], capabilities=capabilities) as host:
        await host.run(new_task(agent_name="a/one"))
    assert seen == ["", "unknown_tool"]
    assert world.done == ["look"]


@pytest.mark.parametrize(
    ("agent", "code"),
    [
        ("acme/nobody", "engine/unknown_agent"),
        ("acme/lost", "engine/unknown_capability"),
        ("acme/torn", "engine/duplicate_tool"),
        ("acme/like", "engine/duplicate_tool"),
    ],
)
async def test_an_agent_that_cannot_be_had_is_refused_before_anything_is_written(
    runner: Runner, agent: str, code: str
) -> None:
    agents = [
        named("acme/lost", "acme/nowhere"),
        named("acme/torn", "acme/one", "acme/other"),
        named("acme/like", "acme/own"),
    ]
    provided = {
        "acme/one": Repertoire(tools=[tool_called("act")]),
        "acme/other": Repertoire(tools=[tool_called("act")]),
        "acme/own": Repertoire(tools=[tool_called("own")]),
    }
    capabilities = InMemoryCapabilities(agents, provided)
    options: dict[str, Any] = {"tools": [tool_called("own")], "capabilities": capabilities}
    async with runner.host(FinalAnswer(1), **options) as host:
        task = new_task(agent_name=agent)
        with pytest.raises(CannotStart, match=code):
            await host.dispatch(task)
        with pytest.raises(TaskNotFound):
            await host.get(task.id)


async def test_delegating_to_an_unknown_agent_is_an_observation(runner: Runner) -> None:
    seen: list[tuple[str, str]] = []

    def observe(context: Context) -> Any:
        last: Any = context.transcript[-1]
        seen.extend((o.error, o.message) for o in last.observations)
        return FinalAnswer("done")

    script = (Delegate("spawn", instructions="go", agent="acme/nobody"), observe)
    async with runner.host(*script, capabilities=files()) as host:
        assert (await host.run(new_task())).result == "done"
    ((error, message),) = seen
    assert error == "child_failed"
    assert "engine/unknown_agent" in message


async def test_one_tool_that_two_capabilities_give_is_there_once() -> None:
    act = tool_called("act")
    provided = {"a/one": Repertoire(tools=[act]), "a/two": Repertoire(tools=[act])}
    agents = [named("a/both", "a/one", "a/two")]
    assert (await InMemoryCapabilities(agents, provided).resolve("a/both")).tools == (act,)


async def test_the_errors_name_what_is_missing() -> None:
    registry = files()
    with pytest.raises(UnknownAgent, match=r"acme/reader, acme/writer") as unknown:
        await registry.resolve("acme/nobody")
    assert unknown.value.agent == "acme/nobody"
    broken = InMemoryCapabilities([named("a/one", "a/gone")], {})
    with pytest.raises(UnknownCapability) as missing:
        await broken.resolve("a/one")
    assert (missing.value.agent, missing.value.capability) == ("a/one", "a/gone")


def test_what_makes_no_registry_is_refused() -> None:
    with pytest.raises(InvalidValue, match="two Agents called 'a/one'"):
        InMemoryCapabilities([Agent("a/one"), Agent("a/one")], {})
    with pytest.raises(InvalidValue, match="scope"):
        InMemoryCapabilities([], {"unscoped": Repertoire()})
    with pytest.raises(InvalidValue, match="two tools called 'act'"):
        Repertoire(tools=[tool_called("act"), tool_called("act")])
    with pytest.raises(InvalidValue, match=r"tools\[0\]: is 5"):
        Repertoire(tools=[5])  # type: ignore[list-item]
    for wrong in ("a\0", "a\ud800", 5):
        with pytest.raises(InvalidValue, match=r"instructions\[1\]"):
            Repertoire(["fine", wrong])  # type: ignore[list-item]


class Counting:
    """A registry that may change, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.gives = Repertoire("first", [tool_called("one")])

    async def resolve(self, agent: str) -> Repertoire:
        self.asked += 1
        return self.gives


async def test_a_registry_is_asked_once_per_entry_and_what_changed_counts_from_the_next(
    runner: Runner,
) -> None:
    seen: Seen = []
    registry = Counting()

    def note(action: Any) -> Callable[[Context], Any]:
        def answer(context: Context) -> Any:
            look(seen)(context)
            registry.gives = Repertoire("second", [tool_called("two")])
            return action

        return answer

    script = (note(ToolCall("one")), note(AskUser("go on?")), note(FinalAnswer("done")))
    async with runner.host(*script, tools=[], capabilities=registry) as host:
        task = new_task(agent_name="any/body")
        await host.dispatch(task)
        await host.wait(task.id, TaskStatus.PAUSED)
        assert registry.asked == 2, "at dispatch, and at the first entry"
        await host.answer(task.id, "yes")
        await host.wait(task.id)
    assert registry.asked == 3
    assert seen == [(("first",), ["one"])] * 2 + [(("second",), ["two"])]


async def test_an_effect_whose_capability_is_gone_after_a_crash_is_indeterminate(
    runner: Runner, crash: Crash
) -> None:
    seen: list[str] = []
    reached = asyncio.Event()

    @tool(effect="write")
    async def act() -> str:
        reached.set()
        await asyncio.Event().wait()
        return "acted"

    def observe(context: Context) -> Any:
        seen.extend(o.error for o in last_turn(context).observations)
        return FinalAnswer("done")

    registry = Counting()
    registry.gives = Repertoire(tools=[act])
    script = (ToolCall("act"), observe)
    host = runner.mortal(*script, tools=[], capabilities=registry)
    task = new_task(agent_name="any/body")
    await host.dispatch(task)
    await reached.wait()
    await crash(host)
    registry.gives = Repertoire()
    async with runner.host(*script, tools=[], capabilities=registry) as second:
        assert (await second.wait(task.id)).result == "done"
    assert seen == ["indeterminate"]


async def test_an_agent_that_is_gone_at_an_entry_fails_the_task_with_its_code(
    runner: Runner,
) -> None:
    class Forgetting(Counting):
        async def resolve(self, agent: str) -> Repertoire:
            if self.asked >= 2:
                raise UnknownAgent(agent, ())
            return await super().resolve(agent)

    script = (AskUser("go on?"), FinalAnswer("done"))
    async with runner.host(*script, capabilities=Forgetting()) as host:
        task = new_task(agent_name="any/body")
        await host.dispatch(task)
        await host.wait(task.id, TaskStatus.PAUSED)
        await host.answer(task.id, "yes")
        done = await host.wait(task.id)
    assert done.failure is not None
    assert done.failure.code == "engine/unknown_agent"
    assert done.metadata["engine/stop_reason"] == "error"

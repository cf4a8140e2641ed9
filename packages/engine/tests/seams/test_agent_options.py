"""The options of the planner's answers that an Agent's capabilities give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from agentic_kernel import Agent, CannotStart, Capability, InvalidValue, TaskNotFound
from agentic_kernel_engine import Host, Loop
from agentic_kernel_engine.plans.action import FinalAnswer
from agentic_kernel_engine.seams import (
    ClashingOption,
    InMemoryCapabilities,
    Repertoire,
    ScriptedPlanner,
)
from agentic_kernel_engine.seams.middlewares import Cache
from agentic_kernel_engine.seams.planner import Context

from ..scripting import Runner, new_task


def registry(*options: Mapping[str, Any]) -> InMemoryCapabilities:
    """One Agent, ``acme/clerk``, with a capability for each of these options."""
    provided = {
        f"acme/part{number}": Repertoire(options=each) for number, each in enumerate(options)
    }
    agent = Agent("acme/clerk", tuple(map(Capability, provided)))
    return InMemoryCapabilities([agent], provided)


class Cool:
    """A planner that has one option, and answers with those of the Agent."""

    def __init__(self) -> None:
        self.calls = 0

    def check_options(self, options: Mapping[str, Any]) -> None:
        for name in options:
            if name != "temperature":
                raise InvalidValue(f"options.{name}", "is no option")

    async def plan(self, context: Context) -> FinalAnswer:
        self.calls += 1
        return FinalAnswer(dict(context.options))


async def test_a_planner_gets_the_options_of_the_tasks_agent() -> None:
    async with Host(Loop(Cool(), capabilities=registry({"temperature": 0.2}))) as host:
        assert (await host.run(new_task(agent_name="acme/clerk"))).result == {"temperature": 0.2}
        assert (await host.run(new_task())).result == {}


@pytest.mark.parametrize(
    ("planner", "options", "message"),
    [
        (Cool(), [{"seed": 1}], r"'acme/clerk' has options\.seed: is no option"),
        (Cool(), [{"temperature": 1}, {"temperature": 2}], "'temperature' different values"),
        (
            ScriptedPlanner(FinalAnswer(1)),
            [{"seed": 1}, {"temperature": 1}],
            "has the options seed, temperature, and the planner has none",
        ),
    ],
    ids=["unknown", "clashing", "a planner without options"],
)
async def test_options_that_cannot_be_kept_are_refused_before_anything_is_written(
    planner: Any, options: list[dict[str, Any]], message: str
) -> None:
    async with Host(Loop(planner, capabilities=registry(*options))) as host:
        task = new_task(agent_name="acme/clerk")
        with pytest.raises(CannotStart, match=message):
            await host.dispatch(task)
        with pytest.raises(TaskNotFound):
            await host.get(task.id)


async def test_a_run_that_finds_other_options_at_its_entry_fails_by_their_name(
    runner: Runner,
) -> None:
    given = registry({"temperature": 1})

    class Changing:
        async def resolve(self, agent: str) -> Repertoire:
            found, self.later = self.later, Repertoire(options={"seed": 1})
            return found

        later = Repertoire(options={"temperature": 1})

    assert (await given.resolve("acme/clerk")).options == {"temperature": 1}
    async with Host(Loop(Cool(), capabilities=Changing())) as host:
        failure = (await host.run(new_task(agent_name="acme/clerk"))).failure
    assert failure is not None
    assert failure.code == "engine/option_refused"
    assert "seed" in failure.message


async def test_capabilities_may_agree_on_an_option() -> None:
    one = registry({"temperature": 0.2, "seed": 1}, {"temperature": 0.2})
    assert (await one.resolve("acme/clerk")).options == {"temperature": 0.2, "seed": 1}
    with pytest.raises(ClashingOption) as caught:
        await registry({"seed": 1}, {"seed": None}).resolve("acme/clerk")
    assert (caught.value.agent, caught.value.option) == ("acme/clerk", "seed")


@pytest.mark.parametrize("options", [{"a": object()}, {1: 2}, ["a"], {"a": float("nan")}])
def test_options_that_are_not_json_are_refused(options: Any) -> None:
    with pytest.raises(InvalidValue, match="options"):
        Repertoire(options=options)


async def test_a_cache_keeps_agents_with_different_options_apart() -> None:
    planner, middleware = Cool(), [Cache()]
    results = []
    for temperature in (0.1, 0.2, 0.1):
        capabilities = registry({"temperature": temperature})
        loop = Loop(planner, capabilities=capabilities, middleware=middleware)
        async with Host(loop) as host:
            results.append((await host.run(new_task(agent_name="acme/clerk"))).result)
    assert results == [{"temperature": 0.1}, {"temperature": 0.2}, {"temperature": 0.1}]
    assert planner.calls == 2

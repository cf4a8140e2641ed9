"""A session is a child like any other: it keeps within its grant, and says what it used (R18)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from agentic_kernel import CannotStart
from agentic_kernel_copilot import CopilotRuntime
from agentic_kernel_engine import Limits, tool
from agentic_kernel_engine.providers import Price
from integration.peers.aimock import Aimock

from .conftest import asked
from .scripts import after, calls, says

pytestmark = pytest.mark.rule("R18")


@tool(effect="none")
async def look() -> str:
    """Look."""
    return "seen"


async def test_a_session_keeps_within_its_grant_and_says_what_it_used(
    scripted: Mapping[str, Any], aimock: Aimock
) -> None:
    aimock.load([*(after(turn, calls(("look", {}))) for turn in range(6)), after(6, says("Done."))])
    async with CopilotRuntime(**scripted, tools=[look]) as runtime:
        assert runtime.meters
        child = asked("Look around.")
        await runtime.spawn(child, "the-parent", grant={"iterations": 3, "tool_calls": 9})
        async with asyncio.timeout(60):
            done = await runtime.wait(child.id)
        account = await runtime.account(child.id)
    assert done.failure is not None
    assert done.failure.code == "engine/max_iterations"
    assert "the parent granted max_iterations 3, so raise it there" in done.failure.message
    used: Any = done.metadata["engine/used"]
    assert used["spent"]["iterations"] == 3
    assert (account.spent.iterations, account.spent.tool_calls, account.known) == (3, 3, True)


async def test_a_session_that_is_killed_counts_with_its_whole_grant(
    scripted: Mapping[str, Any], aimock: Aimock
) -> None:
    """The CLI makes its calls without a reservation, so what the last one used is not known."""
    reached, go_on = asyncio.Event(), asyncio.Event()

    @tool(effect="write")
    async def hold() -> str:
        """Hold."""
        reached.set()
        await go_on.wait()
        return "held"

    aimock.load([after(0, calls(("hold", {}))), after(1, says("Done."))])
    async with CopilotRuntime(**scripted, tools=[hold]) as runtime:
        child = asked("Hold on.")
        await runtime.spawn(child, "the-parent", grant={"iterations": 9})
        await reached.wait()
        await runtime.kill(child.id)
        go_on.set()
        account = await runtime.account(child.id)
        state = (await runtime.store.load(child.id)).state
    assert (account.ended, account.known) == (True, False)
    assert json.loads(state or b"")["shares"] == {"blind": True}


async def test_a_raise_of_its_grant_lets_a_session_go_on(
    scripted: Mapping[str, Any], aimock: Aimock
) -> None:
    reached, go_on = asyncio.Event(), asyncio.Event()

    @tool(effect="none")
    async def hold() -> str:
        """Hold."""
        reached.set()
        await go_on.wait()
        return "held"

    aimock.load([after(0, calls(("hold", {}))), after(1, says("Done."))])
    async with CopilotRuntime(**scripted, tools=[hold]) as runtime:
        child = asked("Hold on.")
        await runtime.spawn(child, "the-parent", grant={"iterations": 1})
        await reached.wait()
        await runtime.regrant(child.id, {"iterations": 5}, 1)
        go_on.set()
        async with asyncio.timeout(60):
            done = await runtime.wait(child.id)
        account = await runtime.account(child.id)
    assert done.result == "Done.", done.failure
    assert account.spent.iterations == 2


async def test_what_was_used_cannot_come_in_with_a_task(scripted: Mapping[str, Any]) -> None:
    async with CopilotRuntime(**scripted) as runtime:
        with pytest.raises(CannotStart, match="engine/used"):
            await runtime.dispatch(asked("Go.", **{"engine/used": {"spent": {}}}))


async def test_a_cost_is_counted_by_the_prices_that_are_given(
    scripted: Mapping[str, Any], aimock: Aimock
) -> None:
    """Not by the CLI's own number, which is a multiplier and not money."""
    used = {"usage": {"prompt_tokens": 1_000, "completion_tokens": 10}}
    aimock.load([after(0, {**calls(("look", {})), **used}), after(1, {**says("Done."), **used})])
    prices = {scripted["model"]: Price(100.0, 1_000.0)}
    async with CopilotRuntime(
        **scripted, tools=[look], prices=prices, limits=Limits(max_cost=0.05)
    ) as runtime:
        done = await runtime.run(asked("Look around."))
        outcome = await runtime.outcome(done.id)
    assert done.failure is not None
    assert done.failure.code == "engine/max_cost"
    assert outcome.usage.cost >= 0.11


async def test_a_limit_of_cost_needs_a_price(scripted: Mapping[str, Any], aimock: Aimock) -> None:
    async with CopilotRuntime(**scripted, limits=Limits(max_cost=1.0)) as runtime:
        done = await runtime.run(asked("Hi."))
    assert done.failure is not None
    assert done.failure.code == "copilot/no_price"
    assert "prices=" in done.failure.message
    assert aimock.requests() == []

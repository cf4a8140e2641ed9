"""The usage of a failed call: nothing if it was refused; else counted, a bound, or not known."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from agentic_kernel import Task
from agentic_kernel_claude import ClaudePlanner, ClaudeRuntime
from agentic_kernel_conformance.planner_answers import ask
from agentic_kernel_conformance.planner_contexts import QUESTION, context, tools
from agentic_kernel_engine import Limits
from agentic_kernel_engine.loop import NOTHING_USED, PlannerError, Remaining, Usage
from agentic_kernel_engine.providers import Price
from integration.peers import acts
from integration.peers.faults import Fault
from integration.peers.faulty import FaultyServer

KEY = "sk-ant-very-secret-0123456789"


async def failed(server: FaultyServer, **options: Any) -> PlannerError:
    """The failure of a call at this server."""
    planner = ClaudePlanner("m", api_key=KEY, base_url=server.url, **options)
    with pytest.raises(PlannerError) as caught:
        await ask(planner, context(QUESTION, tools()))
    await planner.close()
    await asyncio.to_thread(server.wait_closed)
    return caught.value


PRICE = Price(2.0, 10.0)
COUNTED = Usage(7, 3, cost=7 * 2e-6 + 3 * 10e-6)
BOUND = Usage(7, 4096, cost=7 * 2e-6 + 4096 * 10e-6)
"""The input that was counted at the beginning, and the longest answer that was asked for."""
USED = {
    "status_400": NOTHING_USED,
    "status_401": NOTHING_USED,
    "status_404": NOTHING_USED,
    "quota": NOTHING_USED,
    "rate_limit": NOTHING_USED,
    "status_408": None,
    "status_500": None,
    "status_529": None,
    "closed": None,
    "not_json": None,
    "cut": BOUND,
    "breaks": BOUND,
    "ends_early": BOUND,
    "cut_in_call": COUNTED,
    "cut_in_text": COUNTED,
    "refused": COUNTED,
    "empty_answer": COUNTED,
}
"""By fault: the usage of the failed call; None if it is not known."""


async def test_a_cut_answer_without_a_limit_counts_the_maximum_that_its_request_named() -> None:
    with FaultyServer("cut") as server:
        usage = (await failed(server)).usage
        request = next(sent for sent in server.requests if sent.path == "/v1/messages")
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (7, request.json["max_tokens"])


@pytest.mark.parametrize("fault", USED)
async def test_a_failed_call_tells_its_usage(fault: str) -> None:
    with FaultyServer(fault) as server:
        error = await failed(server, prices={"m": Price(2.0, 10.0)}, max_tokens=4096)
    expected = USED[fault]
    assert (error.usage is None) == (expected is None)
    if error.usage is not None and expected is not None:
        assert msgspec.structs.replace(error.usage, cost=0.0) == msgspec.structs.replace(
            expected, cost=0.0
        )
        assert error.usage.cost == pytest.approx(expected.cost)


async def test_no_bound_is_told_if_the_server_runs_tools_of_its_own() -> None:
    """Its input may grow after it was counted."""
    own = {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}
    with FaultyServer("cut") as server:
        assert (await failed(server, extra_body=own)).usage is None
    with FaultyServer("closed", times=0) as server:
        planner = ClaudePlanner("m", api_key=KEY, base_url=server.url, extra_body=own)
        answer = await ask(planner, context(QUESTION, tools()))
        await planner.close()
    assert [piece.text for piece in answer.pieces] == ["All ", "is ", "well."]


async def test_a_server_that_is_not_there_used_nothing() -> None:
    planner = ClaudePlanner("m", api_key=KEY, base_url="http://127.0.0.1:9")
    with pytest.raises(PlannerError) as caught:
        await ask(planner, context(QUESTION, tools()))
    assert (caught.value.code, caught.value.usage) == ("claude/connection", NOTHING_USED)
    await planner.close()


async def test_a_pause_counts_the_input_and_the_longest_answer() -> None:
    """The stream is open, and no piece after the first one comes."""
    with FaultyServer("stall") as server:
        async with ClaudeRuntime(
            "m", api_key=KEY, base_url=server.url, max_tokens=50, timeout=10.0,
            prices={"m": Price(2.0, 10.0)}, limits=Limits(max_cost=1.0, max_seconds=0.5),
        ) as runtime:  # fmt: skip
            task = Task.new(summary="", instructions="Hi", runtime_kind="claude")
            done = await runtime.run(task)
            outcome = await runtime.outcome(task.id)
    assert done.failure is not None
    assert done.failure.code == "engine/timeout"
    (cut,) = [event for event in outcome.events if event.type == "run.cut"]
    assert cut.data["forfeited"] == {}
    assert (cut.data["usage"]["input_tokens"], cut.data["usage"]["output_tokens"]) == (7, 50)
    assert outcome.usage.cost == pytest.approx(7 * 2e-6 + 50 * 10e-6)


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        ((b"output_tokens",), {"input_tokens": 7, "output_tokens": 64}),
        ((b"input_tokens",), {"input_tokens": None, "output_tokens": 3}),
        ((b"input_tokens", b"output_tokens"), {"input_tokens": None, "output_tokens": 64}),
    ],
    ids=["no output", "no input", "neither"],
)
async def test_each_count_that_is_not_reported_counts_as_its_part_of_the_reservation(
    missing: tuple[bytes, ...], expected: dict[str, int | None]
) -> None:
    limited = context(QUESTION, tools(), remaining=Remaining(9, cost=1.0))
    with FaultyServer(Fault("no count", lambda each: acts.uncounted(each, *missing))) as server:
        planner = ClaudePlanner(
            "m", api_key=KEY, base_url=server.url, max_tokens=64, prices={"m": PRICE}
        )
        worst = planner.worst_case(limited)
        usage = (await ask(planner, limited)).plan.usage
        await planner.close()
    read = expected["input_tokens"] or worst.input_tokens
    assert worst.input_tokens > 7
    assert (usage.input_tokens, usage.output_tokens) == (read, expected["output_tokens"])
    assert usage.cost == pytest.approx(PRICE.cost(usage))

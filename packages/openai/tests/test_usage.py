"""The usage of a failed call: nothing if it was refused, what was counted, or not known."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_kernel import Task
from agentic_kernel_engine import Limits
from agentic_kernel_engine.loop import NOTHING_USED, Remaining, Usage
from agentic_kernel_engine.providers import Price
from agentic_kernel_openai import OpenAIRuntime
from integration.peers import acts
from integration.peers.exchange import Exchange
from integration.peers.faults import Fault
from integration.peers.faulty import FaultyServer

from .asking import KEY, ask, failure, planning, seen, without_tools
from .test_faults import every_api, fails

NAMES = {
    "responses": (b"input_tokens", b"output_tokens"),
    "chat": (b"prompt_tokens", b"completion_tokens"),
}
"""By API: the names of its counts."""
COUNTED = Usage(7, 3, cost=4.75e-05)
"""The usage that the peer reports, at the price of gpt-4o."""
USED = {
    "status_400": NOTHING_USED,
    "status_401": NOTHING_USED,
    "status_403": NOTHING_USED,
    "status_404": NOTHING_USED,
    "status_413": NOTHING_USED,
    "quota": NOTHING_USED,
    "rate_limit": NOTHING_USED,
    "status_409": None,
    "status_500": None,
    "status_502": None,
    "status_503": None,
    "status_529": None,
    "context_length": None,  # Azure charges for a prompt that it refuses after it has read it.
    "closed": None,
    "cut": None,
    "breaks": None,
    "ends_early": None,
    "not_json": None,
    "cut_in_call": COUNTED,
    "cut_in_text": COUNTED,
    "filtered": COUNTED,
    "empty_answer": COUNTED,
    "arguments_not_json": COUNTED,
}
"""By fault."""


@every_api
@pytest.mark.parametrize("fault", USED)
async def test_a_failed_call_tells_its_usage(api: str, fault: str) -> None:
    assert (await fails(api, fault)).usage == USED[fault]


@every_api
async def test_a_server_that_is_not_there_used_nothing(api: str) -> None:
    async with planning(api, "http://127.0.0.1:9") as planner:
        assert (await failure(planner, without_tools())).usage == NOTHING_USED


@every_api
async def test_a_call_that_was_not_sent_used_nothing(api: str) -> None:
    async with planning(api, "http://127.0.0.1:9", tool_choice="nowhere") as planner:
        assert (await failure(planner, seen())).usage == NOTHING_USED


@every_api
@pytest.mark.parametrize(("fault", "left"), [("status_401", 0.0), ("cut_in_text", COUNTED.cost)])
async def test_only_the_known_use_of_a_failed_call_is_spent(
    api: Any, fault: str, left: float
) -> None:
    """The worst case of the call is far more than that."""
    task = Task.new(summary="", instructions="Hi", runtime_kind="openai")
    with FaultyServer(fault) as peer:
        async with OpenAIRuntime(
            "gpt-4o", api=api, api_key=KEY, base_url=f"{peer.url}/v1",
            limits=Limits(max_cost=1.0),
        ) as runtime:  # fmt: skip
            assert (await runtime.run(task)).status == "failure"
            assert (await runtime.outcome(task.id)).usage.cost == left


@every_api
@pytest.mark.parametrize("missing", ["input", "output", "both"])
async def test_each_count_that_is_not_reported_counts_as_its_part_of_the_reservation(
    api: str, missing: str
) -> None:
    no_input, no_output = missing != "output", missing != "input"
    names = NAMES[api][not no_input : 1 + no_output]
    limited, price = without_tools(remaining=Remaining(9, cost=1.0)), Price(2.0, 10.0)
    with FaultyServer(Fault("no count", lambda each: acts.uncounted(each, *names))) as server:
        async with planning(api, server.url, max_tokens=64, prices={"gpt-4o": price}) as planner:
            worst = planner.worst_case(limited)
            usage = (await ask(planner, limited))[1].usage
    assert worst.input_tokens > 7
    assert usage.input_tokens == (worst.input_tokens if no_input else 7)
    assert usage.output_tokens == (64 if no_output else 3)
    assert usage.cost == pytest.approx(price.cost(usage))


@every_api
async def test_a_failed_call_with_a_part_of_its_usage_has_no_known_usage(api: str) -> None:
    def act(exchange: Exchange) -> None:
        pieces = exchange.wire.text(exchange.model, ["All "], "length")
        exchange.answer([piece.replace(NAMES[api][1], b"no_count") for piece in pieces])

    with FaultyServer(Fault("cut, without a count", act)) as server:
        async with planning(api, server.url) as planner:
            assert (await failure(planner, without_tools())).usage is None


async def test_the_reasoning_is_at_most_the_output() -> None:
    field = b'"reasoning_tokens":'

    def act(exchange: Exchange) -> None:
        exchange.answer(
            [each.replace(field, field + b'1000000000,"x":') for each in exchange.good()]
        )

    with FaultyServer(Fault("too much reasoning", act)) as server:
        async with planning("responses", server.url) as planner:
            usage = (await ask(planner, without_tools()))[1].usage
    assert (usage.output_tokens, usage.reasoning_tokens) == (3, 3)

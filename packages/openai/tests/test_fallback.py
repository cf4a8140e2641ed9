"""Another model answers if the first one has failed, in the same program."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_claude import ClaudePlanner
from agentic_kernel_engine import Limits
from agentic_kernel_openai import OpenAIRuntime
from integration.peers.exchange import Exchange
from integration.peers.faults import Fault
from integration.peers.faulty import FaultyServer


def only(model: str, status: int = 404, code: str = "model_not_found") -> Fault:
    """Answers for one model, and refuses all others."""

    def act(exchange: Exchange) -> None:
        if exchange.model == model:
            exchange.answer(exchange.good())
        else:
            error = {"error": {"message": "no", "code": code, "type": "invalid_request_error"}}
            exchange.answer([json.dumps(error).encode()], status, "application/json")

    return Fault("only one model", act)


async def ran(server: FaultyServer, *fallback: Any, **options: Any) -> Any:
    given: Any = {"api_key": "key-1", "base_url": f"{server.url}/v1", **options}
    async with OpenAIRuntime("gpt-5", fallback=fallback, **given) as runtime:
        return await runtime.run("Hi")


@pytest.mark.parametrize("api", ["responses", "chat"])
async def test_the_models_are_asked_in_their_order(api: Any) -> None:
    with FaultyServer(only("gpt-5-nano")) as server:
        done = await ran(server, "gpt-5-mini", "gpt-5-nano", api=api)
        assert done.unwrap() == "All is well."
        asked = [request.json["model"] for request in server.requests]
    assert asked == ["gpt-5", "gpt-5-mini", "gpt-5-nano"]


async def test_another_vendor_may_answer() -> None:
    with FaultyServer(only("claude-opus-5-5")) as server:
        given: Any = {"api_key": "none", "base_url": server.url}
        other = ClaudePlanner("claude-opus-5-5", **given, max_tokens=100)
        assert (await ran(server, other)).unwrap() == "All is well."


async def test_the_price_is_that_of_the_model_that_answered() -> None:
    with FaultyServer(only("gpt-5-nano")) as server:
        given: Any = {"api_key": "key-1", "base_url": f"{server.url}/v1"}
        limits = Limits(max_cost=1.0)
        async with OpenAIRuntime("gpt-5", fallback=["gpt-5-nano"], limits=limits, **given) as made:
            done = await made.run("Hi")
            cost = (await made.outcome(done.task.id)).usage.cost
    assert cost == pytest.approx((7 * 0.05 + 3 * 0.40) / 1e6)


@pytest.mark.parametrize(("status", "code"), [(401, "invalid_api_key"), (400, "invalid_request")])
async def test_no_other_model_is_asked_after_a_fault_of_the_caller(status: int, code: str) -> None:
    with FaultyServer(only("gpt-5-nano", status, code)) as server:
        done = await ran(server, "gpt-5-nano")
        assert done.task.failure is not None
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("given", "path"),
    [("gpt-5", "fallback"), (5, "fallback"), ([""], r"fallback\[0\]"), ([5], r"fallback\[0\]")],
)
def test_what_is_no_model_is_refused(given: Any, path: str) -> None:
    with pytest.raises(InvalidValue, match=path):
        OpenAIRuntime("gpt-5", fallback=given)

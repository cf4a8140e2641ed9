"""When a request is sent again, and when a call is made again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from agentic_kernel import Task
from agentic_kernel_engine.loop import Context, Plan, PlannerError, Usage
from agentic_kernel_engine.providers import ProviderRuntime, patient, sent
from agentic_kernel_engine.seams.middlewares import Retry

from .seen import seen


class Lost(Exception):
    """A connection that broke."""


WRITTEN = ("http11.send_request_headers.started", "http11.send_request_headers.complete")
UNWRITTEN = ("http11.send_request_headers.started", "http11.send_request_headers.failed")
ANSWERED = (*WRITTEN, "http11.receive_response_headers.complete")


async def tries(*ways: tuple[str, ...]) -> int:
    """The number of times that a request is sent whose n-th try gets this far and is then lost."""
    request: Any = SimpleNamespace(extensions={})
    made = 0

    async def send() -> None:
        nonlocal made
        way = ways[made]
        made += 1
        for event in way:
            trace = request.extensions.get("trace")  # As httpcore, which looks at each step.
            if trace is not None:
                await trace(event, {})
        raise Lost

    with pytest.raises(Lost):
        await sent(request, send, (Lost,))
    return made


@pytest.mark.parametrize(
    ("ways", "made"),
    [
        ((UNWRITTEN, UNWRITTEN, UNWRITTEN), 3),
        ((UNWRITTEN, WRITTEN), 2),
        ((WRITTEN,), 1),
        ((ANSWERED,), 1),
        ((("connection.connect_tcp.started", *UNWRITTEN),), 1),
    ],
    ids=["never written", "written at last", "written", "answered", "not a kept connection"],
)
async def test_only_a_request_of_which_no_byte_was_written_is_sent_again(
    ways: tuple[tuple[str, ...], ...], made: int
) -> None:
    assert await tries(*ways) == made


async def test_the_events_of_a_request_are_not_reported_after_its_first_byte() -> None:
    request: Any = SimpleNamespace(extensions={})

    async def send() -> None:
        for event in WRITTEN:
            assert "trace" in request.extensions
            await request.extensions["trace"](event, {})

    await sent(request, send, (Lost,))
    assert request.extensions == {}


@pytest.mark.parametrize(("asked", "waits"), [(45_000, 45.0), (119_000, 119.0), (121_000, None)])
async def test_a_wait_that_the_server_asks_for_is_kept(asked: int, waits: float | None) -> None:
    error = PlannerError("x/rate_limit", "slow down", {"retry_after_ms": asked})
    recovery = await patient("x").on_error(seen(), error)
    assert (None if recovery is None else recovery.delay) == waits


class Failing:
    """A planner that fails in a way that passes, and then answers."""

    impl = "x"

    def __init__(self) -> None:
        self.calls = 0

    def worst_case(self, context: Context) -> Usage:
        return Usage()

    async def plan(self, context: Context) -> Plan:
        from agentic_kernel_engine.loop import FinalAnswer

        self.calls += 1
        if self.calls == 1:
            raise PlannerError("x/overloaded", "busy")
        return Plan((FinalAnswer("Yes."),))

    async def close(self) -> None:
        return None


class Looking:
    """Middleware that only looks on."""

    async def on_run_end(self, *_: Any) -> None:
        return None


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({}, "success"),
        ({"middleware": [Looking()]}, "success"),
        ({"middleware": [Retry(["x/timeout"])]}, "failure"),
        ({"middleware": []}, "failure"),
    ],
    ids=["none given", "another", "a Retry of the user", "an empty one"],
)
async def test_middleware_of_the_user_does_not_end_the_repetitions(
    options: Any, status: str
) -> None:
    planner: Any = Failing()
    async with ProviderRuntime(planner, "x", (), None, options) as runtime:
        done = await runtime.run(Task.new(summary="", instructions="Hi", runtime_kind="x"))
    assert done.status == status

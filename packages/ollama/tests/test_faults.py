"""Every fault of the wire ends in the right code, leaves no connection, and tells no secret."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentic_kernel_engine.loop import PlannerError, ToolCall
from integration.peers.faulty import FaultyServer

from .asking import KEY, ask, failure, planning, seen

MODES = [pytest.param(True, id="stream"), pytest.param(False, id="whole")]
CODES = {
    "status_400": "invalid_request",
    "status_401": "authentication",
    "status_402": "quota",
    "status_403": "permission",
    "status_404": "not_found",
    "status_408": "timeout",
    "status_409": "server_error",
    "status_413": "request_too_large",
    "status_422": "invalid_request",
    "status_500": "server_error",
    "status_502": "server_error",
    "status_503": "overloaded",
    "status_504": "timeout",
    "status_529": "overloaded",
    "model_not_found": "model_not_found",
    "context_length": "context_length",
    "rate_limit": "rate_limit",
    "closed": "connection",
    "cut": "connection",
    "ends_early": "bad_response",
    "breaks": "server_error",
    "not_json": "bad_response",
    "not_json_body": "bad_response",
    "not_json_event": "bad_response",
    "other_json": "bad_response",
    "nothing": "bad_response",
    "gzip_bomb": "bad_response",
    "redirect_metadata": "bad_response",
    "redirect_ipv6": "bad_response",
    "redirect_mapped": "bad_response",
    "redirect_decimal": "bad_response",
    "redirect_octal": "bad_response",
    "secret_echoed": "authentication",
    "secret_in_stream": "server_error",
    "message_escapes": "invalid_request",
}
"""By fault; the same whether the answer is streamed or not."""
STREAMED = {
    "duplicated": "bad_response",
    "reversed": "bad_response",
    "arguments_not_json": "bad_response",
    "arguments_not_object": "bad_response",
    "arguments_nan": "bad_response",
    "arguments_surrogate": "bad_response",
    "arguments_deep": "bad_response",
    "cut_in_call": "bad_response",
    "cut_in_text": "max_tokens",
    "empty_answer": "bad_response",
}
"""Faults of streams. A cut call is one whose arguments, an object here, do not parse."""


async def failed(server: FaultyServer, **options: Any) -> PlannerError:
    """The failure of a call at this server, which leaves no connection."""
    async with planning(server.url, api_key=KEY, **options) as planner:
        error = await failure(planner, seen())
    assert KEY not in f"{error} {error.metadata} {error.__cause__}"
    await asyncio.to_thread(server.wait_closed)
    assert server.followed == 0
    return error


@pytest.mark.parametrize("stream", MODES)
@pytest.mark.parametrize("fault", CODES)
async def test_a_fault_has_its_code(fault: str, stream: bool) -> None:
    with FaultyServer(fault) as server:
        error = await failed(server, stream=stream)
    assert error.code == f"ollama/{CODES[fault]}"
    assert len(server.requests) == 1


@pytest.mark.parametrize("fault", STREAMED)
async def test_a_fault_of_a_stream_has_its_code(fault: str) -> None:
    with FaultyServer(fault) as server:
        error = await failed(server)
    assert error.code == f"ollama/{STREAMED[fault]}"


@pytest.mark.parametrize(
    ("fault", "stream"),
    [("hang", True), ("hang", False), ("hang_after_head", True), ("stall", True)],
)
async def test_a_silent_server_is_given_up(fault: str, stream: bool) -> None:
    with FaultyServer(fault) as server:
        error = await failed(server, stream=stream, timeout=0.2)
    assert error.code == "ollama/timeout"


@pytest.mark.slow
@pytest.mark.parametrize("stream", MODES)
async def test_a_response_without_an_end_is_refused(stream: bool) -> None:
    with FaultyServer("endless") as server:
        error = await failed(server, stream=stream)
    assert error.code == "ollama/bad_response"
    assert "67,108,864 bytes" in error.message


@pytest.mark.parametrize(
    ("fault", "wait"),
    [
        ("rate_limit", None),
        ("rate_limit_seconds", 2_000),
        ("rate_limit_ms", 2_000),
        ("rate_limit_huge", 86_400_000),
        ("rate_limit_negative", 0),
        ("rate_limit_words", None),
        ("rate_limit_injected", 2_000),
    ],
)
async def test_how_long_to_wait_is_told_if_the_server_says_it(fault: str, wait: int | None) -> None:
    with FaultyServer(fault) as server:
        error = await failed(server)
    assert error.code == "ollama/rate_limit"
    assert error.metadata is not None
    assert error.metadata.get("retry_after_ms") == wait
    assert error.metadata["status"] == 429


async def test_what_the_server_said_is_told_without_the_key() -> None:
    with FaultyServer("secret_echoed") as server:
        error = await failed(server)
    assert error.message == "Incorrect API key provided: [redacted]."


async def test_what_was_said_before_a_cut_is_told() -> None:
    with FaultyServer("cut_in_text") as server:
        error = await failed(server)
    assert error.metadata == {"text": "All is "}


async def test_a_call_is_what_the_server_sent_though_it_fits_nothing() -> None:
    """The Loop tells the model what does not fit."""
    with FaultyServer("arguments_misfit") as server:
        async with planning(server.url) as planner:
            _, plan = await ask(planner, seen())
    assert plan.actions == (ToolCall("add", {"a": "x"}, "call_0_0"),)
    with FaultyServer("unknown_tool") as server:
        async with planning(server.url) as planner:
            _, plan = await ask(planner, seen())
    assert plan.actions == (ToolCall("no_such_tool", {}, "call_0_0"),)


@pytest.mark.parametrize("fault", ["stall", "endless_text"])
async def test_leaving_a_stream_closes_its_connection(fault: str) -> None:
    with FaultyServer(fault) as server:
        async with planning(server.url) as planner:
            stream: Any = planner.plan(seen())
            async for _ in stream:
                break
            await asyncio.to_thread(server.wait_open, 1)
            await stream.aclose()
            await asyncio.to_thread(server.wait_closed)


@pytest.mark.parametrize("fault", ["hang", "hang_after_head", "stall"])
async def test_cancelling_a_call_closes_its_connection(fault: str) -> None:
    with FaultyServer(fault) as server:
        async with planning(server.url) as planner:
            call = asyncio.create_task(ask(planner, seen()))
            await asyncio.to_thread(server.wait_held)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await asyncio.to_thread(server.wait_closed)
            assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize(
    ("fault", "code"), [("breaks_open", "server_error"), ("other_json_open", "bad_response")]
)
async def test_an_error_in_a_stream_closes_its_connection(fault: str, code: str) -> None:
    """Though the server leaves the stream open, and the planner lives on."""
    with FaultyServer(fault) as peer:
        async with planning(peer.url) as planner:
            error = await failure(planner, seen())
            assert error.code == f"ollama/{code}"
            await asyncio.to_thread(peer.wait_closed)


async def test_events_without_a_piece_keep_no_call_alive() -> None:
    with FaultyServer("endless_silence") as peer:
        async with planning(peer.url, timeout=0.05) as planner:
            error = await failure(planner, seen())
        assert error.code == "ollama/timeout"

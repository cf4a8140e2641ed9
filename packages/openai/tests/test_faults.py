"""A fault at a server, or on the way, has a code."""

from __future__ import annotations

import asyncio
import logging
import time
from importlib import import_module
from typing import Any

import openai
import pytest

from agentic_kernel import Task
from agentic_kernel_engine import tool
from agentic_kernel_engine.loop import NOTHING_USED, Delta, FinalAnswer, Plan
from agentic_kernel_engine.providers import stream_events
from agentic_kernel_engine.providers.patience import Patience
from agentic_kernel_openai import OpenAIRuntime
from integration.peers.exchange import Exchange
from integration.peers.faults import Fault
from integration.peers.faulty import FaultyServer

from .asking import KEY, PLANNERS, ask, failure, planning, seen, without_tools

TIMEOUT = 0.3
ANY = {
    "status_400": "invalid_request",
    "status_401": "authentication",
    "status_402": "quota",
    "status_403": "permission",
    "status_404": "model_not_found",
    "status_408": "timeout",
    "status_409": "server_error",
    "status_413": "request_too_large",
    "status_422": "invalid_request",
    "status_500": "server_error",
    "status_502": "server_error",
    "status_503": "overloaded",
    "status_504": "timeout",
    "status_529": "overloaded",
    "context_length": "context_length",
    "quota": "quota",
    "rate_limit": "rate_limit",
    "rate_limit_control": "connection",
    "closed": "connection",
    "cut": "connection",
    "hang": "timeout",
    "hang_after_head": "timeout",
    "stall": "timeout",
    "breaks": "server_error",
    "ends_early": "bad_response",
    "not_json": "bad_response",
    "not_json_body": "bad_response",
    "not_json_event": "bad_response",
    "other_json": "bad_response",
    "nothing": "bad_response",
    "gzip_bomb": "bad_response",
}
STREAMED = {
    "endless": "bad_response",
    "arguments_not_json": "bad_response",
    "arguments_not_object": "bad_response",
    "arguments_nan": "bad_response",
    "arguments_surrogate": "bad_response",
    "arguments_deep": "bad_response",
    "cut_in_call": "max_tokens",
    "cut_in_text": "max_tokens",
    "filtered": "content_filter",
    "empty_answer": "bad_response",
}
REDIRECTS = ("metadata", "ipv6", "mapped", "decimal", "octal")

every_api = pytest.mark.parametrize("api", PLANNERS)


async def fails(api: str, fault: str, **options: Any) -> Any:
    """The failure of a planner at a fault, which leaves no connection."""
    with FaultyServer(fault) as peer:
        async with planning(api, peer.url, **{"timeout": 10.0, **options}) as planner:
            error = await failure(planner, seen())
        peer.wait_closed()
    assert KEY not in f"{error} {error.metadata} {error.__cause__}"
    assert peer.followed == 0
    return error


@every_api
@pytest.mark.parametrize("fault", ANY)
async def test_a_fault_has_its_code(api: str, fault: str) -> None:
    timeout = TIMEOUT if ANY[fault] == "timeout" else 10.0
    error = await fails(api, fault, timeout=timeout)
    assert error.code == f"openai/{ANY[fault]}"
    if fault.startswith("status_"):
        status = int(fault.removeprefix("status_"))
        assert error.metadata == {"status": status, "request_id": "req_peer"}


@every_api
@pytest.mark.parametrize("fault", [fault for fault in ANY if not fault.startswith("status_")])
async def test_a_fault_has_the_same_code_without_streaming(api: str, fault: str) -> None:
    timeout = TIMEOUT if ANY[fault] == "timeout" else 10.0
    error = await fails(api, fault, timeout=timeout, stream=False)
    assert error.code == f"openai/{ANY[fault]}"


@every_api
@pytest.mark.parametrize("fault", STREAMED)
async def test_a_fault_of_a_stream_has_its_code(api: str, fault: str) -> None:
    error = await fails(api, fault)
    assert error.code == f"openai/{STREAMED[fault]}"
    if fault == "cut_in_text":
        assert error.metadata == {"text": "All is ", "request_id": "req_peer"}


@every_api
async def test_a_body_without_an_end_is_left_where_it_is_too_long(api: str) -> None:
    error = await fails(api, "endless", stream=False)
    assert (error.code, "67,108,864" in error.message) == ("openai/bad_response", True)


@every_api
@pytest.mark.parametrize(
    ("fault", "wait"),
    [("seconds", 2_000), ("ms", 2_000), ("huge", 86_400_000), ("negative", 0), ("words", None)],
)
async def test_a_rate_limit_says_how_long_to_wait(api: str, fault: str, wait: int | None) -> None:
    error = await fails(api, f"rate_limit_{fault}")
    assert error.code == "openai/rate_limit"
    assert error.metadata.get("retry_after_ms") == wait


@every_api
@pytest.mark.parametrize("place", REDIRECTS)
async def test_a_redirect_is_not_followed(api: str, place: str) -> None:
    error = await fails(api, f"redirect_{place}")
    assert (error.code, "redirects" in error.message) == ("openai/bad_response", True)


@every_api
@pytest.mark.parametrize("fault", ["secret_echoed", "secret_in_stream"])
async def test_a_secret_that_the_server_echoes_is_not_told(
    api: str, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    error = await fails(api, fault)
    assert "[redacted]" in error.message
    assert KEY not in caplog.text


@every_api
async def test_no_event_and_no_note_of_a_task_has_the_secret(api: Any) -> None:
    task = Task.new(summary="", instructions="Hi", runtime_kind="openai")
    with FaultyServer("secret_in_stream") as peer:
        async with OpenAIRuntime(
            "gpt-4o",
            api=api,
            api_key=KEY,
            base_url=f"{peer.url}/v1",
            middleware=[],
        ) as runtime:
            done = await runtime.run(task)
            events = [event async for event in runtime.stream(task.id)]
    assert done.failure is not None
    assert done.failure.code == "openai/server_error"
    assert KEY not in f"{done} {events}"
    assert "[redacted]" in f"{events}"


@every_api
async def test_pieces_that_come_in_another_order_make_no_other_call(api: str) -> None:
    for fault in ("duplicated", "reversed"):
        with FaultyServer(fault) as peer:
            async with planning(api, peer.url) as planner:
                if api == "responses":
                    assert (await ask(planner, seen()))[1].actions == (FinalAnswer("All is well."),)
                else:
                    assert (await failure(planner, seen())).code == "openai/bad_response"


@every_api
async def test_a_server_that_is_not_there_is_a_failed_connection(api: str) -> None:
    async with planning(api, "http://127.0.0.1:9") as planner:
        error = await failure(planner, without_tools())
    assert error.code == "openai/connection"


@every_api
@pytest.mark.parametrize("library", ["httpx", "httpx2"])
async def test_a_client_with_either_http_library_has_the_same_codes(api: str, library: str) -> None:
    async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)

    writers: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    http = import_module(library)
    for address, code in ((port, "openai/timeout"), (9, "openai/connection")):
        async with http.AsyncClient(timeout=0.1) as own:
            client = openai.AsyncOpenAI(
                api_key=KEY, base_url=f"http://127.0.0.1:{address}/v1", http_client=own
            )
            planner = PLANNERS[api]("gpt-4o", client=client)
            error = await failure(planner, without_tools())
        assert error.code == code, error
        if code == "openai/connection":
            assert error.usage == NOTHING_USED
    for writer in writers:
        writer.close()
    server.close()


@tool(effect="none", inline=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@every_api
@pytest.mark.parametrize("fault", ["status_503", "closed", "cut", "arguments_not_json"])
async def test_what_passes_is_got_over(api: Any, fault: str) -> None:
    with FaultyServer(fault, times=1) as peer:
        async with OpenAIRuntime(
            "gpt-4o",
            api=api,
            api_key=KEY,
            base_url=f"{peer.url}/v1",
            tools=[add],
        ) as runtime:
            task = Task.new(summary="", instructions="Hi", runtime_kind="openai")
            assert (await runtime.run(task)).result == "All is well."
        assert len(peer.requests) == 2


@every_api
async def test_comments_of_a_stream_do_not_count_as_silence(
    api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK hides them, so only the HTTP client, which sees their bytes, waits `timeout`."""
    bounds: list[float] = []
    bounded = Patience.wait

    async def wait(self: Patience, seconds: float, awaited: Any) -> Any:
        bounds.append(seconds)
        return await bounded(self, seconds, awaited)

    monkeypatch.setattr(Patience, "wait", wait)
    with FaultyServer("closed", times=0) as peer:
        async with planning(api, peer.url, timeout=30.0) as planner:
            await ask(planner, without_tools())
    assert bounds[0] == 30.0
    assert 300.0 in bounds


@every_api
@pytest.mark.parametrize(
    ("fault", "code"), [("breaks_open", "server_error"), ("other_json_open", "bad_response")]
)
async def test_an_error_in_a_stream_closes_its_connection(api: str, fault: str, code: str) -> None:
    """Though the server leaves the stream open, and the planner lives on."""
    with FaultyServer(fault) as peer:
        async with planning(api, peer.url, timeout=10.0) as planner:
            error = await failure(planner, seen())
            assert error.code == f"openai/{code}"
            await asyncio.to_thread(peer.wait_closed)


@every_api
async def test_events_without_a_piece_keep_no_call_alive(api: str) -> None:
    error = await fails(api, "endless_silence", timeout=0.05)
    assert error.code == "openai/timeout"


@every_api
@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"error": "just text"}', "just text"),
        (b'{"detail": "model m is not loaded"}', "model m is not loaded"),
        (b"plain words", "plain words"),
        (b'[{"error": "of a list"}]', "of a list"),
    ],
)
async def test_an_error_body_of_any_form_is_told(api: str, body: bytes, said: str) -> None:
    fault = Fault("400 with a body", lambda exchange: exchange.answer([body], 400))
    with FaultyServer(fault) as peer:
        async with planning(api, peer.url) as planner:
            error = await failure(planner, seen())
    assert error.code == "openai/invalid_request"
    assert said in error.message


@pytest.mark.parametrize(
    "left_out", [("delta",), ("delta", "output_item", "content_part")], ids=str
)
async def test_text_that_only_the_last_event_has_is_shown_as_well(
    left_out: tuple[str, ...],
) -> None:
    def act(exchange: Exchange) -> None:
        exchange.answer(
            [
                piece
                for piece in exchange.good()
                if not any(each.encode() in piece[:80] for each in left_out)
            ]
        )

    with FaultyServer(Fault("an answer without some of its events", act)) as peer:
        async with planning("responses", peer.url) as planner:
            pieces = [each async for each in planner.plan(seen())]
    shown = "".join(each.text for each in pieces if isinstance(each, Delta) and not each.channel)
    (plan,) = (each for each in pieces if isinstance(each, Plan))
    assert plan.actions == (FinalAnswer(shown),)
    assert shown


@pytest.mark.parametrize(
    ("seconds", "held", "counted"),
    [
        pytest.param(0.0, True, True, id="open after the usage"),
        pytest.param(0.0, True, False, id="open without a usage"),
        pytest.param(0.3, True, True, id="open after a late usage"),
        pytest.param(0.0, False, True, id="cut after the usage"),
        pytest.param(0.0, False, False, id="cut without a usage"),
    ],
)
async def test_a_chat_that_has_its_end_is_an_answer_though_its_stream_has_none(
    seconds: float, held: bool, counted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last event is ``[DONE]``, and the usage comes before it."""
    if held and not counted:
        monkeypatch.setattr(stream_events, "USAGE_SECONDS", 0.05)

    def act(exchange: Exchange) -> None:
        exchange.head(200)
        *text, usage, _ = exchange.good()
        for piece in text:
            exchange.chunk(piece)
        time.sleep(seconds)
        if counted:
            exchange.chunk(usage)
        if held:
            exchange.hold()

    with FaultyServer(Fault("a stream without an end", act)) as peer:
        async with planning("chat", peer.url) as planner:
            _, plan = await ask(planner, without_tools())
            await asyncio.to_thread(peer.wait_closed)
    assert plan.actions == (FinalAnswer("All is well."),)
    assert (plan.usage.output_tokens > 0) == counted
    assert len(peer.requests) == 1


async def test_a_server_that_is_silent_for_its_timeout_after_the_end_has_answered() -> None:
    def act(exchange: Exchange) -> None:
        exchange.head(200)
        for piece in exchange.good()[:-2]:
            exchange.chunk(piece)
        exchange.hold()

    with FaultyServer(Fault("a stream without a usage and an end", act)) as peer:
        async with planning("chat", peer.url, timeout=TIMEOUT) as planner:
            _, plan = await ask(planner, without_tools())
    assert plan.actions == (FinalAnswer("All is well."),)


async def test_an_error_after_the_end_of_a_chat_is_a_failure() -> None:
    def act(exchange: Exchange) -> None:
        exchange.answer(exchange.good()[:-2] + exchange.wire.broken("The peer broke."))

    with FaultyServer(Fault("an error after the end", act)) as peer:
        async with planning("chat", peer.url) as planner:
            error = await failure(planner, without_tools())
    assert error.code == "openai/server_error"

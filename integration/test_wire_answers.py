"""Each provider reads the bytes of an answer as the standards say, or fails with the right code."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agentic_kernel_claude import ClaudePlanner
from agentic_kernel_conformance.planner_answers import ask
from agentic_kernel_conformance.planner_contexts import QUESTION, context
from agentic_kernel_engine.loop import FinalAnswer, PlannerError
from agentic_kernel_gemini import GeminiPlanner
from agentic_kernel_ollama import OllamaPlanner
from agentic_kernel_openai import OpenAIChatPlanner, OpenAIPlanner

from .peers.exchange import WELL, Exchange
from .peers.faults import Fault
from .peers.faulty import FaultyServer

Act = Callable[[Exchange], None]
Change = Callable[[bytes], bytes]
Asked = Callable[[Act], Awaitable[str | PlannerError]]

KEY = "sk-very-secret-0123456789"
MAKE: dict[str, Callable[..., Any]] = {
    "chat": lambda url, **options: OpenAIChatPlanner("m", base_url=f"{url}/v1", **options),
    "claude": lambda url, **options: ClaudePlanner("m", base_url=url, max_tokens=99, **options),
    "gemini": lambda url, **options: GeminiPlanner("m", base_url=url, **options),
    "ollama": lambda url, **options: OllamaPlanner("m", host=url, **options),
    "responses": lambda url, **options: OpenAIPlanner("m", base_url=f"{url}/v1", **options),
}
ANSWER = "".join(WELL)
BOM = b"\xef\xbb\xbf"

every = pytest.mark.parametrize("name", sorted(MAKE))
every_with_events = pytest.mark.parametrize(
    "name", [name for name in sorted(MAKE) if name != "ollama"]
)
both = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


@asynccontextmanager
async def asking(name: str, *, stream: bool = True) -> AsyncIterator[Asked]:
    """Yield a function that asks a planner, whose server acts in a given way.

    The function returns the text of the answer, or the failure. No connection is left.
    """
    with FaultyServer("closed") as server:
        planner = MAKE[name](server.url, api_key=KEY, stream=stream)

        async def asked(act: Act) -> str | PlannerError:
            server.play(Fault("an answer", act))
            try:
                answer = await ask(planner, context(QUESTION, []))
            except PlannerError as error:
                return error
            (final,) = answer.plan.actions
            assert isinstance(final, FinalAnswer)
            return str(final.output)

        try:
            yield asked
        finally:
            await planner.close()
            await asyncio.to_thread(server.wait_closed)


def told(outcome: str | PlannerError) -> str:
    """Return the name of a failure, without the provider; or the text of an answer."""
    if isinstance(outcome, PlannerError):
        return outcome.code.partition("/")[2]
    return f"answered {outcome!r}"


async def all_told(asked: Asked, acts: dict[str, Act]) -> dict[str, str]:
    return {case: told(await asked(act)) for case, act in acts.items()}


def answering(body: bytes, size: int = 0) -> Act:
    """Answer with this body, in pieces of this size, or in one."""
    step = size or len(body) or 1
    pieces = [body[at : at + step] for at in range(0, len(body), step)]
    return lambda exchange: exchange.answer(pieces)


def changed(change: Change, size: int = 0) -> Act:
    """Answer well, but with changed bytes."""
    return lambda exchange: answering(change(b"".join(exchange.good())), size)(exchange)


def saying(*pieces: str, change: Change = bytes, size: int = 0) -> Act:
    """Answer with a text whose characters JSON does not escape."""

    def act(exchange: Exchange) -> None:
        wire, model = exchange.wire, exchange.model
        streamed = wire.text(model, pieces) if exchange.streams else ()
        body = b"".join(streamed) or wire.whole(model, "".join(pieces))
        answering(change(_ESCAPES.sub(_plain, body)), size)(exchange)

    return act


_ESCAPES = re.compile(rb"(?:\\u[0-9a-f]{4})+")


def _plain(found: re.Match[bytes]) -> bytes:
    units = found[0].decode("unicode_escape")
    return units.encode("utf-16", "surrogatepass").decode("utf-16").encode()


def refusing(status: int, body: bytes, *headers: tuple[str, bytes]) -> Act:
    return lambda exchange: exchange.answer([body] if body else [], status, None, *headers)


@every
@both
async def test_a_byte_order_mark_before_an_answer_is_skipped(name: str, stream: bool) -> None:
    async with asking(name, stream=stream) as asked:
        for size in (0, 1):
            assert await asked(changed(lambda body: BOM + body, size)) == ANSWER


def _event_with(piece: str, body: bytes) -> int:
    """Return where the data of the event with this piece begins."""
    return body.rindex(b"data: ", 0, body.index(piece.encode()))


async def test_a_byte_order_mark_hides_no_first_piece() -> None:
    """Some servers of Chat Completions send no event before that of the first piece."""
    act = changed(lambda body: BOM + body[_event_with(WELL[0], body) :])
    async with asking("chat") as asked:
        assert await asked(act) == ANSWER


def _misspelled(field: bytes) -> Change:
    def change(body: bytes) -> bytes:
        at = _event_with(WELL[1], body)
        return body[:at] + field + body[at + len(b"data: ") :]

    return change


@every_with_events
async def test_a_misspelled_field_loses_no_piece(name: str) -> None:
    fields = [BOM + b"data: ", b" data: ", b"DATA: ", b"data : "]
    acts = {repr(field): changed(_misspelled(field)) for field in fields}
    async with asking(name) as asked:
        assert await all_told(asked, acts) == dict.fromkeys(acts, "bad_response")


@every
@both
async def test_bytes_that_are_not_utf_8_are_refused(name: str, stream: bool) -> None:
    def wrong(put: bytes) -> Act:
        return changed(lambda body: body.replace(b"is ", b"i" + put + b"s "))

    acts = {repr(put): wrong(put) for put in (b"\xff", b"\xe2\x82", b"\xed\xa0\x80", b"\xc0\xaf")}
    async with asking(name, stream=stream) as asked:
        assert await all_told(asked, acts) == dict.fromkeys(acts, "bad_response")


@every
@both
async def test_another_charset_of_the_header_changes_no_text(name: str, stream: bool) -> None:
    def act(exchange: Exchange) -> None:
        kind = "application/json; charset=latin-1"
        pieces = exchange.wire.text(exchange.model, ["Grüße"])
        whole = exchange.wire.whole(exchange.model, "Grüße")
        body = b"".join(pieces) if exchange.streams else whole
        exchange.answer([_ESCAPES.sub(_plain, body)], 200, kind)

    async with asking(name, stream=stream) as asked:
        assert await asked(act) == "Grüße"


@every
async def test_pieces_may_cut_a_character(name: str) -> None:
    async with asking(name) as asked:
        assert await asked(saying("Grüße \N{WATER WAVE}", "日本語", size=1)) == (
            "Grüße \N{WATER WAVE}日本語"
        )
        cut = saying("日本語", change=lambda body: body[: body.index("語".encode()) + 2])
        assert told(await asked(cut)) == "bad_response"


BODIES = {
    "arrays": b"[" * 5_000 + b"]" * 5_000,
    "cut": b'{"error": {"message": "no',
    "empty": b"",
    "html": b"<html><body>Bad gateway</body></html>",
    "list": b"[1, 2]",
    "not UTF-8": b'{"error": {"message": "caf\xe9"}}',
    "null": b"null",
    "number": b'{"error": {"code": ' + b"9" * 5_000 + b"}}",
    "objects": b'{"error":' * 3_000 + b"1" + b"}" * 3_000,
    "text": b'"no"',
}


@every
@both
async def test_a_status_is_the_failure_whatever_the_body_is(name: str, stream: bool) -> None:
    later = ("Retry-After", b"2")
    async with asking(name, stream=stream) as asked:
        for case, body in BODIES.items():
            bad = await asked(refusing(400, body))
            busy = await asked(refusing(503, body, later))
            assert (case, told(bad), told(busy)) == (case, "invalid_request", "overloaded")
            assert isinstance(bad, PlannerError)
            assert isinstance(busy, PlannerError)
            assert (bad.metadata or {})["status"] == 400
            assert (busy.metadata or {})["retry_after_ms"] == 2_000
            assert busy.message


@every
async def test_a_byte_order_mark_hides_no_code_of_an_error(name: str) -> None:
    def act(exchange: Exchange) -> None:
        refusing(400, BOM + exchange.wire.error(400, "too much", "context_length"))(exchange)

    async with asking(name) as asked:
        assert told(await asked(act)) == "context_length"


@every
@both
async def test_a_status_is_the_failure_if_the_body_is_not_read(name: str, stream: bool) -> None:
    def cut(exchange: Exchange) -> None:
        exchange.head(503)
        exchange.chunk(b'{"error"')

    def short(exchange: Exchange) -> None:
        exchange.send(b"HTTP/1.1 503 X\r\nContent-Length: 99\r\nConnection: close\r\n\r\n{}")

    packed = refusing(503, b"\x1f\x8b", ("Content-Encoding", b"gzip"))
    acts = {"cut": cut, "short": short, "packed": packed}
    async with asking(name, stream=stream) as asked:
        assert await all_told(asked, acts) == dict.fromkeys(acts, "overloaded")


def _of_length(more: int) -> Act:
    """Answer without the last piece, and with a length that is off."""

    def act(exchange: Exchange) -> None:
        pieces = exchange.wire.text(exchange.model, WELL)
        body = b"".join(pieces[: len(WELL)])
        kind = exchange.wire.streamed.encode()
        head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: " + kind
        exchange.send(head + b"\r\nContent-Length: %d\r\n\r\n" % (len(body) + more) + body)

    return act


@every
async def test_an_answer_that_cannot_be_read_to_its_end_is_none(name: str) -> None:
    def without_end(exchange: Exchange) -> None:
        exchange.answer(exchange.wire.text(exchange.model, WELL)[: len(WELL)])

    acts: dict[str, tuple[Act, str]] = {
        "packed": (refusing(200, b"\x1f\x8b", ("Content-Encoding", b"gzip")), "bad_response"),
        "longer": (_of_length(-20), "bad_response"),
        "shorter": (_of_length(20), "connection"),
        "without_end": (without_end, "bad_response"),
    }
    async with asking(name) as asked:
        for case, (act, code) in acts.items():
            assert (case, told(await asked(act))) == (case, code)


@every
async def test_a_second_end_changes_no_text(name: str) -> None:
    def act(exchange: Exchange) -> None:
        pieces = exchange.wire.text(exchange.model, WELL)
        exchange.answer([*pieces, pieces[-1]])

    async with asking(name) as asked:
        assert told(await asked(act)) in (f"answered {ANSWER!r}", "bad_response")


FORMS: dict[str, Change] = {
    "as it is": bytes,
    "blank lines": lambda body: b"\n\n" + body.replace(b"\n\n", b"\n\n\n\n\n"),
    "comments": lambda body: b": ping\n\n" + body.replace(b"\n\n", b"\n\n: ping\n\n:\n"),
    "comments in events": lambda body: body.replace(b"data: ", b": ping\ndata: "),
    "CR": lambda body: body.replace(b"\n", b"\r"),
    "CR LF": lambda body: body.replace(b"\n", b"\r\n"),
    "done": lambda body: body + b"data: [DONE]\n\n",
    "empty data": lambda body: body.replace(b"\n\n", b"\n\ndata:\n\n"),
    "ids": lambda body: body.replace(b"data: ", b"id: 7\nretry: 99\ndata: "),
    "no names": lambda body: re.sub(rb"event: [^\n]*\n", b"", body),
    "no space": lambda body: body.replace(b"data: ", b"data:"),
    "several lines": lambda body: body.replace(b"data: {", b"data: {\ndata: "),
    "unknown fields": lambda body: body.replace(b"data: ", b"x-trace: 7\nword\ndata: "),
    "without the last blank line": lambda body: body.rstrip(b"\n"),
}


@every_with_events
async def test_a_stream_is_read_as_its_standard_says(name: str) -> None:
    good = f"answered {ANSWER!r}"
    async with asking(name) as asked:
        for size in (0, 64):
            acts = {case: changed(change, size) for case, change in FORMS.items()}
            assert await all_told(asked, acts) == dict.fromkeys(acts, good)


@pytest.mark.torture
@every_with_events
@pytest.mark.parametrize("form", sorted(FORMS))
async def test_a_stream_in_single_bytes_is_read_as_its_standard_says(name: str, form: str) -> None:
    async with asking(name) as asked:
        assert await asked(changed(FORMS[form], 1)) == ANSWER


async def test_blank_lines_of_ollama_are_skipped() -> None:
    async with asking("ollama") as asked:
        blank = changed(lambda body: b"\n" + body.replace(b"\n", b"\n \r\n\n"))
        assert await asked(blank) == ANSWER


ERRORS = {
    "google": b'{"error": {"code": 503, "message": "busy now", "status": "UNAVAILABLE"}}',
    "later": b'{"type": "error", "error": {"code": "503", "message": "busy now"}}',
    "plain": b'{"code": 503, "message": "busy now"}',
    "text": b"busy now",
    "JSON text": b'"busy now"',
    "text as error": b'{"error": "busy now"}',
}
CODED = ("google", "later", "plain")


def _ending(last: bytes) -> Act:
    """Begin to answer, and end with these lines."""

    def act(exchange: Exchange) -> None:
        exchange.answer([*exchange.wire.text(exchange.model, WELL)[:2], last])

    return act


@every_with_events
async def test_an_error_event_is_the_failure_that_it_says(name: str) -> None:
    async with asking(name) as asked:
        for case, error in ERRORS.items():
            failed = await asked(_ending(b"event: error\ndata: " + error + b"\n\n"))
            assert isinstance(failed, PlannerError), (case, failed)
            assert "busy now" in failed.message, (case, failed)
            if name == "gemini":
                code = "overloaded" if case in CODED else "server_error"
                assert (case, told(failed)) == (case, code)


@every_with_events
async def test_an_error_without_a_field_is_the_failure_that_it_says(name: str) -> None:
    error = b'{\n  "error": {\n    "code": 503,\n    "message": "busy now"\n  }\n}\n'
    async with asking(name) as asked:
        failed = await asked(_ending(error))
    assert isinstance(failed, PlannerError)
    assert told(failed) in ("overloaded", "bad_response")

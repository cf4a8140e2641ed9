"""Faults: each single thing that can go wrong on the wire, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Final

from . import acts
from .exchange import Exchange

RETRY_SECONDS: Final = 2
"""What a rate limit asks to wait, in every form."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to answer badly."""

    says: str
    """What happens, in words."""
    act: Callable[[Exchange], None]
    holds: bool = False
    """Whether it goes no further until the other side gives up."""


def _refusing(status: int, code: str | None = None, reason: str = "") -> Fault:
    return Fault(
        f"{status}{reason}, with the vendor's error body",
        lambda exchange: exchange.refuse(status, "The peer refuses.", code=code),
    )


def _limiting(says: str, name: str, value: Callable[[], bytes]) -> Fault:
    return Fault(
        f"429 with {says}",
        lambda exchange: exchange.refuse(429, "Too many requests.", (name, value())),
    )


def _in_an_hour() -> bytes:
    return format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True).encode()


def _in_a_moment() -> bytes:
    when = datetime.now(UTC) + timedelta(seconds=RETRY_SECONDS + 1)
    return format_datetime(when, usegmt=True).encode()


def _redirecting(says: str, host: str, port: int | None = None) -> Fault:
    """The address is private; where it is this machine, the peer sees if it is followed."""

    def act(exchange: Exchange) -> None:
        place = f"http://{host}:{port or exchange.port}/redirected{exchange.wire.path}"
        exchange.answer([], 307, "text/plain", ("Location", place.encode()))

    return Fault(f"a redirect to {says}", act)


def _calling(says: str, tool: str, *arguments: str) -> Fault:
    def act(exchange: Exchange) -> None:
        exchange.answer(exchange.wire.call(exchange.model, tool, arguments))

    return Fault(says, act)


FAULTS: Final[dict[str, Fault]] = {
    **{
        f"status_{status}": _refusing(status)
        for status in (400, 401, 402, 403, 404, 408, 409, 413, 422, 500, 502, 503, 504, 529)
    },
    "model_not_found": Fault(
        "404 for a model that is not there, with the vendor's error body",
        lambda exchange: exchange.refuse(404, exchange.model, code="model"),
    ),
    "context_length": _refusing(400, "context_length", " for a context that is full"),
    "quota": _refusing(429, "quota", " for credit that is used up"),
    "rate_limit": _refusing(429),
    "rate_limit_seconds": _limiting("Retry-After in seconds", "Retry-After", lambda: b"2"),
    "rate_limit_date": _limiting("Retry-After as a date", "Retry-After", _in_a_moment),
    "rate_limit_ms": _limiting("retry-after-ms", "retry-after-ms", lambda: b"2000"),
    "rate_limit_hour": _limiting("a date in an hour", "Retry-After", _in_an_hour),
    "rate_limit_huge": _limiting("1e999 seconds", "Retry-After", lambda: b"1e999"),
    "rate_limit_negative": _limiting("-5 seconds", "Retry-After", lambda: b"-5"),
    "rate_limit_words": _limiting("words for a time", "Retry-After", lambda: b"soon"),
    "rate_limit_injected": _limiting(
        "CR LF and a header in Retry-After", "Retry-After", lambda: b"2\r\nX-Injected: yes"
    ),
    "rate_limit_control": _limiting(
        "control characters in Retry-After", "Retry-After", lambda: b"2\r\x01\x0b"
    ),
    "closed": Fault("the connection is closed without an answer", acts.close),
    "hang": Fault("the request is read and never answered", acts.hang, holds=True),
    "hang_after_head": Fault("headers come, and nothing after", acts.hang_after_head, holds=True),
    "stall": Fault("the stream stops in the middle and stays open", acts.stall, holds=True),
    "cut": Fault("the stream is cut in the middle", acts.cut),
    "ends_early": Fault("the stream ends properly, without the answer's end", acts.end_early),
    "duplicated": Fault("every piece comes twice", acts.repeat),
    "reordered": Fault("two pieces in the middle have changed places", acts.reorder),
    "reversed": Fault("the pieces come from last to first", acts.reverse),
    "breaks": Fault("an error is reported in the middle of the stream", acts.break_off),
    "not_json": Fault("200 with a web page", acts.mislead),
    "not_json_body": Fault("200 with a body that says that it is JSON", acts.garble_plainly),
    "not_json_event": Fault("an event that is not JSON", acts.garble),
    "other_json": Fault("JSON of another form", acts.misshape),
    "nothing": Fault("200 with an empty body", acts.say_nothing),
    "endless": Fault("a body without an end and without a newline", acts.endless),
    "endless_text": Fault("a well-formed answer that does not end", acts.endless_text),
    "gzip_bomb": Fault("1 GiB in one line, gzipped to 1 MB", acts.detonate),
    "redirect_metadata": _redirecting("169.254.169.254", "169.254.169.254", 80),
    "redirect_ipv6": _redirecting("[::1]", "[::1]"),
    "redirect_mapped": _redirecting("[::ffff:127.0.0.1]", "[::ffff:127.0.0.1]"),
    "redirect_decimal": _redirecting("2130706433", "2130706433"),
    "redirect_octal": _redirecting("0177.0.0.1", "0177.0.0.1"),
    "secret_echoed": Fault("401 with the key in its message", acts.echo),
    "secret_in_stream": Fault(
        "an error in the stream with the key in its message", acts.echo_in_stream
    ),
    "message_escapes": Fault("400 with terminal escapes in its message", acts.escape),
    "arguments_not_json": _calling(
        "a call whose arguments do not parse", "add", '{"a": 1, ', "nope"
    ),
    "arguments_not_object": _calling("a call whose arguments are a list", "add", "[1, ", "2]"),
    "arguments_nan": _calling("a call with NaN in its arguments", "add", '{"a": NaN, "b": 1}'),
    "arguments_misfit": _calling("a call that does not fit the schema", "add", '{"a": "x"}'),
    "arguments_twice": _calling("a call with one key twice", "add", '{"a": 1, "a": 2, "b": 1}'),
    "arguments_surrogate": _calling(
        "a call with a lone surrogate", "add", '{"a": 1, "b": 2, "c": "\\ud800"}'
    ),
    "arguments_deep": _calling(
        "a call nested 5,000 deep", "add", '{"a": ' + "[" * 5_000 + "]" * 5_000 + "}"
    ),
    "unknown_tool": _calling("a call of a tool that does not exist", "no_such_tool", "{}"),
    "cut_in_call": Fault("the limit cuts a call of a tool in the middle", acts.cut_call),
    "cut_in_text": Fault("the limit cuts the answer in the middle", acts.cut_text),
    "filtered": Fault("a filter ends the answer", acts.filtered),
    "refused": Fault("the model refuses", acts.refuse),
    "empty_answer": Fault("a well-formed answer with nothing in it", acts.empty),
}
"""What `FaultyServer` can do."""

MORE: Final[dict[str, Fault]] = {
    "breaks_open": Fault(
        "an error is reported in the middle of the stream, which stays open",
        acts.break_off_open,
        holds=True,
    ),
    "other_json_open": Fault(
        "JSON of another form in the middle of the stream, which stays open",
        acts.misshape_open,
        holds=True,
    ),
    "endless_silence": Fault("events without a piece, without an end", acts.endless_silence),
}
"""What `FaultyServer` can do beside it, for tests of a connection rather than of a code."""

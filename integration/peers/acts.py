"""Acts: how an exchange is answered badly, one way each; see `FAULTS` for what each of them is."""

from __future__ import annotations

from typing import Final

from .bomb import MIB, bomb
from .exchange import Exchange

ENDLESS_MIB: Final = 256
"""Where the body that does not end ends after all, for a reader that takes all of it."""


def _half(pieces: list[bytes]) -> list[bytes]:
    if len(pieces) == 1:
        return [pieces[0][: len(pieces[0]) // 2]]
    return pieces[: len(pieces) // 2]


def hang(exchange: Exchange) -> None:
    exchange.hold()


def hang_after_head(exchange: Exchange) -> None:
    exchange.head(200)
    exchange.hold()


def stall(exchange: Exchange) -> None:
    exchange.head(200)
    for piece in _half(exchange.good()):
        exchange.chunk(piece)
    exchange.hold()


def cut(exchange: Exchange) -> None:
    exchange.head(200)
    for piece in _half(exchange.good()):
        exchange.chunk(piece)


def close(exchange: Exchange) -> None:
    """Nothing is sent; the connection is closed after this."""


def end_early(exchange: Exchange) -> None:
    exchange.answer(_half(exchange.good()))


def repeat(exchange: Exchange) -> None:
    exchange.answer([piece for piece in exchange.good() for _ in range(2)])


def reorder(exchange: Exchange) -> None:
    pieces = exchange.good()
    at = max(len(pieces) // 2, 1)
    pieces[at - 1 : at + 1] = reversed(pieces[at - 1 : at + 1])
    exchange.answer(pieces)


def reverse(exchange: Exchange) -> None:
    exchange.answer(reversed(exchange.good()))


def break_off(exchange: Exchange) -> None:
    if exchange.streams:
        exchange.answer(_half(exchange.good()) + exchange.wire.broken("The peer broke."))
    else:
        exchange.refuse(500, "The peer broke.")


def break_off_open(exchange: Exchange) -> None:
    exchange.head(200)
    for piece in _half(exchange.good()) + exchange.wire.broken("The peer broke."):
        exchange.chunk(piece)
    exchange.hold()


def misshape_open(exchange: Exchange) -> None:
    """JSON of another form behind good pieces."""
    exchange.head(200)
    data = b'{"candidates": "x", "choices": 3, "type": 5, "output": "x", "message": 3}\n'
    named = b"event: message_delta\ndata: " + data + b"\n"
    is_events = exchange.wire.streamed == "text/event-stream"
    for piece in [*_half(exchange.good()), named if is_events else data]:
        exchange.chunk(piece)
    exchange.hold()


def mislead(exchange: Exchange) -> None:
    exchange.answer([b"<html><body>It works!</body></html>"], 200, "text/html")


def garble(exchange: Exchange) -> None:
    line = b"{this is: not JSON\n"
    is_events = exchange.wire.streamed == "text/event-stream"
    exchange.answer([b"event: ping\ndata: " + line + b"\n" if is_events else line])


def garble_plainly(exchange: Exchange) -> None:
    exchange.answer([b"{this is: not JSON"], 200, "application/json")


def misshape(exchange: Exchange) -> None:
    """JSON of another form."""
    data = b'[1, null, {"choices": 3, "type": 5, "output": "x"}]\n'
    is_events = exchange.streams and exchange.wire.streamed == "text/event-stream"
    exchange.answer([b"data: " + data + b"\n" if is_events else data])


def say_nothing(exchange: Exchange) -> None:
    exchange.answer([])


def endless(exchange: Exchange) -> None:
    exchange.head(200)
    exchange.chunk(b"data: " if exchange.streams else b'{"x": "')
    for _ in range(16 * ENDLESS_MIB):
        exchange.chunk(b"a" * (MIB // 16))


def endless_text(exchange: Exchange) -> None:
    """Well formed and without an end: the same piece of text for ever."""
    pieces = exchange.wire.text(exchange.model, ["a" * (MIB // 16)] * 2)
    middle = next(at for at, piece in enumerate(pieces) if b"aaa" in piece)
    exchange.head(200)
    for piece in pieces[:middle]:
        exchange.chunk(piece)
    for _ in range(16 * ENDLESS_MIB):
        exchange.chunk(pieces[middle])


def endless_silence(exchange: Exchange) -> None:
    """Well formed and without an end: pieces of text without a character."""
    pieces = exchange.wire.text(exchange.model, ["a-mark"])
    middle = next(at for at, piece in enumerate(pieces) if b"a-mark" in piece)
    exchange.head(200)
    for piece in pieces[: middle + 1]:
        exchange.chunk(piece)
    while True:  # Until the other side gives up.
        exchange.chunk(pieces[middle].replace(b"a-mark", b""))


def detonate(exchange: Exchange) -> None:
    exchange.answer(bomb(), 200, None, ("Content-Encoding", b"gzip"))


def echo(exchange: Exchange) -> None:
    exchange.refuse(401, f"Incorrect API key provided: {exchange.secret}.")


def echo_in_stream(exchange: Exchange) -> None:
    message = f"Internal error for key {exchange.secret}."
    if exchange.streams:
        exchange.answer(_half(exchange.good()) + exchange.wire.broken(message))
    else:
        exchange.refuse(500, message)


def escape(exchange: Exchange) -> None:
    exchange.refuse(400, "bad \x1b[31m\r\nrequest\u202e")


def cut_call(exchange: Exchange) -> None:
    exchange.answer(exchange.wire.call(exchange.model, "add", ['{"a": 1', ', "b'], "length"))


def refuse(exchange: Exchange) -> None:
    exchange.answer(exchange.wire.refusal(exchange.model, "I cannot help with that."))


def filtered(exchange: Exchange) -> None:
    exchange.answer(exchange.wire.text(exchange.model, ["All "], "filtered"))


def cut_text(exchange: Exchange) -> None:
    exchange.answer(exchange.wire.text(exchange.model, ["All ", "is "], "length"))


def empty(exchange: Exchange) -> None:
    exchange.answer(exchange.wire.text(exchange.model, []))


def uncounted(exchange: Exchange, *names: bytes) -> None:
    """A good answer whose usage lacks these counts."""
    pieces = exchange.good()
    for name in names:
        pieces = [piece.replace(b'"' + name + b'"', b'"no_count"') for piece in pieces]
    exchange.answer(pieces)

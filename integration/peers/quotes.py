"""Quotes: a server that gives the key it was sent back, in every place and form.

A Task is run at it, and whatever it leaves, events, records on disk and log records, is searched.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Final
from urllib.parse import quote

from .exchange import Exchange
from .faults import Fault

KEY: Final = "sk-quoted-Zq8+/w=Xr7Yv6"
"""The key to send."""


def _each(form: str) -> Callable[[str], str]:
    return lambda key: "".join(form.format(ord(character)) for character in key)


FORMS: Final[Mapping[str, Callable[[str], str]]] = {
    "plain": str,
    "hex": lambda key: key.encode().hex(),
    "base64": lambda key: base64.b64encode(key.encode()).decode(),
    "base64_of_header": lambda key: base64.b64encode(f"Bearer {key}".encode()).decode(),
    "base64_for_urls": lambda key: base64.urlsafe_b64encode(key.encode()).decode(),
    "url": lambda key: quote(key, safe=""),
    "every_url": _each("%{:02X}"),
    "json": lambda key: json.dumps(key).replace("/", "\\/")[1:-1],
    "unicode": _each("\\u{:04x}"),
    "unicode_in_json": lambda key: json.dumps(_each("\\u{:04x}")(key))[1:-1],
    "entities": _each("&#{};"),
}
"""What may become of a key on its way."""


def _pieces(text: str) -> list[str]:
    return [text[at : at + 3] for at in range(0, len(text), 3)]


def _text(exchange: Exchange, said: str) -> None:
    exchange.answer(exchange.wire.text(exchange.model, _pieces(f"it is {said}, so")))


def _end(exchange: Exchange, said: str) -> None:
    exchange.answer(exchange.wire.text(exchange.model, _pieces(said)))


def _model(exchange: Exchange, said: str) -> None:
    exchange.answer(exchange.wire.text(said, ["All is well."]))


def _tool(exchange: Exchange, said: str) -> None:
    exchange.answer(exchange.wire.call(exchange.model, said, ["{}"]))


def _arguments(exchange: Exchange, said: str) -> None:
    arguments = json.dumps({"text": f"it is {said}", said: [said]})
    exchange.answer(exchange.wire.call(exchange.model, "add", _pieces(arguments)))


def _cut(exchange: Exchange, said: str) -> None:
    exchange.answer(exchange.wire.text(exchange.model, _pieces(f"it is {said}"), "length"))


def _error(exchange: Exchange, said: str) -> None:
    exchange.refuse(401, f"the key {said} is wrong", ("x-request-id", said.encode()))


def _stream_error(exchange: Exchange, said: str) -> None:
    if exchange.streams:
        exchange.answer(exchange.wire.broken(f"the key {said} is wrong"))
    else:
        exchange.refuse(500, f"the key {said} is wrong")


def _headers(exchange: Exchange, said: str) -> None:
    exchange.answer(
        exchange.good(),
        200,
        None,
        ("set-cookie", b"session=cookie-of-the-peer"),
        ("x-request-id", said.encode()),
        ("x-echo", said.encode()),
        ("authorization", f"Bearer {said}".encode()),
    )


_PLACES: Final = {
    "text": _text, "end": _end, "model": _model, "tool": _tool, "arguments": _arguments,
    "cut": _cut, "error": _error, "stream_error": _stream_error, "headers": _headers,
}  # fmt: skip


def _fault(place: str, form: str) -> Fault:
    act, made = _PLACES[place], FORMS[form]
    return Fault(
        f"the key, {form}, in the {place}", lambda exchange: act(exchange, made(exchange.secret))
    )


QUOTES: Final[Mapping[str, Fault]] = {
    f"{place}-{form}": _fault(place, form) for place in _PLACES for form in FORMS
}
"""For a `FaultyServer`, by place and form."""


def leaks(told: str) -> Iterator[str]:
    """The names of the forms of `KEY` that a text has more than a few characters of."""
    plain = told.replace("\\\\", "\\").replace("\\\\", "\\")
    for name, form in FORMS.items():
        hidden = form(KEY)
        size = len(hidden) * 3 // 4
        if any(
            hidden[at : at + size] in text
            for text in (told, plain)
            for at in range(len(hidden) - size + 1)
        ):
            yield name
    if "cookie-of-the-peer" in told:
        yield "cookie"

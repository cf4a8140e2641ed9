"""Endpoint: one request of an API, and where each argument goes in it."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from string import Formatter
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode, urlsplit

import msgspec

from agentic_kernel import InvalidValue
from agentic_kernel.frozen import freeze
from agentic_kernel_engine.edges import choice, entries, several
from agentic_kernel_engine.values import check

from ..port import NoEffect

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
LONGEST: Final = 2_000
"""The most characters of one argument in a path or a query."""
LONGEST_TARGET: Final = 32_000
"""The most characters of a path with its query, after the encoding."""
_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_VALUE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,8000}[\x21-\x7e])?")
_OURS: Final = frozenset(
    "host connection content-length content-type transfer-encoding te trailer upgrade expect "
    "accept-encoding proxy-authorization proxy-connection keep-alive".split()
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One request. The method, the host and the headers come from here, never from a call.

    Args:
        method: ``GET``, ``HEAD``, ``POST``, ``PUT``, ``PATCH`` or ``DELETE``.
        url: Without a query. ``{name}`` in its path stands for an argument, percent-encoded, so
            that it stays one segment.
        query: The arguments that go to the query.
        headers: Sent with each request, also secrets. They go to this host alone.

    All other arguments are the JSON object of the body; a ``GET`` or ``HEAD`` refuses them.

    Raises:
        InvalidValue: A part is wrong.
    """

    method: str
    url: str
    query: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        choice(self.method, "endpoint.method", METHODS)
        query = tuple(several(self.query, "endpoint.query", "names"))
        if not all(isinstance(name, str) and name for name in query):
            raise InvalidValue("endpoint.query", "must be names of arguments, such as ('page',)")
        object.__setattr__(self, "query", query)
        if not isinstance(self.url, str):
            raise InvalidValue("endpoint.url", f"must be a text, not {type(self.url).__name__}")
        parts = urlsplit(self.url)
        if parts.query or parts.fragment or "?" in self.url or "#" in self.url:
            raise InvalidValue("endpoint.url", "has a query or a fragment; list names under query")
        if set("{}") & set(parts.netloc) or not parts.path.startswith("/"):
            raise InvalidValue(
                "endpoint.url", "must be https://host/path, with arguments in the path only"
            )
        if not re.fullmatch(r"[\x21-\x7e]+", self.url) or "\\" in self.url:
            raise InvalidValue("endpoint.url", "must be ASCII without spaces")
        if any(name in self.query for name in self.path_names):
            raise InvalidValue("endpoint.query", "has an argument that is in the path, too")
        # A copy, because a change after the check would not be checked.
        headers = dict(entries(self.headers, "endpoint.headers"))
        for name, value in headers.items():
            header_name(name, "endpoint.headers")
            if not isinstance(value, str) or not _VALUE.fullmatch(value):
                raise InvalidValue(
                    f"endpoint.headers[{name}]", "must be visible ASCII in one line, up to 8,000"
                )
        if len({name.lower() for name in headers}) < len(headers):
            raise InvalidValue("endpoint.headers", "has a name twice, in two cases; remove one")
        object.__setattr__(self, "headers", freeze(headers, "endpoint.headers"))

    @property
    def path_names(self) -> tuple[str, ...]:
        """The arguments in the path."""
        try:
            parsed = list(Formatter().parse(urlsplit(self.url).path))
        except ValueError:
            raise InvalidValue("endpoint.url", "has a brace without its other half") from None
        for _, name, form, conversion in parsed:
            if name is not None and (form or conversion or not name.isidentifier()):
                raise InvalidValue("endpoint.url", "each {name} is the plain name of an argument")
        return tuple(name for _, name, _, _ in parsed if name is not None)

    def target(self, arguments: Mapping[str, Any]) -> str:
        """The path and the query of a call.

        Raises:
            NoEffect: An argument is missing or cannot stand there.
        """
        path = urlsplit(self.url).path
        filled = path.format_map({name: _segment(name, arguments) for name in self.path_names})
        pairs = [
            (name, value)
            for name in self.query
            if name in arguments
            for value in _several(name, arguments[name])
        ]
        whole = f"{filled}?{urlencode(pairs, quote_via=quote)}" if pairs else filled
        if len(whole) > LONGEST_TARGET:
            raise NoEffect(
                f"the path and the query have {len(whole):,} characters; use up to "
                f"{LONGEST_TARGET:,}; nothing was sent",
                "guard/http_argument",
            )
        return whole

    def body(self, arguments: Mapping[str, Any]) -> bytes | None:
        """The body of a call, as JSON; None without one.

        Raises:
            NoEffect: The method has no body, and an argument is left; or an argument has no form
                in JSON, e.g. a number that is not finite.
        """
        placed: Collection[str] = {*self.path_names, *self.query}
        rest = {name: value for name, value in arguments.items() if name not in placed}
        if self.method in ("GET", "HEAD"):
            if rest:
                raise _refused(min(rest), "has no place in a request without a body")
            return None
        if not rest and self.method == "DELETE":
            return None
        try:
            check(rest, "arguments")
            return msgspec.json.encode(rest)
        except (InvalidValue, TypeError, ValueError, OverflowError, RecursionError) as error:
            why = str(error) if isinstance(error, InvalidValue) else type(error).__name__
            raise NoEffect(
                f"the arguments have no form in JSON: {why:.400}; nothing was sent",
                "guard/http_argument",
            ) from None


def header_name(name: object, what: str) -> str:
    """Check the name of a header that the operator gives.

    Raises:
        InvalidValue: It is no name, or a header that the driver sets itself.
    """
    if not isinstance(name, str) or not _TOKEN.fullmatch(name) or name.lower() in _OURS:
        raise InvalidValue(
            what,
            f"cannot have {name!a:.80}; use a name that HTTP allows and the driver does not set",
        )
    return name


def _segment(name: str, arguments: Mapping[str, Any]) -> str:
    if name not in arguments:
        raise _refused(name, "is missing; the path needs it")
    text = _text(name, arguments[name])
    if text in ("", "."):
        raise _refused(name, "cannot be empty or '.' in a path")
    # A server may decode a slash before it looks for the path, or a dot twice.
    for said in (text, unquote(text)):
        steps = [step.partition(";")[0].strip() for step in re.split(r"[/\\]", said)]
        if ".." in steps:
            raise _refused(name, "cannot have a step '..' in a path")
    return quote(text, safe="")


def _several(name: str, value: Any) -> list[str]:
    return [_text(name, each) for each in (value if isinstance(value, list | tuple) else [value])]


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        if isinstance(value, float) and not math.isfinite(value):
            raise _refused(name, "is a number that is not finite")
        try:
            value = str(value)
        except ValueError:
            raise _refused(name, "is a number of over 4,300 digits") from None
    if not isinstance(value, str):
        raise _refused(name, "must be a text, a number, or true or false")
    if len(value) > LONGEST:
        raise _refused(name, f"has {len(value):,} characters; use up to {LONGEST:,}")
    if not all(char.isprintable() for char in value):
        raise _refused(name, "has a character that is not printable; remove it")
    return value


def _refused(name: str, why: str) -> NoEffect:
    return NoEffect(f"the argument {name!a:.80} {why}; nothing was sent", "guard/http_argument")

"""Finding: the places of a text that are replaced."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from .folding import folded, unescaped
from .numbers import numbers
from .patterns import ANY, HEAD, PATTERNS, iban_end

SHORTEST: Final = 6
"""The fewest characters that a pattern finds something in: a mail address such as ``a@b.de``."""
_NUMBERS: Final = frozenset({"card", "iban", "national id"})
"""The numbers with a check digit, or a form of their own. Their digits may look like others."""
_BEGIN: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]{0,60})-----")
_END: Final = re.compile(rb"-----END [A-Z0-9 ]{0,60}-----")
_PUBLIC: Final = ("CERTIFICATE", "CERTIFICATE REQUEST", "PUBLIC KEY", "PUBLIC KEY BLOCK", "CRL",
                  "PARAMETERS", "MESSAGE", "SIGNATURE")  # fmt: skip


class Span(NamedTuple):
    """A part of a text that is replaced."""

    start: int
    end: int
    kind: str
    """The kind of data, e.g. ``card``."""
    open: bool = False
    """True for a private key whose end is not there."""


def spans(
    text: str, shows: Container[str] = (), more: Iterable[tuple[int, int]] = ()
) -> list[Span]:
    """The parts to replace, in order; none overlaps another.

    Args:
        shows: Kinds that are left as they are. A part of another kind in one of them is replaced.
        more: Parts that are hidden besides.
    """
    if len(text) < SHORTEST:
        return []
    hidden = _seen(*folded(text), len(text), shows)
    escaped = unescaped(text)
    if escaped is not None:
        # Both readings, because a password may have a backslash in it.
        hidden += _seen(*escaped, len(text), shows)
    hidden += [Span(start, end, "hidden") for start, end in more]
    merged: list[Span] = []
    for found in sorted(hidden, key=lambda span: (span.start, -span.end)):
        if merged and found.start < merged[-1].end:
            last = merged[-1]
            merged[-1] = last._replace(end=max(last.end, found.end), open=last.open or found.open)
        else:
            merged.append(found)
    return merged


def _seen(
    data: bytes, places: Sequence[int] | None, length: int, shows: Container[str]
) -> list[Span]:
    """The parts of one reading of a text, by their places in the text."""
    if not ANY.search(data):
        return []
    merged = _hidden(_found(data), shows) if shows else list(_found(data))
    if places is None:
        return merged
    # An invisible character inside of a part, or at its end, goes with it.
    ends = [*places, length]
    return [span._replace(start=ends[span.start], end=ends[span.end]) for span in merged]


def _hidden(found: Iterable[Span], shows: Container[str]) -> list[Span]:
    """The parts of kinds that are not shown, and are not a few digits of a shown number."""
    parts = sorted(found, key=lambda span: (span.start, -span.end))
    hidden: list[Span] = []
    until = 0
    """The end of the last shown number."""
    for span in parts:
        if span.kind in shows:
            until = max(until, span.end if span.kind in _NUMBERS else 0)
        elif span.end > until or span.kind not in (*_NUMBERS, "phone"):
            hidden.append(span)
    return hidden


def _found(data: bytes) -> Iterator[Span]:
    at = 0
    while begin := _BEGIN.search(data, at):
        at = begin.end()
        if not begin[1].decode().endswith(_PUBLIC):
            end = _END.search(data, at)
            at = end.end() if end else len(data)
            yield Span(begin.start(), at, "private key", end is None)
    for pattern in PATTERNS:
        for match in pattern.compiled.finditer(data):
            if pattern.check is None or pattern.check(match.group(pattern.group)):
                yield Span(match.start(pattern.group), match.end(pattern.group), pattern.kind)
    for first, last, kind in numbers(data):
        yield Span(first, last, kind)
    for match in HEAD.finditer(data):
        until = iban_end(data, match.start())
        if until is not None:
            yield Span(match.start(), until, "iban")

"""Finding: the places of a text that are replaced."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from .folding import folded
from .numbers import numbers
from .patterns import ANY, HEAD, PATTERNS, iban_end

SHORTEST: Final = 6
"""The fewest characters that a pattern finds something in: a mail address such as ``a@b.de``."""
_BEGIN: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]{0,60})-----")
_END: Final = re.compile(rb"-----END [A-Z0-9 ]{0,60}-----")
_PUBLIC: Final = ("CERTIFICATE", "CERTIFICATE REQUEST", "PUBLIC KEY", "PUBLIC KEY BLOCK", "CRL",
                  "PARAMETERS", "MESSAGE", "SIGNATURE")  # fmt: skip


class Span(NamedTuple):
    """A part of a text that is replaced."""

    start: int
    end: int
    kind: str
    """What it is, e.g. ``card``."""
    open: bool = False
    """True for a private key whose end is not there."""


def spans(text: str) -> list[Span]:
    """The parts to replace, in order; none overlaps another."""
    if len(text) < SHORTEST:
        return []
    data, places = folded(text)
    if not ANY.search(data):
        return []
    merged: list[Span] = []
    for found in sorted(_found(data), key=lambda span: (span.start, -span.end)):
        if merged and found.start < merged[-1].end:
            last = merged[-1]
            merged[-1] = last._replace(end=max(last.end, found.end), open=last.open or found.open)
        else:
            merged.append(found)
    if places is None:
        return merged
    # An invisible character inside of a part, or at its end, goes with it.
    ends = [*places, len(text)]
    return [span._replace(start=ends[span.start], end=ends[span.end]) for span in merged]


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

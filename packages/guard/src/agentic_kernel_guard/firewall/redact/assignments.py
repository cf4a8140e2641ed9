"""Assignments: the values of fields in texts that are JSON in part, or look like it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

LONGEST: Final = 100
"""The most characters of a field's name."""
_COLON: Final = re.compile(
    r"""(\\{0,15})(["'])(?:\s|\\{1,15}[nrt]){0,40}:(?:\s|\\{1,15}[nrt]){0,40}"""
)
"""The end of a quoted name, and what stands between it and the value."""
_OPEN: Final = re.compile(r"""(\\{0,15})(["'])""")
_MARK: Final = re.compile(r"""(\\{0,15})(["'])|[][{}]""")
_WORD: Final = re.compile(r"""[^\s,\]}"']+""")
_ESCAPE: Final = re.compile(r"\\{1,15}u([0-9A-Fa-f]{4})")
_HIDDEN: Final = "[hidden]"


def assignments(text: str, hides: Callable[[str], bool]) -> Iterator[tuple[int, int]]:
    """The places of the values of hidden fields, as ``"name": value``, in order.

    The names are quoted, as in JSON and in what Python prints, at any depth of JSON inside of
    texts. A value that has no end reaches to the end of the text.
    """
    until = 0
    for match in _COLON.finditer(text):
        if match.start() < until:
            continue
        name = _name(text, match.start(), match[2])
        if name is None or not hides(name):
            continue
        start, end = _value(text, match.end())
        if start < end and text[start:end] != _HIDDEN:
            yield start, end
        until = max(until, end)


def _name(text: str, end: int, quote: str) -> str | None:
    """The name that ends at a place."""
    start = text.rfind(quote, max(0, end - LONGEST), end)
    if start < 0:
        return None
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text[start + 1 : end])


def _value(text: str, at: int) -> tuple[int, int]:
    """The place of the value that begins at a place, without its quotes."""
    opening = _OPEN.match(text, at)
    if opening is not None:
        return opening.end(), _closing(text, opening)
    if text[at : at + 1] not in ("{", "["):
        word = _WORD.match(text, at)
        return at, word.end() if word else at
    depth, start = 0, at
    while mark := _MARK.search(text, at):
        if mark[2]:
            at = _closing(text, mark)
            at = min(len(text), at + len(mark[0]))
            continue
        at = mark.end()
        depth += 1 if mark[0] in "{[" else -1
        if depth == 0:
            return start, at
    return start, len(text)


def _closing(text: str, opening: re.Match[str]) -> int:
    """The end of the text that a quote opens; a quote after more backslashes is a part of it."""
    level, quote, at = len(opening[1]), opening[2], opening.end()
    while True:
        end = text.find(quote, at)
        if end < 0:
            return len(text)
        first = end
        while first > opening.end() and text[first - 1] == "\\":
            first -= 1
        if (end - first - level) % (2 * (level + 1)) == 0 and end - first >= level:
            return end - level
        at = end + 1

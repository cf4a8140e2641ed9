"""Taint: which sources the arguments of a call carry text of, and which sources a run has read."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from html import unescape
from typing import Any, Final
from urllib.parse import unquote

from .firewall.frame import Frame

LEAST: Final = 8
"""The fewest letters and digits of a value that counts."""
LONGEST: Final = 256
"""The most characters of a value that is looked for inside of a longer argument."""
MOST_TEXT: Final = 1_000_000
"""The most characters of one frame that are remembered. All carries text of a longer one."""
MOST_OF_SOURCE: Final = 10_000_000
"""The most characters of one source that a run remembers. All carries text of a longer one."""
MOST_VALUES: Final = 1_000
"""The most different texts of arguments that are looked for. More carry text of every source."""
_QUOTED: Final = re.compile(r'"((?:[^"\\\n]|\\.)*)["…]?')
_EDGES: Final = " .,;:!?()[]{}<>\"'`"
_SIGN: Final = re.compile(r"[\d@/:._=+-]")


def remembered(frame: Frame) -> str:
    """The record of a frame: its texts and numbers as a JSON list; ``null`` if it is too long."""
    found = list(_summarized(frame.summary)) if frame.summary else []
    length = sum(map(len, found))
    for each in _leaves([list(frame.rows), frame.value]):
        length += len(each)
        if length > MOST_TEXT:
            return "null"
        found.append(each)
    return json.dumps(found, ensure_ascii=True)


def told(message: str) -> str:
    """The record of a message: a JSON list with the message alone."""
    return json.dumps([message], ensure_ascii=True)


class Reading:
    """The texts and numbers that one run has seen, by source."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}
        self._values: dict[str, dict[str, set[str]]] = {}
        self._lengths: dict[str, int] = {}
        self._all: set[str] = set()

    def add(self, source: str, kept: str) -> None:
        """Add what `remembered` gave for a frame of a source."""
        texts = self._texts.setdefault(source, [])
        known = json.loads(kept)
        length = self._lengths[source] = self._lengths.get(source, 0) + len(kept)
        if known is None or length > MOST_OF_SOURCE:
            self._all.add(source)
        if source in self._all:
            texts.clear()
            self._values.pop(source, None)
            return
        # The sign between two texts is in no normalised text.
        texts.append(" ".join(map(_plain, known)))
        begins = self._values.setdefault(source, {})
        for value in {value for text in known for value in _values(text)}:
            if len(value) <= LONGEST:
                begins.setdefault(value[:LEAST], set()).add(value)

    @property
    def sources(self) -> frozenset[str]:
        """The sources whose text the run has seen."""
        return frozenset(self._texts)

    def carried(self, arguments: Any) -> frozenset[str]:
        """The sources of which some argument carries text; an argument may be any value.

        An argument carries text of a source if it stands in what the run saw of the source, or if
        a value that the run saw stands in it. Only letters and digits are compared, without case,
        accents and forms, and after the codings of URLs and HTML are taken away; so an account
        with dashes is the one with spaces. Texts with fewer than `LEAST` of them do not count. A
        part of an argument, or of what was seen, counts if it is one word with a digit or a sign
        in it, such as an address, a number or a path.
        """
        texts = {plain for text in set(_leaves(arguments)) if len(plain := _plain(text)) >= LEAST}
        parts = {part for text in set(_leaves(arguments)) for part in _values(text)}
        if not texts:
            return frozenset()
        if len(parts) > MOST_VALUES:
            return self.sources
        return frozenset(
            source
            for source in self._texts
            if source in self._all
            or any(part in seen for seen in self._texts[source] for part in parts)
            or any(_holds(text, self._values.get(source, {})) for text in texts)
        )


def _holds(text: str, begins: Mapping[str, set[str]]) -> bool:
    return any(
        text.startswith(value, at)
        for at in range(len(text) - LEAST + 1)
        for value in begins.get(text[at : at + LEAST], ())
    )


def _values(text: str) -> Iterator[str]:
    """A text as a whole, and its words with a digit or a sign, if they are long enough."""
    whole = _plain(text)
    if len(whole) < LEAST:
        return
    yield whole
    for word in text.split():
        word = word.strip(_EDGES)
        if len(word) >= LEAST and _SIGN.search(word) and len(plain := _plain(word)) >= LEAST:
            yield plain


def _plain(text: str) -> str:
    """The letters and digits of a text, as they are compared."""
    if "%" in text:
        text = unquote(text)
    if "&" in text:
        text = unescape(text)
    folded = unicodedata.normalize("NFKD", text).casefold()
    return "".join(filter(str.isalnum, folded))


def _leaves(value: Any) -> Iterator[str]:
    """The texts of a value at any depth, its keys and numbers among them."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, Mapping):
            left += each.keys()
            left += each.values()
        elif isinstance(each, (list, tuple)):
            left += each
        elif isinstance(each, (int, float)) and not isinstance(each, bool):
            yield _number(each)
        elif isinstance(each, bytes):
            yield each.decode("utf-8", "replace")


def _number(value: float) -> str:
    try:
        return str(value)
    except ValueError:  # A number of thousands of digits is not written in decimal.
        return hex(int(value))


def _summarized(summary: str) -> Iterator[str]:
    """The values that a summary quotes, and its words with a digit or a sign."""
    for found in _QUOTED.finditer(summary):
        try:
            yield json.loads(f'"{found[1]}"')
        except ValueError:
            yield found[1]
    for word in _QUOTED.sub(" ", summary).split():
        if any(map(str.isdigit, word)):
            yield word.strip(_EDGES)

"""Remnants: removes the parts of a key from the text of an error, also if the text splits the key.

A server may quote a part of the key, or put characters into it: invisible characters, spaces, line
breaks, also as escapes of JSON, URLs or HTML. So the text is read without everything that no key
has: only printable ASCII counts, and an escape counts as the character that it stands for.

A part counts from `SHORTEST` characters of the key on. Fewer are a part of many words, and vendors
show the first and the last characters of a key on purpose, e.g. ``sk-...wxyz``. A part without a
digit may still be a word, because people choose some keys themselves. So it counts only if it is
half of the key. Parts of the hexadecimal and Base64 forms count from the length on that has as many
characters of the key.

The text is read once, and each of its positions is looked up in sets of such parts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cache
from html import unescape
from typing import Final

from .secrets import REDACTED, SHORTEST, base64_of

_IN_HEX: Final = 2 * SHORTEST
_IN_BASE64: Final = (8 * SHORTEST + 5) // 6
_HEX: Final = "([0-9a-fA-F]{2})"
# Each repetition is bounded, so that one escape is found, or not, in bounded time.
_TOKEN: Final = (
    rf"\\{{0,32}}%(?:25){{0,8}}{_HEX}"
    r"|\\{0,32}(&(?:#[xX]0{0,6}[0-9a-fA-F]{1,6}|#0{0,6}[0-9]{1,7}|[a-zA-Z][a-zA-Z0-9]{1,30});)"
    r"|\\{1,32}(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|u\{0{0,6}([0-9a-fA-F]{1,6})\}"
    rf"|x{_HEX})"
    r"|\\{1,32}[nrtfv]"
    r"|\\{0,32}([!-~])"
)
"""One character, or an escape, by groups; a line break or a tab has none."""
_ENTITY: Final = 2
_LITERAL: Final = 7


@cache
def _pattern() -> re.Pattern[str]:
    """Pattern of one character or escape; compiled at the first error."""
    return re.compile(_TOKEN, re.ASCII)


def without_remnants(text: str, keys: Collection[str]) -> str:
    """The text with `REDACTED` in place of each part of a key."""
    read, starts, ends = _read(text) if keys else ("", [], [])
    found: list[tuple[int, int]] = []
    for key in keys:
        raw = key.encode("utf-8", "surrogatepass")
        forms = [(_read(key)[0], SHORTEST), (raw.hex(), _IN_HEX)]
        forms += [(form, _IN_BASE64) for form in base64_of(raw)]
        for form, least in forms:
            found += ((starts[first], ends[last - 1]) for first, last in _parts(read, form, least))
    out: list[str] = []
    told = 0
    for start, end in sorted(found):
        if start >= told:
            out += text[told:start], REDACTED
        told = max(told, end)
    out.append(text[told:])
    return "".join(out)


def _parts(read: str, form: str, least: int) -> Iterator[tuple[int, int]]:
    """The longest parts of a text that a form covers: the first place, and that after the last."""
    pieces = {form[at : at + least] for at in range(len(form) - least + 1)}
    first = last = -1
    for at in range(len(read) - least + 1):
        if read[at : at + least] in pieces:
            if at > last:
                if _counts(read[first:last], form):
                    yield first, last
                first = at
            last = at + least
    if _counts(read[first:last], form):
        yield first, last


def _counts(part: str, form: str) -> bool:
    return bool(part) and (2 * len(part) >= len(form) or any(map(str.isdigit, part)))


def _read(text: str) -> tuple[str, list[int], list[int]]:
    """The characters of a text that a key may have, lower case; where each begins and ends."""
    read: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for found in _pattern().finditer(text):
        kind = found.lastindex
        if kind is None:
            continue
        said = found[kind]
        if kind == _ENTITY:
            said = unescape(said)
        elif kind != _LITERAL:
            code = int(said, 16)
            said = chr(code) if code < 128 else ""
        if len(said) == 1 and "!" <= said <= "~":
            read.append(said.lower())
            starts.append(found.start())
            ends.append(found.end())
    return "".join(read), starts, ends

"""Redaction: removes secrets from exported text, escapes control characters, and bounds its size.

The work is linear in the data that is read, and that data is bounded. `forms` reads each text once.
Of a value at most `_MOST_PARTS` parts and about `2 * MOST_CONTENT` characters are read, even if the
value is deep, has shared parts or contains itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from .forms import REDACTED, is_secret_name, redacted

MOST_TEXT: Final = 1_000
"""The most characters of a text about a run, such as an id or a message."""
MOST_NAME: Final = 200
"""The most characters of a name or a code."""
MOST_CONTENT: Final = 8_000
"""The most characters of content: an input or an output of a model or a tool."""

_MARGIN: Final = 4_096
"""Characters after the bound that are read too, so that a secret across the bound is found."""
_MOST_DEPTH: Final = 20
_MOST_PARTS: Final = 1_000
_MOST_KNOWN: Final = 1_000

_encode = msgspec.json.Encoder().encode

Redact = Callable[[str], str]
"""Function that removes secrets from a text."""


def printable(text: str, keep: str = "") -> str:
    """Return the text with all unprintable characters escaped, line breaks included.

    Args:
        keep: Characters that are not escaped.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text
    )


class Redaction:
    """Makes texts and values safe to export.

    Args:
        redact: Removes secrets from a text.
    """

    def __init__(self, redact: Redact = redacted) -> None:
        self._own = redact
        self._known: dict[str, str] = {}
        """Cache of frequent names, with the form of each that is exported."""

    def line(self, value: Any, most: int = MOST_TEXT) -> str:
        """Return a text about the run in one line; an empty one if the value is not a string."""
        if not isinstance(value, str):
            return ""
        return _cut(printable(self._redact(value[: most + _MARGIN])), most)

    def name(self, value: Any) -> str:
        """Return a short text that is used often: the name of a tool, model or agent, or a code."""
        if not isinstance(value, str):
            return ""
        known = self._known.get(value)
        if known is None:
            known = self.line(value, MOST_NAME)
            if len(self._known) < _MOST_KNOWN and len(value) <= MOST_NAME:
                self._known[value] = known
        return known

    def content(self, value: Any) -> str:
        """Return redacted content: a string as text, with its line breaks; other values as JSON."""
        if isinstance(value, str):
            text = self._redact(value[: MOST_CONTENT + _MARGIN])
            return _cut(printable(text, keep="\n\t"), MOST_CONTENT)
        return _cut(_encode(self._copy(value)).decode(), MOST_CONTENT)

    def _redact(self, text: str) -> str:
        try:
            return self._own(text)
        except Exception:
            return REDACTED

    def _copy(self, value: Any) -> Any:
        """Return a copy of bounded size, with all secrets redacted, in keys as well."""
        left = [_MOST_PARTS, 2 * MOST_CONTENT]

        def copy(part: Any, depth: int) -> Any:
            left[0] -= 1
            if left[0] < 0 or left[1] < 0 or depth > _MOST_DEPTH:
                return "…"
            if isinstance(part, str):
                part = part[: MOST_CONTENT + _MARGIN]
                left[1] -= len(
                    part
                )  # All characters that were read count, also those cut off later.
                return _cut(printable(self._redact(part), keep="\n\t"), MOST_CONTENT)
            if isinstance(part, Mapping):
                made: dict[str, Any] = {}
                for key, item in part.items():
                    if left[0] < 0 or left[1] < 0:
                        made["…"] = "…"
                        break
                    said = key[: MOST_NAME + _MARGIN] if isinstance(key, str) else _key(key)
                    left[1] -= len(said)
                    hidden = is_secret_name(said) and item is not None
                    made[self.line(said, MOST_NAME)] = REDACTED if hidden else copy(item, depth + 1)
                return made
            if isinstance(part, Sequence):
                several: list[Any] = []
                for item in part:
                    if left[0] < 0 or left[1] < 0:
                        several.append("…")
                        break
                    several.append(copy(item, depth + 1))
                return several
            if isinstance(part, int) and part.bit_length() > 64:
                return "…"
            return part if part is None or isinstance(part, (bool, int, float)) else "…"

        return copy(value, 0)


def _key(key: Any) -> str:
    """Return a short key that is not a string, as text; "…" for any other key."""
    known = key is None or isinstance(key, bool | float)
    return str(key) if known or (isinstance(key, int) and key.bit_length() <= 64) else "…"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"

"""Redaction: what leaves the process is one line, without secrets, and of bounded size.

The work is linear in what is looked at, and that is bounded: `forms` reads each text once, and of a
value no more than `_MOST_PARTS` parts and `2 * MOST_CONTENT` characters are read, however deep it
is, and whether parts of it are shared or hold themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from .forms import REDACTED, is_secret_name, redacted

MOST_TEXT: Final = 1_000
"""How long a text about a run may be, in characters: an id, a message."""
MOST_NAME: Final = 200
"""The same for a name or a code."""
MOST_CONTENT: Final = 8_000
"""The same for content: what was said to a model or a tool, and what it said."""

_MARGIN: Final = 4_096
"""Characters beyond the bound that are looked at as well: a secret across it is cut from neither
end."""
_MOST_DEPTH: Final = 20
_MOST_PARTS: Final = 1_000
_MOST_KNOWN: Final = 1_000

_encode = msgspec.json.Encoder().encode

Redact = Callable[[str], str]
"""Takes what must not leave the process out of a text."""


def printable(text: str, keep: str = "") -> str:
    """The text with every character that could steer a terminal or begin a line escaped."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text
    )


class Redaction:
    """Makes texts and values fit to be exported.

    Args:
        redact: Takes secrets out of a text.
    """

    def __init__(self, redact: Redact = redacted) -> None:
        self._own = redact
        self._known: dict[str, str] = {}
        """Names that come again and again, as they are exported."""

    def line(self, value: Any, most: int = MOST_TEXT) -> str:
        """A text about the run, in one line; what is no string has none."""
        if not isinstance(value, str):
            return ""
        return _cut(printable(self._redact(value[: most + _MARGIN])), most)

    def name(self, value: Any) -> str:
        """A short text that comes again and again: of a tool, a model, an agent, a code."""
        if not isinstance(value, str):
            return ""
        known = self._known.get(value)
        if known is None:
            known = self.line(value, MOST_NAME)
            if len(self._known) < _MOST_KNOWN and len(value) <= MOST_NAME:
                self._known[value] = known
        return known

    def content(self, value: Any) -> str:
        """Content: a text as it is, anything else as JSON."""
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
        """A copy of bounded size with secrets redacted wherever they are, keys included."""
        left = [_MOST_PARTS, 2 * MOST_CONTENT]

        def copy(part: Any, depth: int) -> Any:
            left[0] -= 1
            if left[0] < 0 or left[1] < 0 or depth > _MOST_DEPTH:
                return "…"
            if isinstance(part, str):
                part = part[: MOST_CONTENT + _MARGIN]
                left[1] -= len(part)  # What was looked at counts, however little is left of it.
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
    """A key that is no text, if it is short."""
    known = key is None or isinstance(key, bool | float)
    return str(key) if known or (isinstance(key, int) and key.bit_length() <= 64) else "…"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"

"""Redaction: what leaves the process is one line, without secrets, and of bounded size."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

MOST_TEXT: Final = 1_000
"""How long a text about a run may be, in characters: an id, a message."""
MOST_NAME: Final = 200
"""The same for a name or a code."""
MOST_CONTENT: Final = 8_000
"""The same for content: what was said to a model or a tool, and what it said."""
REDACTED: Final = "[redacted]"

_MARGIN: Final = 4_096
"""Characters beyond the bound that are looked at as well: a secret across it is cut from neither
end."""
_MOST_DEPTH: Final = 20
_MOST_PARTS: Final = 1_000
_MOST_KNOWN: Final = 1_000

_SECRET_NAME: Final = (
    r"(?:[\w.-]{0,60}(?:api[_-]?key|access[_-]?key|private[_-]?key|passw(?:or)?d|passphrase|secret"
    r"|(?:auth|access|refresh|session|bearer|id)[_-]?token|credential|authorization|cookie)"
    r"[\w.-]{0,60}|pwd|token)"
)
_name_is_secret = re.compile(_SECRET_NAME, re.IGNORECASE).fullmatch
# Every repetition is bounded: no text takes long.
_PATTERNS: Final = (
    # A key block, whole or cut off.
    (re.compile(
        r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}-----|\Z)", re.DOTALL
    ), REDACTED),
    # Tokens that say what they are.
    (re.compile(
        r"\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{12,}|\bgh[pousr]_[A-Za-z0-9]{16,}"
        r"|\bgithub_pat_\w{16,}|\bglpat-[\w-]{12,}|\bxox[abposr]-[\w-]{8,}"
        r"|\b(?:AKIA|ASIA)[A-Z0-9]{12,}|\bAIza[\w-]{30,}|\bhf_[A-Za-z0-9]{16,}"
        r"|\beyJ[\w-]{6,4000}\.[\w-]{6,4000}\.[\w-]{0,4000}"
    ), REDACTED),
    # The password of an address.
    (re.compile(r"(://[^\s/:@]{0,200}):[^\s/@]{1,500}@"), rf"\1:{REDACTED}@"),
    # A name and its value, as in JSON within JSON, in a header, an environment or a query.
    (re.compile(
        rf"""(\\*["']?\b{_SECRET_NAME}\\*["']?\s{{0,20}}[:=]\s{{0,20}})"""
        r"""(?:\\*"(?:[^"\\]|\\.){1,20000}?(?:\\*"|\Z)|'[^']{1,20000}(?:'|\Z)"""
        r"""|(?:bearer|basic)\s{1,20}[^\s"'\\,;&}\])]{1,20000}|[^\s"'\\,;&}\])]{1,20000})""",
        re.IGNORECASE | re.DOTALL,
    ), rf"\1{REDACTED}"),
    (re.compile(r"\b(bearer|basic)\s{1,20}[\w.~+/=-]{6,20000}", re.IGNORECASE), rf"\1 {REDACTED}"),
)  # fmt: skip
_encode = msgspec.json.Encoder().encode

Redact = Callable[[str], str]
"""Takes what must not leave the process out of a text."""


def redacted(text: str) -> str:
    """The text without what looks like a secret: keys, tokens, passwords by their form or name."""
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    return text


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

    @staticmethod
    def handle(value: str) -> str:
        """The id that a provider gave to a call; it stands for nothing, so it hides nothing."""
        return _cut(printable(value[:MOST_NAME]), MOST_NAME)

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
                text = printable(self._redact(part[: MOST_CONTENT + _MARGIN]), keep="\n\t")
                text = _cut(text, MOST_CONTENT)
                left[1] -= len(text)
                return text
            if isinstance(part, Mapping):
                made: dict[str, Any] = {}
                for key, item in part.items():
                    if left[0] < 0 or left[1] < 0:
                        made["…"] = "…"
                        break
                    name = self.line(str(key), 200)
                    hidden = _name_is_secret(str(key)[:200]) and item is not None
                    made[name] = REDACTED if hidden else copy(item, depth + 1)
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


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"

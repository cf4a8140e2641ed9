"""RedactorStream: redacts a text that comes in chunks."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from typing import Final

from agentic_kernel import InvalidValue
from agentic_kernel_engine.edges import came, instance

from .finding import Span, spans

HOLD: Final = 512
"""Characters that are kept back: more than each pattern with a space in it can have."""
LONGEST: Final = 65_536
"""The most characters without a border that are kept back."""
TOO_LONG: Final = "[too long]"
"""Stands for a longer part without a border."""
_BORDER: Final = re.compile(r"[\s,;<>{}|!?*]")
_END: Final = re.compile(r"-----END [A-Z0-9 ]{0,60}-----")


class RedactorStream:
    """Redacts a text that comes in chunks, as if it had come at once.

    What could be the start of a secret is kept back until it is known. More than 65,536 characters
    without a space are replaced, because a secret of that length could not be told.

    Args:
        shows: As of `Redactor`.
    """

    def __init__(self, shows: Container[str] = ()) -> None:
        if isinstance(shows, (str, bytes)) or not isinstance(shows, Container):
            raise InvalidValue("shows", f"is {came(shows)}; give a set of kinds")
        self._shows = shows
        self._before = ""
        self._held = ""
        self._next = 2 * HOLD
        self._inside = ""
        """``key`` in a private key, ``long`` in a part that is too long."""

    def feed(self, chunk: str) -> tuple[str, int]:
        """The next part of the redacted text, and how many parts were replaced in it."""
        self._held += instance(chunk, "chunk", str)
        if len(self._held) < self._next:
            return "", 0
        said, count = self._advance(end=False)
        self._next = max(2 * HOLD, 2 * len(self._held))
        return said, count

    def end(self) -> tuple[str, int]:
        """The rest of the redacted text. Nothing may be fed after it."""
        return self._advance(end=True)

    def _advance(self, *, end: bool) -> tuple[str, int]:
        if self._inside and not self._left(end=end):
            return "", 0
        known = len(self._before)
        text = self._before + self._held
        found = [span for span in spans(text, self._shows) if span.end > known]
        cut = len(text) if end else self._cut(text, known, found)
        if cut is None:
            if len(self._held) <= LONGEST:
                return "", 0
            said, count = self._shown(text, known, known, ())
            self._inside = "long"
            self._before, self._held = "", self._held[-HOLD:]
            return said + TOO_LONG, count + 1
        shown = [span for span in found if span.start < cut]
        said, count = self._shown(text, known, cut, shown)
        if shown and shown[-1].open and not end:
            self._inside = "key"
            self._before, self._held = "", text[-HOLD:]
            return said, count
        self._before, self._held = text[max(0, cut - HOLD) : cut], text[cut:]
        return said, count

    def _left(self, *, end: bool) -> bool:
        """True once the part that is dropped has ended; the rest is held."""
        if self._inside == "key":
            match = _END.search(self._held)
            at = match.end() if match else None
        else:
            match = _BORDER.search(self._held)
            at = match.start() if match else None
        if at is None:
            self._held = "" if end else self._held[-HOLD:] if self._inside == "key" else ""
            return False
        self._inside, self._held = "", self._held[at:]
        return True

    def _cut(self, text: str, known: int, found: list[Span]) -> int | None:
        """A place up to which the text can be shown; None if there is none yet."""
        if found and found[-1].open:
            return len(text)
        last = None
        for border in _BORDER.finditer(text, known, max(known, len(text) - HOLD)):
            last = border.start()
        if last is None:
            return None
        for span in found:
            if span.start < last < span.end:
                last = span.start
        return last if last > known else None

    @staticmethod
    def _shown(text: str, start: int, end: int, found: Sequence[Span]) -> tuple[str, int]:
        parts: list[str] = []
        at, count = start, 0
        for span in found:
            # A part that was begun before was counted then.
            parts += (text[at : span.start], f"[{span.kind}]")
            at, count = min(span.end, end), count + 1
        return "".join(parts) + text[at:end], count

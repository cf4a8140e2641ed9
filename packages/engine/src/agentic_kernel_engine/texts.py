"""Texts: joins the deltas of a Task to its text in progress, for every reader in the same way.

A ``run.delta`` says at which place of the turn's text it belongs: ``at``, in characters, counted
for each channel alone. So a run that starts over replaces the text of the attempt before it, and a
run that continues says so. ``run.turn`` ends a turn. Versions before 0.2 stored deltas without
``at``; such a delta continues the text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeGuard

import msgspec

from .events import RUN_DELTA, RUN_TURN, Event

SUMMARY: Final = 80
"""The most characters of the summary of a Task that is made from a text."""
FURTHEST: Final = 10**12
"""The largest place of a delta in its text; more is a mistake."""


def summary_of(text: str) -> str:
    """The summary of a Task with these instructions: the beginning of their first line."""
    return text[: 2 * SUMMARY].strip().partition("\n")[0][:SUMMARY]


class Texts:
    """The text of one Task's turn in progress, for each channel.

    Give it the events of the Task in order, durable or live. A reader that begins in the middle of
    a turn has the part from there on. After the end of a turn the text stays until the next turn
    has text.
    """

    __slots__ = ("_channels", "_over")

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._channels: dict[str, _Text] = {}
        self._over = False
        """True if the turn is over and the next one has no text yet."""
        for event in events:
            self.take(event)

    def take(self, event: Event) -> bool:
        """Read one event; an event that is neither a delta nor the end of a turn changes nothing.

        Returns:
            True if a part of the text was replaced, so that a reader that has shown the text has to
            show it again.
        """
        if event.type == RUN_TURN:
            self._over = True
            return False
        if event.type != RUN_DELTA:
            return False
        text, channel = event.data.get("text"), event.data.get("channel", "")
        if not isinstance(text, str) or not isinstance(channel, str):
            return False
        if self._over:
            self._over = False
            self._channels.clear()
        known = self._channels.get(channel)
        if known is None:
            known = self._channels[channel] = _Text()
        at = event.data.get("at")
        return known.put(text, at if is_place(at) else None)

    def text(self, channel: str = "") -> str:
        """The text of one channel; the answer itself is on the channel ""."""
        known = self._channels.get(channel)
        return "" if known is None else known.joined()

    def open(self) -> list[str]:
        """The channels on which the turn in progress has text."""
        if self._over:
            return []
        return [channel for channel, known in self._channels.items() if known.pieces]


class _Text:
    """The text of one channel, in pieces."""

    __slots__ = ("end", "pieces", "start")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.start = 0
        """The place of the first character that is known."""
        self.end = 0
        """The place after the last one."""

    def put(self, text: str, at: int | None) -> bool:
        """Put a piece in its place; return True if it takes the place of known text."""
        if at is None:
            at = self.end
        replaces = at < self.end
        if replaces:
            kept = self.joined()[: max(at - self.start, 0)]
            self.pieces = [kept] if kept else []
            self.start = min(self.start, at)
        elif not self.pieces:
            self.start = at
        elif at > self.end:  # The reader has missed the text in between.
            self.start += at - self.end
        if text:
            self.pieces.append(text)
        self.end = at + len(text)
        return replaces

    def joined(self) -> str:
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""


def is_place(at: Any) -> TypeGuard[int]:
    """True for a number that can be a place in a text."""
    return type(at) is int and 0 <= at <= FURTHEST


class NewText:
    """The part of the answer's text that a reader has not shown yet, for one who cannot take text
    back.

    Give it the events of one Task in order, from the first of a turn.
    """

    __slots__ = ("_at", "_end", "_over", "_pieces", "_told")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._end = 0
        """The place after the last character that is shown."""
        self._at = 0
        """The place after the last delta; before `_end` while the text repeats shown text."""
        self._over = False
        self._told = False
        """True if the turn whose stored text has not come yet has deltas with text."""

    def take(self, event: Event) -> str:
        """Read one event; return the characters to show next.

        Text that repeats shown text is left out. Text that differs comes whole, after a line break.
        A text that is only the beginning of the shown text differs, too. The end of its turn shows
        that, so it comes then.
        """
        if event.type == RUN_TURN:
            self._over = True
            return self._shorter()
        if event.type != RUN_DELTA or event.data.get("channel", ""):
            return ""
        text, at = event.data.get("text"), event.data.get("at")
        if not isinstance(text, str):
            return ""
        if not text:
            if is_place(at) and not self._over:
                self._at = min(at, self._end)
            return ""
        self._told = True
        if self._over:
            self._over, self._pieces, self._end = False, [], 0
        if not is_place(at) or at >= self._end:
            self._pieces.append(text)
            self._end += len(text)
            self._at = self._end
            return text
        shown = "".join(self._pieces)
        again = shown[at : at + len(text)]
        if text.startswith(again):
            new = text[len(again) :]
            self._pieces = [shown, new]
        else:
            self._pieces = [shown[:at], text]
            new = f"\n{shown[:at]}{text}"
        self._at, self._end = at + len(text), sum(map(len, self._pieces))
        return new

    def rest(self, text: str, answer: str = "") -> str:
        """End a turn with its stored text; return the characters to show next.

        A turn may have no deltas, or too few, and middleware may have changed its text after them.

        Args:
            text: The text beside the calls of the turn.
            answer: The final answer; "" if the turn has none, or one that is no text.
        """
        shown = "".join(self._pieces) if self._told else ""
        self._told, self._over = False, True
        whole = answer if answer == text else text + answer
        if whole.startswith(shown):
            return whole[len(shown) :]
        if not whole or _ends_with(shown, answer or text):
            return ""
        return f"\n{whole}"

    def _shorter(self) -> str:
        """Return the turn's text after a line break, if shown text is no part of it."""
        if self._at == self._end:
            return ""
        kept = "".join(self._pieces)[: self._at]
        self._pieces, self._end = [kept], self._at
        return f"\n{kept}"


def _ends_with(shown: str, text: str) -> bool:
    """True if a shown text ends with another, or is its JSON; blanks around it do not count."""
    if shown.strip().endswith(text.strip()):
        return True
    try:
        told: object = msgspec.json.decode(shown)
    except (msgspec.DecodeError, RecursionError):
        return False
    return told == text

"""Streams: the pieces of answers, told to observers, each at its place in the text of the turn.

A call of a model that is made again begins its text anew, so it replaces the text of the call
before it. A planner that continues a text says where its first piece stands (`Delta.at`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agentic_kernel import InvalidValue

from .. import events as host_events
from ..events import Event
from ..host.job import Job
from ..plans.plan import Delta


class TurnText:
    """The text of the turn in progress: of the call at hand, and of calls before it in the turn.

    Args:
        job: The Host's handle on the Task; the text is emitted there.
        left: The channels on which an earlier run left text of this turn.
    """

    __slots__ = ("_channels", "_job")

    def __init__(self, job: Job, left: Iterable[str] = ()) -> None:
        self._job = job
        self._channels = dict.fromkeys(left, False)
        """True for a channel on which the call at hand has text, False for text of another call."""

    def fade(self) -> None:
        """A call begins: its text replaces the text so far, on each channel that it uses."""
        if self._channels:
            self._channels = dict.fromkeys(self._channels, False)

    def tell(self, text: str, channel: str = "", at: int | None = None) -> None:
        """Emit a piece of the call at hand.

        Args:
            at: Its place in the channel's text; None for the end of the call's text.

        Raises:
            InvalidValue: The piece cannot be stored.
        """
        data: dict[str, Any] = {"text": text}
        if channel:
            data["channel"] = channel
        if not self._channels.get(channel):
            at = at or 0
        if at is not None:
            data["at"] = at
        self._job.emit(Event(host_events.RUN_DELTA, data))
        self._channels[channel] = True

    def settle(self) -> None:
        """Drop the text that is not of the call at hand."""
        for channel, current in self._channels.items():
            if not current:
                data = {"channel": channel} if channel else {}
                self._job.emit(Event(host_events.RUN_DELTA, {"text": "", "at": 0, **data}))

    def end(self) -> None:
        """End the turn, if it has text."""
        if self._channels:
            self._channels = {}
            self._job.emit(Event(host_events.RUN_TURN))


class Stream:
    """A planner's answer while it comes.

    Args:
        turn: The text of the turn; the pieces are emitted there.
        said: The text that the planner may continue.
    """

    __slots__ = ("_pieces", "_saying", "_turn")

    def __init__(self, turn: TurnText, said: str) -> None:
        self._pieces = [said]
        self._saying = False
        """True if the answer itself has a piece."""
        self._turn = turn

    @property
    def text(self) -> str:
        """The text of the answer so far."""
        return "".join(self._pieces)

    def tell(self, piece: Delta) -> None:
        """Emit a piece.

        Raises:
            InvalidValue: The piece cannot be stored, or its place is beyond the end of the text.
        """
        if not piece.channel:
            if piece.at is not None or not self._saying:
                self._pieces = [self._before(piece.at or 0)]
                self._saying = True
            self._pieces.append(piece.text)
        self._turn.tell(piece.text, piece.channel, piece.at)

    def _before(self, at: int) -> str:
        """The text before a place.

        Raises:
            InvalidValue: The text is shorter.
        """
        text = self.text
        if at > len(text):
            raise InvalidValue(
                "Delta.at",
                f"is {at:,}, and the text so far has {len(text):,} characters; give the place at "
                "which the piece stands, or None",
            )
        return text[:at]

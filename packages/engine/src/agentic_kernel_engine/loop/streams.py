"""Streams: the pieces of one answer, told to observers, each at its place in the answer's text.

A call that is made again begins its text anew on each channel, so it replaces the text of the call
before it. A planner that continues a text says where its first piece stands (`Delta.at`).
"""

from __future__ import annotations

from typing import Any

from agentic_kernel import InvalidValue

from .. import events as host
from ..plans.plan import Delta
from .run import LoopRun


class Stream:
    """One call's answer while it comes.

    Args:
        run: Its ``state.said`` is the text that a planner may continue.
    """

    __slots__ = ("_begun", "_pieces", "_run")

    def __init__(self, run: LoopRun) -> None:
        self._run = run
        self._pieces = [run.state.said]
        self._begun: set[str] = set()
        """The channels on which this call has text."""

    @property
    def text(self) -> str:
        """The text of the answer so far."""
        return "".join(self._pieces)

    def tell(self, piece: Delta) -> None:
        """Emit a piece.

        Raises:
            InvalidValue: The piece cannot be stored.
        """
        channel, at = piece.channel, piece.at
        data: dict[str, Any] = {"type": host.RUN_DELTA, "text": piece.text}
        if channel:
            data["channel"] = channel
        if channel not in self._begun:
            at = at or 0
            self._begun.add(channel)
            self._run.spoken = {**self._run.spoken, channel: True}
        if at is not None:
            data["at"] = at
            if not channel:
                self._pieces = [self._before(at)]
        self._run.job.emit(data)
        if not channel:
            self._pieces.append(piece.text)

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

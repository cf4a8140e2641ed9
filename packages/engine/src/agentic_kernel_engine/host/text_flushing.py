"""Flushing: stores the text in progress of a Host's runs while it streams (R20).

One timer serves all runs of a Host. It is set only while a run has text that is not stored, so a
Host whose runs wait costs nothing.
"""

from __future__ import annotations

import asyncio
import logging
from contextvars import Context
from typing import Final, Protocol

from ..errors import StoreError
from ..faults import report, reraise_own_cancellation, said
from ..record import Record
from .parts import Parts

_log = logging.getLogger(__name__)
SHORTEST: Final = 0.15
"""The least number of seconds between two rounds."""
LONGEST: Final = 2.0
"""The most seconds between two rounds."""
SHARE: Final = 20
"""A round is followed by a wait of this many times its duration, so that flushes take at most a
twentieth of the time, however many streams there are."""


class Flushed(Protocol):
    """The part of a run that flushes its text."""

    task_id: str
    record: Record

    async def flush(self) -> None: ...


class Flushing:
    """The rounds of flushes of one Host.

    A run announces itself when it has text that is not stored. The next round flushes every run
    that did. The wait before a round is `SHARE` times the duration of the round before it, from
    `SHORTEST` to `LONGEST` seconds.

    Args:
        parts: Its asyncio tasks do the flushes, so that the end of a run does not cut one short.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._waiting: dict[Flushed, None] = {}
        """The runs of the next round, in the order in which they announced themselves."""
        self._timer: asyncio.TimerHandle | None = None
        self._busy = False
        """True during a round."""
        self._closed = False
        self._failing = False
        """True since a flush failed; the first failure in a row is logged."""
        self.interval: float = SHORTEST
        """Seconds between the last round and the next one."""

    def add(self, run: Flushed) -> None:
        """Flush the run's text in the next round."""
        self._waiting[run] = None
        if self._timer is None and not self._busy and not self._closed:
            self._set()

    def stop(self) -> None:
        """Begin no further round, because the Host closes."""
        self._closed = True
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self) -> None:
        loop = asyncio.get_running_loop()
        # The context of the run that came first is not that of the others.
        self._timer = loop.call_later(self.interval, self._ring, context=Context())

    def _ring(self) -> None:
        self._timer = None
        self._busy = True
        self._parts.shielded.start(self._round())

    async def _round(self) -> None:
        now = asyncio.get_running_loop().time
        began = now()
        runs, self._waiting = list(self._waiting), {}
        try:
            if self._parts.immediate:
                for run in runs:
                    await self._flush(run)
            elif runs:
                start = self._parts.shielded.start
                await asyncio.wait([start(self._flush(run)) for run in runs])
        finally:
            self._busy = False
            self.interval = min(max(SHORTEST, SHARE * (now() - began)), LONGEST)
            if self._waiting and not self._closed:
                self._set()

    async def _flush(self, run: Flushed) -> None:
        try:
            await run.flush()
        except StoreError as fault:
            self.add(run)
            if not self._failing:
                self._failing = True
                _log.warning(
                    "the text in progress of task %r cannot be stored yet, and is tried again: %s",
                    run.task_id, said(fault),
                )  # fmt: skip
        except BaseException as fault:
            reraise_own_cancellation(fault)
            report(fault, run.task_id, run.record.step, "storing the text in progress", "commit")
        else:
            self._failing = False

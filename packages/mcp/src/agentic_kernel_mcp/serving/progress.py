"""Progress: the reports of a call, sent to the client in order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from math import isfinite
from typing import Any, Final

MOST: Final = 100
"""The most reports that wait to be sent; the oldest one is dropped for a new one."""
LONGEST: Final = 1_000
"""The most characters of a report's text."""
Send = Callable[[float, float | None, str | None], Awaitable[None]]


class Reports:
    """Reports that wait to be sent.

    A report may be any JSON. The protocol wants a number that grows: that of the report's
    ``progress``, or else the count of reports.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._queue: asyncio.Queue[tuple[float, float | None, str | None] | None] = asyncio.Queue()
        self._last = 0.0

    def take(self, report: Any) -> None:
        """Take a report; it returns at once."""
        said = report if isinstance(report, Mapping) else {"message": report}
        done = _number(said.get("progress"))
        self._last = max(self._last + 1, 0) if done is None else done
        if self._queue.qsize() >= MOST:
            self._queue.get_nowait()
        self._queue.put_nowait((self._last, _number(said.get("total")), _words(said)))

    def end(self) -> None:
        """No report follows."""
        self._queue.put_nowait(None)

    async def send(self) -> None:
        """Send them until the end; a report that is not greater than the last one is left out."""
        sent = -1.0
        while (each := await self._queue.get()) is not None:
            if each[0] > sent:
                sent = each[0]
                await self._send(*each)


def _words(said: Mapping[str, Any]) -> str | None:
    message = said.get("message")
    if message is None and "progress" not in said:
        message = dict(said)
    if message is None or isinstance(message, str):
        return message if message is None else message[:LONGEST]
    return json.dumps(message, ensure_ascii=False)[:LONGEST]


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value):
        return None
    return value

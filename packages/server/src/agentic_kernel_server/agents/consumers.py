"""Consumers: the streams of agents or runners that are open in this process.

A consumer that lost its stream keeps what it holds for a grace. It may open a stream again in this
process or in another one.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from typing import Any, Final, NamedTuple

from ..streaming.sse import BEAT, Cut, frame

RECENT: Final = 60.0
"""Seconds for which a consumer counts as lost; it may have come back to another process."""
REMEMBERED: Final = 10_000
"""The most consumers that are remembered as lost."""


class Key(NamedTuple):
    """The name of one consumer."""

    tenant: str
    group: str
    """The agent id or the runner id."""
    consumer: str


class Consumer:
    """One open stream.

    Args:
        most: The most frames that wait for the reader; a slower reader is cut.
    """

    def __init__(self, key: Key, most: int) -> None:
        self.key = key
        self._most = most
        self._frames: deque[bytes] = deque()
        self._wake: asyncio.Future[None] | None = None
        self._cut = False
        self.open = True
        """False after the stream has ended."""

    def push(self, event: str, data: Any) -> None:
        """Send an event; nothing waits for the reader."""
        if len(self._frames) >= self._most:
            self.cut()
            return
        self._frames.append(frame(event, data))
        self._nudge()

    def give(self, frames: Iterable[bytes]) -> None:
        """Send the frames that an earlier stream of the consumer did not send."""
        self._frames.extend(frames)

    def unsent(self) -> tuple[bytes, ...]:
        """The frames that wait for the reader."""
        return tuple(each for each in self._frames if each is not BEAT)

    def cut(self) -> None:
        """End the stream without a clean end."""
        self._cut = True
        self._nudge()

    def _nudge(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def frames(self, heartbeat: float) -> AsyncIterator[bytes]:
        """The frames to send.

        Raises:
            Cut: The stream is to be cut.
        """
        loop = asyncio.get_running_loop()
        yield BEAT
        while True:
            while self._frames:
                yield self._frames.popleft()
            if self._cut:
                raise Cut
            wake = self._wake = loop.create_future()
            beat = loop.call_later(heartbeat, _beat, wake, self._frames)
            try:
                await wake
            finally:
                beat.cancel()


def _beat(wake: asyncio.Future[None], frames: deque[bytes]) -> None:
    if not wake.done():
        frames.append(BEAT)
        wake.set_result(None)


class Consumers:
    """The open streams of one kind, and the consumers that are in their grace.

    Args:
        grace: Seconds that a consumer without a stream keeps what it holds.
        most: The most frames that wait for one reader.
        came: Called when a stream opens.
        lost: Called when the grace of a consumer is over.
    """

    def __init__(
        self,
        grace: float,
        most: int,
        came: Callable[[Consumer], None],
        lost: Callable[[Key], None],
    ) -> None:
        self._grace = grace
        self._most = most
        self._came = came
        self._lost = lost
        self._open: dict[tuple[str, str], dict[str, Consumer]] = {}
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._vanished: dict[Key, float] = {}
        """The end of the grace of each consumer, so that a run that enters later knows it."""
        self._seen: set[Key] = set()
        """The consumers that lost a stream here, and are in their grace."""
        self._unsent: dict[Key, tuple[bytes, ...]] = {}
        """The frames that a consumer in its grace was not sent."""
        self.closed = False

    def __len__(self) -> int:
        return sum(map(len, self._open.values()))

    def __iter__(self) -> Iterator[Consumer]:
        return (each for group in list(self._open.values()) for each in list(group.values()))

    def open(self, key: Key) -> Consumer:
        """Open a stream; an older stream of the same consumer is cut."""
        group = self._open.setdefault(key[:2], {})
        before = group.pop(key.consumer, None)
        if before is not None:
            before.cut()
            self._unsent[key] = before.unsent()
        made = group[key.consumer] = Consumer(key, self._most)
        made.give(self._unsent.pop(key, ()))
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        self._vanished.pop(key, None)
        self._seen.discard(key)
        self._came(made)
        return made

    def close(self, consumer: Consumer) -> None:
        """The stream has ended; the grace of its consumer begins."""
        consumer.open = False
        group = self._open.get(consumer.key[:2], {})
        if group.get(consumer.key.consumer) is not consumer:
            return  # Its consumer has opened another stream.
        del group[consumer.key.consumer]
        self._unsent[consumer.key] = consumer.unsent()
        if not group:
            self._open.pop(consumer.key[:2], None)
        if not self.closed:
            self._seen.add(consumer.key)
            self._count_down(consumer.key, seen=True)

    def find(self, key: Key) -> Consumer | None:
        """The open stream of a consumer."""
        return self._open.get(key[:2], {}).get(key.consumer)

    def settled(self, key: Key) -> bool:
        """True if a consumer has a stream here, or is not known here: another process may know."""
        return self.find(key) is not None or (key not in self._seen and not self.gone(key))

    def of(self, tenant: str, group: str) -> list[Consumer]:
        """The open streams of an agent or a runner, the one that waited longest first."""
        return list(self._open.get((tenant, group), {}).values())

    def pick(self, tenant: str, group: str, last: Collection[str] = ()) -> Consumer | None:
        """The next of an agent's consumers, in turn.

        Args:
            last: Consumers that are taken only if there are no others.
        """
        found = self._open.get((tenant, group))
        if not found:
            return None
        name = next((each for each in found if each not in last), None) or next(iter(found))
        consumer = found[name] = found.pop(name)
        return consumer

    def expect(self, key: Key) -> None:
        """Begin the grace of a consumer without a stream, unless it has begun."""
        self._count_down(key, seen=False)

    def _count_down(self, key: Key, *, seen: bool) -> None:
        """Begin a grace.

        Args:
            seen: True if the consumer had a stream here.
        """
        if key in self._timers or self.find(key) is not None or self.closed:
            return
        loop = asyncio.get_running_loop()
        self._timers[key] = loop.call_later(self._grace, self._over, key, seen)

    def _over(self, key: Key, seen: bool) -> None:
        self._timers.pop(key, None)
        if seen:
            self._seen.discard(key)
            self._unsent.pop(key, None)
            self.vanished(key)
        if not self.closed:
            self._lost(key)

    def vanished(self, key: Key) -> None:
        """Know that a consumer did not come back within its grace."""
        if len(self._vanished) >= REMEMBERED:
            self._vanished.pop(next(iter(self._vanished)))
        self._vanished[key] = time.monotonic()

    def gone(self, key: Key) -> bool:
        """True if a consumer has not come back within its grace, lately."""
        return time.monotonic() - self._vanished.get(key, -RECENT) < RECENT

    def cut_all(self) -> None:
        """Cut every stream, and expect no consumer any more."""
        self.closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for each in self:
            each.cut()

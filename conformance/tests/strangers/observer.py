"""An observer that keeps the events of each Task, and ten mistakes in it."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any, ClassVar

from agentic_kernel_engine import Event


class HealthyObserver:
    """Keeps ``(task_id, event)`` in ``events``, as they come."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Event]] = []

    def observe(self, task_id: str, event: Event) -> None:
        self.events.append((task_id, event))

    def types(self, task_id: str) -> list[str]:
        return [event.type for owner, event in self.events if owner == task_id]


class JoinsDeltasInPlace(HealthyObserver):
    """Joins neighbouring deltas in the event that it was given."""

    def observe(self, task_id: str, event: Event) -> None:
        if self.events and event.type == "run.delta":
            owner, last = self.events[-1]
            if owner == task_id and last.type == "run.delta":
                data: Any = last.data
                data["text"] += event.data.get("text", "")
                return
        super().observe(task_id, event)


class WritesThrough(HealthyObserver):
    """Writes each event to a slow sink before it returns."""

    def observe(self, task_id: str, event: Event) -> None:
        time.sleep(0.05)  # the collector's round trip
        super().observe(task_id, event)


class KeepsLater(HealthyObserver):
    """Hands each event to an asyncio task of its own, so durable events overtake long texts."""

    def __init__(self) -> None:
        super().__init__()
        self._tasks: set[asyncio.Task[None]] = set()

    def observe(self, task_id: str, event: Event) -> None:
        task = asyncio.get_running_loop().create_task(self._keep(task_id, event))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _keep(self, task_id: str, event: Event) -> None:
        await asyncio.sleep(len(str(event.data)) / 1_000_000)  # the upload
        self.events.append((task_id, event))


class OnlyDurable(HealthyObserver):
    """Waits for the durable copy of a live event, which never comes."""

    def observe(self, task_id: str, event: Event) -> None:
        if event.id is None and event.type != "run.delta":
            return
        super().observe(task_id, event)


class SeenOnce(HealthyObserver):
    """Drops ids that it saw before, of whichever Task, and so events of a second Task."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[tuple[int, ...]] = set()

    def observe(self, task_id: str, event: Event) -> None:
        if event.id is not None:
            if tuple(event.id) in self._seen:
                return
            self._seen.add(tuple(event.id))
        super().observe(task_id, event)


class SharedList(HealthyObserver):
    """Has one list for all its instances, so it shows events of other Hosts."""

    events: ClassVar[list[tuple[str, Event]]] = []  # type: ignore[misc]

    def __init__(self) -> None:
        pass


class KeepsTheLast(HealthyObserver):
    """Keeps the last 256 events and counts none of those that it dropped."""

    def __init__(self) -> None:
        super().__init__()
        self.events = deque(maxlen=256)  # type: ignore[assignment]


class SortsById(HealthyObserver):
    """Sorts by id, with live events before all others."""

    def observe(self, task_id: str, event: Event) -> None:
        super().observe(task_id, event)
        self.events.sort(key=lambda each: (each[0], tuple(each[1].id or (0, 0))))


class NeedsAMoment(HealthyObserver):
    """Asks each event for its moment and the first letter of its text, and raises without them."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def observe(self, task_id: str, event: Event) -> None:
        moment = event.at.isoformat()  # type: ignore[union-attr]
        mark = event.data["text"][0] if event.type == "run.delta" else "-"
        self.lines.append(f"{moment} {mark} {event.type}")
        super().observe(task_id, event)


class WatchDog(HealthyObserver):
    """Cancels the asyncio task that it is called in after 50 events of a Task."""

    def observe(self, task_id: str, event: Event) -> None:
        super().observe(task_id, event)
        if len(self.types(task_id)) == 50:
            running = asyncio.current_task()
            if running is not None:
                running.cancel("this Task talks too much")


FAULTS = {
    "JoinsDeltasInPlace": "observer",
    "WritesThrough": "held",
    "KeepsLater": "observer",
    "OnlyDurable": "observer",
    "SeenOnce": "observer",
    "SharedList": "observer",
    "KeepsTheLast": "observer",
    "SortsById": "observer",
    "NeedsAMoment": "observer",
    "WatchDog": "observer",
}
"""The rule that each of them breaks."""

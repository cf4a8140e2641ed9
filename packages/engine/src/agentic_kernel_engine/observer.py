"""Observer: receives the events of Tasks. It cannot change a run, and its faults break none."""

from __future__ import annotations

import asyncio
import sys
from asyncio import iscoroutinefunction
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Protocol, TextIO

from agentic_kernel import InvalidValue

from .edges import came, part, whole
from .events import RUN_DELTA, Event


class Observer(Protocol):
    """Receives every event of every Task that one Host runs or changes."""

    def observe(self, task_id: str, event: Event) -> None:
        """Receive one event. Return soon, because the call runs in the Host's own thread.

        An event with an id is durable. An event without an id is live: a run emitted it, and the
        run's next commit makes it durable without telling the observer again. Events of one Task
        come in order. The Host logs a fault of an observer once and ignores it.
        """
        ...


def observing(value: Any, name: str) -> Any:
    """Check an observer: its `Observer.observe` is a plain function.

    Raises:
        InvalidValue: The value is not an observer, or its ``observe`` is a coroutine function,
            which the Host would not await.
    """
    observe = part(value, name, Observer).observe
    if iscoroutinefunction(observe) or iscoroutinefunction(type(observe).__call__):
        raise InvalidValue(
            f"{name}.observe", "is a coroutine function; use a plain function, and start a task "
            "or fill a queue in it"
        )  # fmt: skip
    return value


class InMemoryObserver:
    """Keeps each event in ``events``, a list of ``(task_id, event)``."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Event]] = []

    def observe(self, task_id: str, event: Event) -> None:
        self.events.append((task_id, event))

    def types(self, task_id: str) -> list[str]:
        """The types of one Task's events, in order."""
        return [event.type for id, event in self.events if id == task_id]


class ConsoleObserver:
    """Prints text in progress at once, and every other event as a line of its own.

    Control characters and terminal escapes never reach the terminal.
    """

    def __init__(self, file: TextIO | None = None) -> None:
        if file is not None and not callable(getattr(file, "write", None)):
            raise InvalidValue("file", f"is {came(file)}; use a text file, or None for stderr")
        self._file = file
        self._in_text = False

    def observe(self, task_id: str, event: Event) -> None:
        file = self._file or sys.stderr
        if event.type == RUN_DELTA:
            file.write(printable(str(event.data.get("text", "")), keep="\n\t"))
            self._in_text = True
        else:
            start = "\n" if self._in_text else ""
            detail = " ".join(f"{key}={event.data[key]!s:.200}" for key in event.data)
            file.write(start + printable(f"[{task_id}] {event.type} {detail}".rstrip()) + "\n")
            self._in_text = False
        file.flush()


class StreamingObserver:
    """An asynchronous iterator over ``(task_id, event)``, for one consumer.

    It holds at most ``capacity`` events. If the consumer is too slow, the oldest events are
    dropped, and ``dropped`` counts them; the run never waits.
    """

    def __init__(self, capacity: int = 10_000) -> None:
        self.dropped = 0
        self._events: deque[tuple[str, Event]] = deque(maxlen=whole(capacity, "capacity", 1))
        self._ready = asyncio.Event()
        self._closed = False

    def observe(self, task_id: str, event: Event) -> None:
        if len(self._events) == self._events.maxlen:
            self.dropped += 1
        self._events.append((task_id, event))
        self._ready.set()

    def close(self) -> None:
        """End the iteration after the consumer has read the events that are held."""
        self._closed = True
        self._ready.set()

    async def __aiter__(self) -> AsyncIterator[tuple[str, Event]]:
        while True:
            while self._events:
                yield self._events.popleft()
            if self._closed:
                return
            self._ready.clear()
            await self._ready.wait()


class CompositeObserver:
    """Passes each event to several observers; all receive it, even if one of them fails."""

    def __init__(self, *observers: Observer) -> None:
        for index, observer in enumerate(observers):
            observing(observer, f"observers[{index}]")
        self._observers = observers

    def observe(self, task_id: str, event: Event) -> None:
        faults: list[BaseException] = []
        for observer in self._observers:
            try:
                observer.observe(task_id, event)
            except KeyboardInterrupt:
                raise
            except BaseException as fault:
                faults.append(fault)
        if faults:
            raise BaseExceptionGroup("observers failed", faults)


def printable(text: str, keep: str = "") -> str:
    """The text with every character that could steer a terminal replaced by its escape."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text
    )

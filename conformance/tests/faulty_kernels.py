"""Kernels and observers with one mistake each. None of them conforms."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TextIO

import agentic_kernel
from agentic_kernel import Complete, IllegalTransition, Mutation, Resume, Task, TaskStatus
from agentic_kernel_engine import Event


class _Kernel:
    """The kernel's functions, to be overridden one at a time."""

    def apply(self, task: Task, mutation: Mutation, at: datetime) -> Task:
        return agentic_kernel.apply(task, mutation, at)

    def annotate(self, task: Task, notes: Mapping[str, Any]) -> Task:
        return agentic_kernel.annotate(task, notes)


class CopiesNoOps(_Kernel):
    """Gives a no-op a new object, so that nobody can tell by identity."""

    def apply(self, task: Task, mutation: Mutation, at: datetime) -> Task:
        found = super().apply(task, mutation, at)
        return copy.copy(found) if found is task else found


class CompletesThePaused(_Kernel):
    """Lets a paused Task be completed."""

    def apply(self, task: Task, mutation: Mutation, at: datetime) -> Task:
        if type(mutation) is Complete and task.status is TaskStatus.PAUSED:
            task = super().apply(task, Resume(), at)
        return super().apply(task, mutation, at)


class RestartsTheClock(_Kernel):
    """Takes a resume for a start."""

    def apply(self, task: Task, mutation: Mutation, at: datetime) -> Task:
        found = super().apply(task, mutation, at)
        if type(mutation) is Resume and found is not task:
            return replace(found, started_at=at)
        return found


class LegalisesAll(_Kernel):
    """Turns what is illegal into a no-op."""

    def apply(self, task: Task, mutation: Mutation, at: datetime) -> Task:
        try:
            return super().apply(task, mutation, at)
        except IllegalTransition:
            return task


class NotesTheEnded(_Kernel):
    """Lets an implementation note something after the end."""

    def annotate(self, task: Task, notes: Mapping[str, Any]) -> Task:
        if not task.status.terminal:
            return super().annotate(task, notes)
        noted = task.noted | set(notes)
        return replace(task, metadata={**task.metadata, **notes}, noted=noted)


class PrintsRaw:
    """An observer that prints what it is told as it is."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def observe(self, task_id: str, event: Event) -> None:
        self._file.write(f"[{task_id}] {event.type} {dict(event.data)}\n{event.data.get('text')}")


class PrintsLines:
    """An observer that replaces escapes, and lets line ends through."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def observe(self, task_id: str, event: Event) -> None:
        line = f"[{task_id}] {event.type} {event.data.get('message', '')}\n"
        self._file.write("".join(c if c.isprintable() or c == "\n" else "?" for c in line))


class ExpectsText:
    """An observer that knows what a delta holds, and counts its characters."""

    def __init__(self) -> None:
        self.characters = 0

    def observe(self, task_id: str, event: Event) -> None:
        if event.type == "run.delta":
            self.characters += len(event.data["text"])


class DropsLive:
    """An observer that keeps what is durable only."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Event]] = []

    def observe(self, task_id: str, event: Event) -> None:
        if event.id is not None:
            self.events.append((task_id, event))


class OnceEach(DropsLive):
    """An event that is equal to an earlier one is taken for the same."""

    def observe(self, task_id: str, event: Event) -> None:
        if (task_id, event) not in self.events[-50:]:
            self.events.append((task_id, event))


class TheLastThousand(DropsLive):
    """It keeps a thousand events, and does not say so."""

    def observe(self, task_id: str, event: Event) -> None:
        self.events = [*self.events, (task_id, event)][-1_000:]


class ForgetsTheEnded(DropsLive):
    """When a Task has ended, its events are cleaned up."""

    def observe(self, task_id: str, event: Event) -> None:
        self.events.append((task_id, event))
        if event.type == "task.completed":
            self.events = [each for each in self.events if each[0] != task_id]


class TakesThemOut(DropsLive):
    """A reader takes the events out."""

    def __init__(self) -> None:
        self.queue: list[tuple[str, Event]] = []

    def observe(self, task_id: str, event: Event) -> None:
        self.queue.append((task_id, event))

    @property
    def events(self) -> list[tuple[str, Event]]:  # type: ignore[override]
        taken, self.queue = self.queue, []
        return taken


class CopiesDefaults(DropsLive):
    """An event without a moment gets the moment at which it was told."""

    def observe(self, task_id: str, event: Event) -> None:
        at = event.at or datetime.now(UTC)
        self.events.append((task_id, Event(event.type, event.data, at, event.id)))


class TextsOnly(DropsLive):
    """It keeps the data as text, to be shown."""

    def observe(self, task_id: str, event: Event) -> None:
        data = {str(name): str(value) for name, value in event.data.items()}
        self.events.append((task_id, Event(event.type, data, event.at, event.id)))

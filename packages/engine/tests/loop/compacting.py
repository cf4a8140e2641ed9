"""Shared by the tests of compaction: compactors that count, and that say what they are told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from agentic_kernel_engine import Event
from agentic_kernel_engine.plans.action import Action, FinalAnswer, ToolCall
from agentic_kernel_engine.plans.limits import Remaining
from agentic_kernel_engine.plans.transcript import (
    Entry,
    Transcript,
)
from agentic_kernel_engine.seams.compactor import WindowCompactor
from agentic_kernel_engine.seams.planner import Context

SHORT = WindowCompactor(max_entries=10, max_bytes=100_000, keep=4, summary=400)


class Counting:
    """A planner that calls a tool so many times, and notes what it was shown at each step."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.shown: dict[int, list[Entry]] = {}
        self.longest = 0
        self.largest = 0

    async def plan(self, context: Context) -> Action:
        self.longest = max(self.longest, len(context.transcript))
        self.largest = max(self.largest, Transcript(context.transcript).size)
        self.shown[context.step] = list(context.transcript)
        if context.step == self.steps:
            return FinalAnswer(context.step)
        return ToolCall("add", {"a": context.step, "b": 1})


class Says:
    """A compactor that is one function."""

    def __init__(self, says: Callable[[Sequence[Entry]], Any]) -> None:
        self._says = says

    def compact(self, transcript: Transcript, remaining: Remaining) -> Any:
        return self._says(transcript)


def compacted(events: Sequence[Event]) -> list[Event]:
    return [event for event in events if event.type == "run.compacted"]

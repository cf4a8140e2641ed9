"""The points of the Loop's step at which a process kills itself, and the run that passes them.

Every point is reached through a seam: middleware, a tool, the store. What happens at them is kept
outside the store, in a journal that all processes of a trial append to.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from agentic_kernel_engine import Record, tool
from agentic_kernel_engine.events import from_stored
from agentic_kernel_engine.loop import Context, FinalAnswer, Observation, Plan, ToolCall, Usage
from agentic_kernel_engine.plans import vocabulary
from agentic_kernel_engine.seams import Invocation, ScriptedPlanner, Tool, ToolContext

from .crash_points import CutStore, Knife
from .crash_worker import say

BEFORE_PLAN: Final = "before plan"
ANSWERED: Final = "after the model's answer"
PREPARED: Final = "after prepare"
TOOL: Final = "in the tool"
RETURNED: Final = "after it and before settle"
SETTLED: Final = "after settle"
POINTS: Final = (BEFORE_PLAN, ANSWERED, PREPARED, TOOL, RETURNED, SETTLED)

ASKED: Final = "asked"
"""The planner is about to answer. Journal: Task and step, iterations that are left."""
BEGUN: Final = "begun"
"""A tool is about to do something. Journal: the idempotency key, the tool."""
FINISHED: Final = "finished"
"""It has done it. Journal: the same."""

SHAPES: Final = {
    "an effect": (ToolCall("write", {"text": "alone"}),),
    "an effect and a read": (
        ToolCall("write", {"text": "beside a read"}),
        ToolCall("look", {"text": "beside an effect"}),
    ),
    "a read": (ToolCall("look", {"text": "alone"}),),
    "two effects": (ToolCall("write", {"text": "one"}), ToolCall("write", {"text": "other"})),
    "an effect that reports": (ToolCall("report", {"text": "bit by bit"}),),
    "an effect that may be repeated": (
        ToolCall("put", {"text": "again"}),
        ToolCall("write", {"text": "once"}),
    ),
}
"""The steps before the final answer, which the seed puts in some order."""
REPEATABLE: Final = frozenset({"look", "put"})
"""Tools that may run again after a crash."""
REPORTS: Final = 3
ANSWER: Final = "done"
USED: Final = Usage(input_tokens=100, output_tokens=5)
"""What each answer of the model uses up."""
WORST: Final = Usage(input_tokens=100, output_tokens=50)
"""What is reserved for it."""


def script(shapes: Sequence[str]) -> list[Plan]:
    """The answers of the model, step by step."""
    steps = [SHAPES[shape] for shape in shapes]
    return [*(Plan(calls, usage=USED) for calls in steps), Plan((FinalAnswer(ANSWER),), usage=USED)]


def limits(forfeits: int = 1) -> dict[str, int]:
    """What every step takes once, and so many reservations lost to crashes; nothing beyond."""
    before_last = len(SHAPES) * USED.output_tokens
    return {
        "max_iterations": len(SHAPES) + 1 + forfeits,
        "max_output_tokens": before_last + (forfeits + 1) * WORST.output_tokens,
    }


class Noted(NamedTuple):
    """One line of the journal."""

    what: str
    process: str
    subject: str
    value: Any


class Journal:
    """What one process did, beside the store: each line is on the disk before it is acted on."""

    def __init__(self, path: Path, process: str) -> None:
        self._path = path
        self._process = process

    def note(self, what: str, subject: str, value: Any) -> None:
        """Append one line in one write, and sync it."""
        line = json.dumps([what, self._process, subject, value]) + "\n"
        fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(fd, line.encode())
            os.fsync(fd)
        finally:
            os.close(fd)

    @contextmanager
    def effect(self, tool: str, key: str) -> Iterator[None]:
        """Note that something is done: before it, and after it if it comes to that."""
        self.note(BEGUN, key, tool)
        yield
        self.note(FINISHED, key, tool)


def read_journal(path: Path) -> list[Noted]:
    """All that the processes of a trial did, in order."""
    text = path.read_text() if path.exists() else ""
    return [Noted(*json.loads(line)) for line in text.splitlines()]


class JournalledPlanner:
    """A script whose every call is on the journal, as if it had a price."""

    def __init__(self, journal: Journal, shapes: Sequence[str]) -> None:
        self._journal = journal
        self._script = ScriptedPlanner(*script(shapes), worst=WORST)
        self.worst_case = self._script.worst_case

    def plan(self, context: Context) -> Any:
        place = f"{context.task.id}:{context.step}"
        self._journal.note(ASKED, place, context.remaining.iterations)
        return self._script.plan(context)


def outcome_of(call: ToolCall) -> str:
    """What the tool of this call returns."""
    return f"{call.tool}: {call.arguments['text']}"


def journalled_tools(journal: Journal, knife: Knife) -> list[Tool]:
    """Tools that note what they do, each with a knife in it."""

    @tool(effect="write")
    async def write(text: str, context: ToolContext) -> str:
        """Must not happen twice."""
        with journal.effect("write", context.key):
            knife.passes(TOOL)
            await asyncio.sleep(0)
        return f"write: {text}"

    @tool(effect="destructive")
    async def report(text: str, context: ToolContext) -> str:
        """Must not happen twice, and says how far it is."""
        with journal.effect("report", context.key):
            for number in range(REPORTS):
                context.progress(number)
                knife.passes(TOOL)
                await asyncio.sleep(0)
        return f"report: {text}"

    @tool(effect="write", idempotent=True)
    async def put(text: str, context: ToolContext) -> str:
        """May happen again under the same key."""
        with journal.effect("put", context.key):
            knife.passes(TOOL)
            await asyncio.sleep(0)
        return f"put: {text}"

    @tool(effect="read")
    def look(text: str, context: ToolContext) -> str:
        """Reads, in a thread."""
        with journal.effect("look", context.key):
            knife.passes(TOOL)
        return f"look: {text}"

    return [write, report, put, look]


class Knives:
    """A middleware with a knife around the model and behind every tool."""

    def __init__(self, knife: Knife) -> None:
        self._knife = knife

    async def before_model(self, context: Context) -> None:
        self._knife.passes(BEFORE_PLAN)

    async def after_model(self, context: Context, plan: Plan) -> None:
        self._knife.passes(ANSWERED)

    async def after_tool(self, invocation: Invocation, observation: Observation) -> None:
        self._knife.passes(RETURNED)


class PointedStore(CutStore):
    """A store with a knife around the commits that prepare and settle.

    Every commit that it acknowledges is said: its version, the types of its events, and whether it
    carries a reservation.
    """

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        version = after.version
        types = [from_stored((version, i), text).type for i, text in enumerate(events)]
        settles = vocabulary.STEP_OBSERVED in types
        if settles:
            self._knife.passes(RETURNED)
        await self._store.commit(before, after, events)
        reserved = after.state is not None and "reserved" in json.loads(after.state)
        say("committed", after.task.id, [version, types, reserved])
        if vocabulary.EFFECTS_PREPARED in types:
            self._knife.passes(PREPARED)
        if settles:
            self._knife.passes(SETTLED)

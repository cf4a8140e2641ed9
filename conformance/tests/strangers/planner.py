"""A planner that calls a tool once and then streams its answer, and ten mistakes in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from agentic_kernel_engine.loop import (
    NOTHING_USED,
    Context,
    Delta,
    FinalAnswer,
    Notice,
    Plan,
    PlannerError,
    ToolCall,
    Turn,
    Usage,
)
from agentic_kernel_engine.seams import AsksModel, Forecast

LONGEST = 2_000  # words that the "provider" takes
PIECE = 4  # words of one piece


class HealthyPlanner(Forecast, AsksModel):
    """Says the words of the instructions and supplements, one token each, in capital letters."""

    @property
    def model(self) -> str:
        return "shout-1"

    def words(self, context: Context) -> list[str]:
        return " ".join([context.task.instructions, *context.task.supplements]).upper().split()

    def worst_case(self, context: Context) -> Usage:
        count = len(self.words(context))
        return Usage(input_tokens=count, output_tokens=count + 1)

    async def plan(self, context: Context) -> AsyncIterator[Delta | Plan]:
        words = self.words(context)
        call = self.call(context)
        if call is not None:
            yield Plan((call,), usage=Usage(len(words), 1), model=self.model)
            return
        async for piece in self.stream(context, words):
            yield piece

    def call(self, context: Context) -> ToolCall | None:
        """A call of the first tool that takes a number, if none was made yet."""
        if any(isinstance(entry, Turn) for entry in context.transcript):
            return None
        for tool in self.tools(context):
            if list(tool.input_schema.get("required", ())) == ["number"]:
                return ToolCall(tool.name, {"number": len(self.words(context))})
        return None

    def tools(self, context: Context) -> Any:
        return context.tools

    async def stream(self, context: Context, words: list[str]) -> AsyncIterator[Delta | Plan]:
        said = context.continuation
        whole = " ".join(words)
        at: int | None = None
        if said and whole.startswith(said):
            at = self.place(said)
        else:
            said = ""
        rest = whole[len(said) :]
        used = 0
        while rest:
            if used >= LONGEST:
                raise self.failure(len(words), used)
            piece = " ".join(rest.split(" ")[:PIECE])
            rest = rest[len(piece) :]
            if rest.startswith(" "):
                piece, rest = piece + " ", rest[1:]
            used += len(piece.split())
            await asyncio.sleep(0)
            yield Delta(piece, usage=Usage(len(words), used), at=at)
            at = None
        yield self.answer(whole, Usage(len(words), used))

    def place(self, said: str) -> int:
        return len(said)

    def failure(self, taken: int, used: int) -> Exception:
        return PlannerError("shout/too_long", "use fewer words", usage=Usage(taken, used))

    def answer(self, text: str, usage: Usage) -> Plan:
        return Plan((FinalAnswer(text.split()),), text=text, usage=usage, model=self.model)


class CountsItself(HealthyPlanner):
    """Counts the calls itself instead of reading the transcript, for all Tasks together."""

    def __init__(self) -> None:
        self._calls = 0

    def call(self, context: Context) -> ToolCall | None:
        self._calls += 1
        if self._calls % 2 == 0:
            return None
        fresh = [each for each in context.transcript if not isinstance(each, Turn)]
        for tool in context.tools:
            if fresh and list(tool.input_schema.get("required", ())) == ["number"]:
                return ToolCall(tool.name, {"number": len(self.words(context))})
        self._calls -= 1
        return None


class ForgetsSupplements(HealthyPlanner):
    """Estimates a call by the instructions alone, without supplements."""

    def worst_case(self, context: Context) -> Usage:
        count = len(context.task.instructions.split())
        return Usage(input_tokens=count, output_tokens=count + 1)


class FirstTools(HealthyPlanner):
    """Keeps the tools of its first context, and calls one that is hidden or gone later."""

    def __init__(self) -> None:
        self._tools: Any = None

    def tools(self, context: Context) -> Any:
        if self._tools is None:
            self._tools = context.tools
        return self._tools


class LeavesAMark(HealthyPlanner):
    """Notes in the context's variables and transcript what it has said."""

    async def stream(self, context: Context, words: list[str]) -> AsyncIterator[Delta | Plan]:
        context.variables["words"] = len(words)
        if hasattr(context.transcript, "append"):
            context.transcript.append(Notice(f"{len(words)} words are to be said"))
        async for piece in super().stream(context, words):
            yield piece


class CountsBytes(HealthyPlanner):
    """Goes on at the number of bytes of the text so far."""

    def place(self, said: str) -> int:
        return len(said.encode())


class RawError(HealthyPlanner):
    """Lets the provider's own exception out."""

    def failure(self, taken: int, used: int) -> Exception:
        return ConnectionError("400: too many words")


class NothingUsed(HealthyPlanner):
    """Says that a call that failed in its middle used nothing."""

    def failure(self, taken: int, used: int) -> Exception:
        return PlannerError("shout/too_long", "use fewer words", usage=NOTHING_USED)


class AnswersWhenCancelled(HealthyPlanner):
    """Gives what it has as its answer when it is cancelled."""

    async def stream(self, context: Context, words: list[str]) -> AsyncIterator[Delta | Plan]:
        said = ""
        try:
            async for piece in super().stream(context, words):
                said += piece.text if isinstance(piece, Delta) else ""
                yield piece
                await asyncio.sleep(0.001)
        except asyncio.CancelledError:
            yield self.answer(said, Usage(len(words), len(words)))


class NoWordsNoPlan(HealthyPlanner):
    """Ends its stream without a plan if there is nothing to say."""

    async def stream(self, context: Context, words: list[str]) -> AsyncIterator[Delta | Plan]:
        if not words:
            return
        async for piece in super().stream(context, words):
            yield piece


class OneBuffer(HealthyPlanner):
    """Collects each answer in one list, so two Tasks mix their words, and an answer is emptied."""

    def __init__(self) -> None:
        self._said: list[str] = []

    async def stream(self, context: Context, words: list[str]) -> AsyncIterator[Delta | Plan]:
        self._said.clear()
        async for piece in super().stream(context, words):
            if isinstance(piece, Delta):
                self._said.extend(piece.text.split())
            yield piece

    def answer(self, text: str, usage: Usage) -> Plan:
        if text and not self._said:
            self._said.extend(text.split())
        return Plan((FinalAnswer(self._said),), text=text, usage=usage, model=self.model)


FAULTS = {
    "CountsItself": "plan",
    "ForgetsSupplements": "budget",
    "FirstTools": "plan",
    "LeavesAMark": "context",
    "CountsBytes": "plan",
    "RawError": "plan",
    "NothingUsed": "budget",
    "AnswersWhenCancelled": "unwind",
    "NoWordsNoPlan": "plan",
    "OneBuffer": "apart",
}
"""The rule that each of them breaks."""

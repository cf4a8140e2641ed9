"""A planner that follows a script of the kit; the Loop around it is the substrate under test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from agentic_kernel import CannotStart, Task
from agentic_kernel_conformance import Fail, Hear, Mark, Say, Script, SubstrateWork
from agentic_kernel_conformance.mark import MarkFailed, marked
from agentic_kernel_conformance.substrate_honest import from_json, to_json
from agentic_kernel_conformance.substrate_work import texts
from agentic_kernel_engine import Accepting, Event, Limits, Loop, tool
from agentic_kernel_engine.loop import Context, FinalAnswer, Plan, PlannerError, Thought, ToolCall
from agentic_kernel_engine.plans.observation import INDETERMINATE
from agentic_kernel_engine.plans.plan import Delta
from agentic_kernel_engine.plans.transcript import Entry, Turn, UserMessage
from agentic_kernel_engine.plans.vocabulary import PLAN_MADE, STEP_OBSERVED
from agentic_kernel_engine.seams import Planner

KIND = "following"
LIMITS = Limits(max_iterations=20_000, max_non_progress=20_000, max_repeats=20_000)
"""The kit's scripts are longer than the backstop, and say the same again."""


class LoopWork(SubstrateWork):
    """Makes Tasks whose instructions are the script."""

    def task(self, script: Script) -> Task:
        return Task.new(
            summary="a script of the kit", instructions=to_json(script), runtime_kind=KIND
        )

    def indeterminate(self, task: Task, events: Sequence[Event]) -> list[str]:
        """The texts of each plan with an observation that calls its effect indeterminate."""
        found: list[str] = []
        plan: list[str] = []
        for event in events:
            if event.type == PLAN_MADE:
                plan = list(texts(event.data))
            elif event.type == STEP_OBSERVED and INDETERMINATE in list(texts(event.data)):
                found += plan
        return found

    def refused(self) -> Task:
        return Task.new(summary="no script", instructions="no script", runtime_kind=KIND)


class Following(Planner, Accepting):
    """Reads from the transcript how far the run has come; it remembers nothing itself."""

    async def accept(self, task: Task) -> None:
        try:
            from_json(task.instructions)
        except (ValueError, TypeError, LookupError) as error:
            raise CannotStart(f"the instructions are no script: {error}", task.id) from error

    async def plan(self, context: Context) -> AsyncIterator[Delta | Plan]:
        script = from_json(context.task.instructions)
        _check_last(context.transcript)
        at, heard = _place(script, context.transcript)
        extras = list(_extras(context))
        action: Any = FinalAnswer({"heard": heard})
        if at < len(script):
            match script[at]:
                case Mark(token):
                    action = ToolCall("mark", {"token": token})
                case Say(text):
                    yield Delta(f"{text}\n")
                    action = Thought(text)
                case Hear():
                    action = Thought("nothing more to hear")
                    if heard < len(extras):
                        action = ToolCall("mark", {"token": extras[heard]})
                case Fail(code):
                    raise PlannerError("following/exit", f"the script fails with {code}")
        yield Plan((action,))


def _check_last(transcript: Sequence[Entry]) -> None:
    """Go on after an effect whose outcome is unknown, and after no other failure.

    Raises:
        PlannerError: The last call failed.
    """
    last = transcript[-1]
    if isinstance(last, Turn) and last.observations:
        error = last.observations[-1].error
        if error and error != INDETERMINATE:
            raise PlannerError("following/mark", f"the last mark was not made: {error}")


def _place(script: Script, transcript: Sequence[Entry]) -> tuple[int, int]:
    """The number of steps that are done, and of extras that are heard."""
    at = heard = 0
    for entry in transcript:
        if isinstance(entry, Turn):
            (action,) = entry.plan.actions
            if isinstance(action, ToolCall) and isinstance(script[at], Hear):
                heard += 1
            else:
                at += 1
    return at, heard


def _extras(context: Context) -> Iterator[str]:
    """What the user said after the instructions."""
    said = [entry.text for entry in context.transcript if isinstance(entry, UserMessage)]
    yield from said[1:]


@tool(effect="write")
async def mark(token: str) -> str:
    """Make a mark."""
    try:
        await marked(token)
    except MarkFailed as error:
        raise RuntimeError(f"no mark: {error}") from error
    return token


def make() -> Loop:
    """The factory."""
    return Loop(Following(), [mark], limits=LIMITS)

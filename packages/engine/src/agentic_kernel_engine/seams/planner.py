"""Planner: what decides about the next step, most often a model; and two that are none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

from ..plans import context as _context
from ..plans.context import Context
from ..plans.ending import PlannerError
from ..plans.plan import NOTHING_USED, Delta, PlanLike, PlanStream, Usage


class Planner(Protocol):
    """Turns a context into the next actions.

    A planner may also have ``def worst_case(self, context: Context) -> Usage``: what the next
    call may use up at most. Under limits of tokens or cost it is asked before every call, and no
    call is made that could pass one; a planner without it is stopped after the call that did.

    And it may have ``async def accept(self, task: Task) -> None``, asked before a Task is
    dispatched and when one is taken up: it raises `CannotStart` where it could not plan, for want
    of a key, say. Then the Task is refused, or paused if it was running elsewhere before.
    """

    def plan(self, context: Context) -> Awaitable[PlanLike] | PlanStream:
        """The next actions: one, a batch, or a stream of pieces that ends with them.

        Raises:
            PlannerError: The provider failed, with a code that a program can branch on.
        """
        ...


class Forecast(Protocol):
    """A planner that knows what a call may cost."""

    def worst_case(self, context: Context) -> Usage:
        """What a call with this context uses up at most."""
        ...


class ScriptedPlanner:
    """Gives the answers of a script: the answer to step ``n`` is the ``n``-th.

    It depends on nothing but the step, so that it says the same again after a crash.

    Args:
        script: For each step a plan, an action, a list of actions; an exception to raise; a
            function of the context that returns one of these; or a `Streamed` answer.
        worst: What each call may use up at most; nothing by default.
    """

    def __init__(self, *script: Any, worst: Usage = NOTHING_USED) -> None:
        self._script = script
        self._worst = worst

    def worst_case(self, context: Context) -> Usage:
        return self._worst

    def plan(self, context: Context) -> Awaitable[PlanLike] | PlanStream:
        if context.step >= len(self._script):
            raise PlannerError(
                "scripted/exhausted", f"the script has {len(self._script)} answers and no more"
            )
        said = self._script[context.step]
        if callable(said):
            said = said(context)
        if isinstance(said, Exception):
            raise said
        if isinstance(said, Streamed):
            return said.pieces()
        return _answered(said)


class Streamed:
    """An answer of a `ScriptedPlanner` that comes in pieces.

    Args:
        pieces: The text, piece by piece; a `Delta` for another channel than the text.
        plan: What it ends with.
        pause: Awaited before each piece, so that a test can hold it up.
    """

    def __init__(
        self,
        *pieces: str | Delta,
        plan: PlanLike,
        pause: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self._pieces = pieces
        self._plan = plan
        self._pause = pause

    async def pieces(self) -> AsyncIterator[Delta | PlanLike]:
        """The pieces, and the plan at the end."""
        for piece in self._pieces:
            await (asyncio.sleep(0) if self._pause is None else self._pause())
            yield piece if isinstance(piece, Delta) else Delta(piece)
        yield self._plan


class RuleBasedPlanner:
    """Asks its rules in order; the first one that has something to say decides.

    Args:
        rules: Functions of the context that return an action, several, a plan, or None.
    """

    def __init__(self, *rules: Callable[[Context], PlanLike | None]) -> None:
        self._rules = rules

    async def plan(self, context: Context) -> PlanLike:
        for rule in self._rules:
            answer = rule(context)
            if answer is not None:
                return answer
        raise PlannerError("rules/none_fits", "no rule has an answer to this context; add one")


async def _answered(answer: PlanLike) -> PlanLike:
    return answer


# `help(Context)` resolves this annotation; context.py cannot import what imports context.py.
vars(_context)["Planner"] = Planner

"""Planners that come with the engine, without a model: from a script, and by rules."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from ..plans.ending import PlannerError
from ..plans.plan import NOTHING_USED, Delta, PlanLike, PlanStream, Usage
from .planner import Context, Forecast


class ScriptedPlanner(Forecast):
    """A planner that answers from a script: the answer to step ``n`` is ``script[n]``.

    The answer depends only on the step, and an answer is not used up: after a crash the same step
    gets the same answer. The planner keeps no record of its contexts; a function in the script
    receives the context of its step.

    Args:
        script: For each step a plan, an action, a list of actions; an exception to raise; a
            function of the context that returns one of these; or a `Streamed` answer.
        worst: The most that each call may use up (see `Forecast`); nothing by default.
    """

    def __init__(self, *script: Any, worst: Usage = NOTHING_USED) -> None:
        self._script = script
        self._worst = worst

    def worst_case(self, context: Context) -> Usage:
        return self._worst

    def plan(self, context: Context) -> Awaitable[PlanLike] | PlanStream:
        """The answer to this step.

        Raises:
            PlannerError: ``scripted/exhausted``: the script has no answer to this step.
        """
        if context.step >= len(self._script):
            raise PlannerError(
                "scripted/exhausted",
                f"the script has {len(self._script)} answers, and step {context.step} has none; "
                "add one",
            )
        answer = self._script[context.step]
        if callable(answer):
            answer = answer(context)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Streamed):
            return answer.pieces()
        return _answered(answer)


class Streamed:
    """An answer of a `ScriptedPlanner` that comes in pieces.

    Args:
        pieces: The text, piece by piece; a `Delta` for another channel than the text.
        plan: The plan at the end.
        pause: Awaited before each piece, so that a test can hold the piece back.
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
    """A planner that asks its rules in order and takes the first answer that is not None.

    Args:
        rules: Functions of the context that return an action, several, a plan, or None.
    """

    def __init__(self, *rules: Callable[[Context], PlanLike | None]) -> None:
        self._rules = rules

    async def plan(self, context: Context) -> PlanLike:
        """The first rule's answer.

        Raises:
            PlannerError: ``rules/none_fits``: each rule returned None.
        """
        for rule in self._rules:
            answer = rule(context)
            if answer is not None:
                return answer
        raise PlannerError("rules/none_fits", "no rule has an answer to this context; add one")


async def _answered(answer: PlanLike) -> PlanLike:
    return answer

"""Fallback: where one planner fails, another one answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import Any, cast

from agentic_kernel import InvalidValue

from ...loop.answering import LENGTH, plan_of
from ...loop.context import Context
from ...loop.ending import PlannerError
from ...loop.plan import Delta
from ..middleware import Recovery
from ..planner import Planner


class Fallback:
    """Has other planners answer, the first one that can, when the Loop's own has failed.

    A planner whose worst case does not fit what is left of the output tokens or the cost is not
    asked. Its answer comes whole: pieces of a stream are not passed on. If every one fails, the
    first failure stands.

    Args:
        *planners: In the order in which they are asked.
        codes: Of the failures after which to ask them; None for all.

    Raises:
        InvalidValue: There is no other planner.
    """

    def __init__(self, *planners: Planner, codes: Collection[str] | None = None) -> None:
        if not planners:
            raise InvalidValue("planners", "is empty; give the planner that answers instead")
        if isinstance(codes, str):
            raise InvalidValue("codes", "is one string; give a collection of codes")
        self._planners = planners
        self._codes = codes

    async def on_error(self, context: Context, error: Exception) -> Recovery | None:
        if self._codes is not None and getattr(error, "code", None) not in self._codes:
            return None
        for planner in self._planners:
            if not _affordable(planner, context):
                continue
            try:
                return Recovery("fallback", plan_of(await _answer(planner, context)))
            except Exception:
                continue  # The run is told of the first failure.
        return None


def _affordable(planner: Planner, context: Context) -> bool:
    worst_case = getattr(planner, "worst_case", None)
    if worst_case is None:
        return True
    worst, left = worst_case(context), context.remaining
    return (left.output_tokens is None or worst.output_tokens <= left.output_tokens) and (
        left.cost is None or worst.cost <= left.cost
    )


async def _answer(planner: Planner, context: Context) -> Any:
    answer = planner.plan(context)
    if not hasattr(answer, "__aiter__"):
        return await answer
    pieces, length = cast("AsyncIterator[Any]", answer), 0
    try:
        async for piece in pieces:
            if not isinstance(piece, Delta):
                return piece
            length += len(piece.text)
            if length > LENGTH:
                break
    finally:
        close = getattr(pieces, "aclose", None)
        if close is not None:
            await close()
    raise PlannerError("engine/bad_plan", "the stream ended without a plan, or did not end")

"""Fallback: if one planner fails, another one answers."""

from __future__ import annotations

from collections.abc import Collection

from agentic_kernel import InvalidValue

from ... import edges
from ..middleware import Recovery
from ..planner import Context, Forecast, Planner


class Fallback:
    """Asks other planners, one after the other, if the Loop's own has failed.

    The Loop makes their calls like those of its own planner: reserved before, cut short by a pause,
    and made again if a `Retry` before this middleware says so. A planner whose worst case does not
    fit the rest of the limits is not asked. If every planner fails, the run fails with the failure
    of the Loop's own planner.

    Args:
        *planners: The planners, in the order in which they are asked.
        codes: Codes of the failures after which to ask them; None for all.

    Raises:
        InvalidValue: No planner is given, or ``codes`` is one string.
    """

    def __init__(self, *planners: Planner, codes: Collection[str] | None = None) -> None:
        if not planners:
            raise InvalidValue("planners", "is empty; give the planner that answers instead")
        if isinstance(codes, str):
            raise InvalidValue("codes", "is one string; give a collection of codes")
        self._planners = planners
        self._codes = codes

    async def on_error(self, context: Context, error: Exception) -> Recovery | None:
        asked = [place for place, each in enumerate(self._planners) if each is context.planner]
        known = self._codes is None or getattr(error, "code", None) in self._codes
        if not asked and not known:
            return None
        for planner in self._planners[asked[-1] + 1 if asked else 0 :]:
            forecast: Forecast | None = edges.optional(planner, "planners", Forecast)
            if forecast is None or context.remaining.covers(forecast.worst_case(context)):
                return Recovery("fallback", planner=planner)
        return None

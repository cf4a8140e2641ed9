"""Recording: records the answers of a planner and of tools in a run, and replays them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from typing import Any, cast

import msgspec

from ... import edges, values
from ...loop.planner_calls import plan_of
from ...plans.ending import PlannerError
from ...plans.observation import Observation
from ...plans.plan import NOTHING_USED, Delta, Plan, PlanLike, PlanStream, Usage
from ...tools.call import Invocation
from ..middleware import storable
from ..planner import Context, Forecast, Planner


class Attempt(msgspec.Struct, omit_defaults=True):
    """One call of a planner."""

    plan: Plan | None = None
    """The answer; None if the call failed."""
    pieces: list[Delta] | None = None
    """The pieces before the answer; None if it was not a stream."""
    code: str = ""
    """Code of the failure; ``message`` and ``metadata`` are of the failure, too."""
    message: str = ""
    metadata: dict[str, Any] | None = None
    usage: Usage | None = None
    """Usage of the failed call, as in `PlannerError`."""


class Recording(msgspec.Struct):
    """The answers of a run; plain data that can be kept as JSON."""

    attempts: dict[int, list[Attempt]] = {}
    """By step, the calls of the planner."""
    worst: dict[int, Usage] = {}
    """By step, the worst case of a call."""
    observations: dict[str, Observation] = {}
    """By ``step:index``, the observations of tool calls."""
    reports: dict[str, list[Any]] = {}
    """By ``step:index``, the progress that tools reported."""


class Recorder(Forecast):
    """Wraps a planner, and records its answers and those of the tools.

    Give it as the planner, and as the last middleware, so that it sees the tools' observations
    first: ``Loop(recorder, tools, middleware=[…, recorder])``. It does not record an answer that
    another middleware gives in the place of the planner or of a tool: in a replay, that middleware
    gives it again. It does not record a call that was cut short. If a call was made again after a
    crash, it keeps the last one.

    Args:
        planner: The planner that answers.
    """

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._recordings: dict[str, Recording] = {}

    def take(self, task_id: str) -> Recording:
        """Return the recording of a Task, and forget it here."""
        return self._recordings.pop(task_id, Recording())

    def worst_case(self, context: Context) -> Usage:
        forecast: Forecast | None = edges.optional(self._planner, "planner", Forecast)
        worst = NOTHING_USED if forecast is None else forecast.worst_case(context)
        self._recording(context.task.id).worst.setdefault(context.step, worst)
        return worst

    def plan(self, context: Context) -> Awaitable[PlanLike] | PlanStream:
        try:
            answer = self._planner.plan(context)
        except Exception as error:
            self._keep(context, _failed(error, None))
            raise
        if hasattr(answer, "__aiter__"):
            return self._stream(context, cast("AsyncIterator[Any]", answer))
        return self._answered(context, answer)

    async def before_tool(self, invocation: Invocation) -> None:
        context, report = invocation.context, invocation.context.progress
        reports = self._recording(context.task_id).reports
        reports.pop(_place(invocation), None)

        def progress(value: Any) -> None:
            report(value)
            kept = values.decode(values.encode(value, "report"))
            reports.setdefault(_place(invocation), []).append(kept)

        context.progress = progress

    async def after_tool(self, invocation: Invocation, observation: Observation) -> None:
        recording = self._recording(invocation.context.task_id)
        recording.observations[_place(invocation)] = observation

    async def _answered(self, context: Context, answer: Awaitable[Any]) -> Plan:
        try:
            plan = plan_of(await answer)
        except Exception as error:
            self._keep(context, _failed(error, None))
            raise
        self._keep(context, Attempt(plan))
        return plan

    async def _stream(self, context: Context, pieces: AsyncIterator[Any]) -> PlanStream:
        said: list[Delta] = []
        try:
            async for piece in pieces:
                if not isinstance(piece, Delta):
                    plan = plan_of(piece)
                    break
                said.append(piece)
                yield piece
            else:
                raise PlannerError("engine/bad_plan", "the stream ended without a plan")
        except Exception as error:
            self._keep(context, _failed(error, said))
            raise
        finally:
            close = getattr(pieces, "aclose", None)
            if close is not None:
                await close()
        self._keep(context, Attempt(plan, said))
        yield plan

    def _keep(self, context: Context, attempt: Attempt) -> None:
        attempts = self._recording(context.task.id).attempts.setdefault(context.step, [])
        attempts[context.failures :] = [attempt]

    def _recording(self, task_id: str) -> Recording:
        return self._recordings.setdefault(task_id, Recording())


class Replayer(Forecast):
    """Replays a recording: it asks no model and runs no tool.

    Give it as the planner and as the last middleware, with the policy, tools, limits and
    middlewares of the run that was recorded. The events are then the same, except for ids and
    times. A failure that was not a `PlannerError` is replayed as one.

    Raises:
        PlannerError: ``replayer/not_recorded``: the run differs from the recorded one.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def worst_case(self, context: Context) -> Usage:
        return self._recording.worst.get(context.step, NOTHING_USED)

    def plan(self, context: Context) -> Awaitable[PlanLike] | PlanStream:
        attempts = self._recording.attempts.get(context.step, [])
        if context.failures >= len(attempts):
            raise _not_recorded(
                f"call {context.failures + 1} of the planner at step {context.step}"
            )
        attempt = attempts[context.failures]
        return _answer(attempt) if attempt.pieces is None else _stream(attempt)

    async def before_tool(self, invocation: Invocation) -> Observation:
        place = _place(invocation)
        observation = self._recording.observations.get(place)
        if observation is None or observation.tool != invocation.tool.name:
            raise _not_recorded(f"call of {invocation.tool.name} at step:index {place}")
        for report in self._recording.reports.get(place, ()):
            invocation.context.progress(report)
        return observation


async def _answer(attempt: Attempt) -> Plan:
    if attempt.plan is None:
        raise PlannerError(attempt.code, attempt.message, attempt.metadata, usage=attempt.usage)
    return attempt.plan


async def _stream(attempt: Attempt) -> PlanStream:
    for piece in attempt.pieces or ():
        yield piece
    yield await _answer(attempt)


def _failed(error: Exception, pieces: list[Delta] | None) -> Attempt:
    """The failed call as an `Attempt`."""
    code = getattr(error, "code", "") or type(error).__name__
    message = error.message if isinstance(error, PlannerError) else storable(str(error))
    metadata = getattr(error, "metadata", None)
    usage = error.usage if isinstance(error, PlannerError) else None
    return Attempt(None, pieces, code, message, dict(metadata) if metadata else None, usage)


def _not_recorded(what: str) -> PlannerError:
    return PlannerError(
        "replayer/not_recorded",
        f"the recording has no {what}; use the policy, tools, limits and middlewares of the run "
        "that was recorded",
    )


def _place(invocation: Invocation) -> str:
    return f"{invocation.context.step}:{invocation.context.index}"

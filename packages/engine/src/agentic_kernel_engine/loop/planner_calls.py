"""Planner calls: one call of the planner, reserved before it begins; a pause interrupts it.

Before the call is made again, or another planner is called instead, a commit carries a reservation
(R17). `retries` has the rest of what follows a failed call.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from datetime import datetime
from typing import Any, Final, cast

import msgspec

from agentic_kernel import InvalidValue

from .. import edges, values
from ..events import Checked
from ..faults import Stray, contained, is_a, not_unwinding, origin, text_of
from ..plans import vocabulary
from ..plans.action import ACTIONS, TEXTS, FinalAnswer, ToolCall
from ..plans.ending import End, PlannerError
from ..plans.limits import check_usage, unaffordable
from ..plans.plan import NOTHING_USED, Plan, Usage
from ..plans.reasons import StopReason
from ..seams.agent_tool import unless
from ..seams.middleware import Hooks
from ..seams.planner import Context, Counting, Forecast, Planner
from ..tools.deadline import DeadlinePassed, bounded
from . import retries
from .bad_answers import WANTED, bad_plan, kind_of_value, not_awaitable
from .budget_cuts import make_room
from .run import LoopRun
from .state import AtHand
from .streamed_answers import INTERRUPTED, record_cut, streamed

KEPT: Final = 4_500_000
"""The most bytes of JSON of a plan, because the state keeps it until it is carried out."""
FINAL: Final = 8_000_000
"""The most bytes of JSON of a plan that holds only the final answer."""
NAME: Final = 512
"""The most characters of a tool's name and of a call's id."""

CheckedPlan = tuple[Plan, msgspec.Raw]
"""A plan and its JSON form as of now, because foreign code may change the values in the plan."""

_read_back = msgspec.json.Decoder(Plan).decode


class PlannerCalls:
    """Asks a planner, and asks again if a hook wants that after a failure."""

    def __init__(self, planner: Planner, hooks: Hooks) -> None:
        self._planner = planner
        self._hooks = hooks
        self._forecast: Forecast | None = edges.optional(planner, "planner", Forecast)

    def forecast(self, context: Context) -> Usage:
        """The most that the next call may use up, by its planner's forecast; nothing without one.

        Raises:
            PlannerError: The forecast is not a possible usage.
        """
        forecast = self._forecast
        if context.planner is not None:
            forecast = edges.optional(context.planner, "planner", Forecast)
        if forecast is None:
            return NOTHING_USED
        worst = forecast.worst_case(context)
        check_usage(worst, "engine/bad_forecast")
        return worst

    def next(self, run: LoopRun, context: Context) -> Usage | None:
        """The reservation for the next call, for this step's commit; None if no call may follow."""
        context.prompt_tokens = None  # The next prompt is longer.
        worst = self.forecast(context)
        if run.state.spent.iterations >= run.limits.max_iterations:
            return None
        if worst is NOTHING_USED or unaffordable(run.limits, run.state.spent, worst) is None:
            return worst
        return None

    async def reserve(self, run: LoopRun, context: Context) -> None:
        """Make sure that a commit carries what this call may use up (R17).

        Raises:
            End: The call could pass a limit.
        """
        worst, reserved = self.forecast(context), run.state.reserved
        spent = run.state.spent
        if unaffordable(run.limits, spent, worst) is not None:
            worst = await self._counted(run, context, worst)
            if unaffordable(run.limits, spent, worst) is not None:
                await make_room(
                    run, lambda left: unaffordable(left, spent, worst) is None, fence=True
                )
                end = run.unaffordable(worst)
                if end is not None:
                    raise end
        if reserved is not worst and (reserved is None or not _covers(reserved, worst)):
            run.state.reserved = worst
            await run.commit()

    async def _counted(self, run: LoopRun, context: Context, worst: Usage) -> Usage:
        """The forecast after the vendor counted the prompt; the same if it does not count.

        A pause that waits interrupts the count. If the pause is withdrawn, the count is made again.

        Raises:
            PlannerError: The count is not a number of tokens.
            End: The run's time is over before the count; the count was cancelled.
            RunEnded: A pause took effect during the count.
        """
        planner = context.planner or self._planner
        counting: Counting | None = edges.optional(planner, "planner", Counting)
        if counting is None:
            return worst
        while True:
            try:
                tokens = await unless(
                    run.job, lambda: run.job.stopping, contained(_count(counting, run, context))
                )
            except DeadlinePassed:
                raise run.end_at(StopReason.TIMEOUT) from None
            except Stray as stray:
                raise origin(stray) from None
            if not run.job.stopping:
                break
            await run.checkpoint()
        if tokens is None:
            return worst
        check_usage(Usage(tokens), "engine/bad_forecast")
        context.prompt_tokens = tokens
        return self.forecast(context)

    async def ask(self, run: LoopRun, context: Context) -> CheckedPlan | None:
        """The current planner's answer; None if a pause interrupted the call and was withdrawn.

        If all planners fail, it raises the error of the Loop's own.

        Raises:
            End: The run's time is over.
            RunEnded: A pause took effect during the call.
        """
        own: Exception | None = None
        for _ in range(retries.RETRIES):
            run.known = None
            try:
                if run.turn_text is not None:
                    run.turn_text.fade()
                answer: Any = (context.planner or self._planner).plan(context)
                if hasattr(answer, "__aiter__"):
                    answer = streamed(run, cast("AsyncIterator[Any]", answer))
                elif not hasattr(answer, "__await__"):
                    raise not_awaitable(answer)
                elif run.limits.max_seconds is not None:
                    answer = self._in_time(run, answer)
                answer = await answer
                if answer is INTERRUPTED:
                    return None
                if type(answer) is Plan and answer.usage is not NOTHING_USED:
                    run.known = answer.usage  # It counts even if the plan cannot be used.
                return checked_plan(answer, run)
            except End:
                raise
            except (Exception, asyncio.CancelledError) as raised:
                # In a method of its own, because each local name here costs every run that waits
                # for its model 8 bytes (memory in benchmarks/loop.py).
                answer = await self._recovered(
                    run, context, not_unwinding(raised, "the planner"), own
                )
                if isinstance(answer, tuple):
                    return answer
                own = answer
        raise PlannerError("engine/retries", retries.TRIED_OFTEN)

    async def _recovered(
        self, run: LoopRun, context: Context, fault: BaseException, own: Exception | None
    ) -> CheckedPlan | Exception | None:
        """Return the plan that middleware gives instead of the failed call.

        If the call may be made again, return the last error of the Loop's own planner. Call this
        while the error is handled: it raises the error again if no middleware recovers from it.
        """
        raised = not_unwinding(fault, "the planner")
        error, used = _use_of(raised, run)
        own = error if context.planner is None else own
        recovery = await retries.recovery_of(self._hooks, run, context, error, used)
        if recovery is None or recovery.verb == "fail":
            if own is None or own is raised:
                raise raised
            raise own from raised
        if recovery.verb == "skip":
            return checked_plan((), run)
        if recovery.plan is not None:
            return checked_plan(recovery.plan, run)
        if recovery.planner is not None:
            context.planner, context.prompt_tokens = recovery.planner, None
        await retries.wait(run, recovery.delay, error)
        await self.reserve(run, context)
        return own

    async def _in_time(self, run: LoopRun, answer: Awaitable[Any]) -> Any:
        """The answer of a planner that does not stream.

        Raises:
            End: The run's time is over before the answer; the call was cancelled.
        """
        try:
            return await bounded(answer, run, f"a planner's call for task {run.task.id}")
        except DeadlinePassed as late:
            told = getattr(late.__cause__, "usage", None) if late.begun else NOTHING_USED
            if told is not None:
                check_usage(told, "engine/bad_plan")
                run.known = told
            record_cut(run, run.state.said)
            raise run.end_at(StopReason.TIMEOUT) from None


async def _count(counting: Counting, run: LoopRun, context: Context) -> int | None:
    """The vendor's count, up to the run's deadline."""
    tokens: int | None = await bounded(
        counting.count(context), run, f"a planner's count for task {run.task.id}"
    )
    return tokens


def take_up(run: LoopRun, plan: Plan, form: msgspec.Raw) -> AtHand:
    """Take up a plan: its usage replaces the reservation for the call (R17).

    Args:
        form: The plan's JSON form, for the record.

    Raises:
        End: Middleware has ended the run because of this answer.
    """
    state = run.state
    state.spent.iterations += 1
    state.spent.bank(plan.usage)
    if state.reserved is not None:
        run.worst, state.reserved = state.reserved, None
    state.said = ""
    if run.turn_text is not None:
        run.turn_text.settle()
        run.turn_text.end()
    made = Checked(vocabulary.PLAN_MADE, form)
    run.events = [*run.events, made] if run.events else [made]
    if run.ending is not None:
        raise run.ending
    return AtHand(plan, [])


def _use_of(error: Exception, run: LoopRun) -> tuple[Exception, Usage | None]:
    """A failure of a planner, and the usage of the failed call; None if that is not known.

    A `PlannerError` with an impossible usage is replaced by one that says so.
    """
    own: Any = error.usage if is_a(error, PlannerError) else None
    used = run.known if own is None else own
    if used is None:
        return error, None
    try:
        check_usage(used, "engine/bad_plan")
    except PlannerError as wrong:
        if own is None:
            return error, None  # The error says already that the plan's usage is impossible.
        refused = PlannerError(
            wrong.code,
            f"the planner failed ({retries.message_of(error)[:500]}), and {wrong.message}",
        )
        refused.__cause__ = error
        return refused, None
    return error, used


def _covers(reserved: Usage, worst: Usage) -> bool:
    return (
        reserved.input_tokens >= worst.input_tokens
        and reserved.output_tokens >= worst.output_tokens
        and reserved.cost >= worst.cost
    )


def same_plan(plan: Plan, form: msgspec.Raw) -> bool:
    """True if a plan that foreign code was given has this JSON form still."""
    try:
        return bytes(values.snapshot(plan)) == bytes(form)
    except (TypeError, ValueError, RecursionError):
        return False


def copy_of_plan(form: msgspec.Raw) -> Plan:
    """A plan of its own from its checked JSON form."""
    copied: Plan = _read_back(form)
    return copied


def plan_of(answer: Any) -> Plan:
    """The plan of `checked_plan`."""
    return checked_plan(answer)[0]


def checked_plan(answer: Any, run: LoopRun | None = None) -> CheckedPlan:
    """Check a planner's answer; return it as a plan, with its stored form.

    Args:
        run: The run whose ``max_calls_per_answer`` applies. An answer with more actions loses all
            of them, and `LoopRun.refused` says why.

    Raises:
        PlannerError: The answer is of no accepted type, cannot be stored, or is too long.
    """
    if isinstance(answer, Plan):
        plan = answer
        if not isinstance(plan.actions, (tuple, list)):
            raise bad_plan(
                f"actions of the planner's Plan is a {kind_of_value(plan.actions)}; give a tuple "
                "of actions"
            )
    elif isinstance(answer, ACTIONS):
        plan = Plan((answer,))
    elif isinstance(answer, (list, tuple)):
        plan = Plan(tuple(answer))
    else:
        raise bad_plan(f"the planner gave a {kind_of_value(answer)}; {WANTED}")
    if run is not None:
        run.refused = ""
        if len(plan.actions) > run.limits.max_calls_per_answer:
            plan = _refused(plan, run)
    final = bool(plan.actions)
    try:
        if isinstance(answer, Plan) and not (
            type(plan.text) is type(plan.reasoning) is type(plan.model) is str
        ):
            _check_texts(plan, _PLAN_TEXTS)
        for index, action in enumerate(plan.actions):
            if type(action) is ToolCall:
                final = False
                if not type(action.tool) is type(action.id) is type(action.refused) is str:
                    _check_texts(action, TEXTS[ToolCall], f"actions[{index}].")
                if len(action.tool) > NAME or len(action.id) > NAME:
                    longer = max(len(action.tool), len(action.id))
                    raise InvalidValue(
                        f"actions[{index}]",
                        f"has a name or an id of {longer:,} characters; at most {NAME} are allowed",
                    )
                values.check(action.arguments, f"actions[{index}].arguments")
            elif type(action) is FinalAnswer:
                if type(action.refused) is not str:
                    _check_texts(action, TEXTS[FinalAnswer], f"actions[{index}].")
                values.check(action.output, f"actions[{index}].output")
            elif type(action) not in ACTIONS:
                raise bad_plan(
                    f"actions[{index}] of the planner's answer is a {kind_of_value(action)} and no "
                    f"action; use one of {', '.join(each.__name__ for each in ACTIONS)}"
                )
            else:
                final = False
                _check_texts(action, TEXTS[type(action)], f"actions[{index}].")
        if plan.provider is not None:
            values.check(plan.provider, "provider")
        if plan.usage is not NOTHING_USED:
            check_usage(plan.usage, "engine/bad_plan")
        form = values.encode_checked(plan, "plan")
        if len(form) > (FINAL if final else KEPT):
            raise InvalidValue(
                "plan",
                f"is {len(form):,} bytes of JSON, over the limit of "
                f"{FINAL if final else KEPT:,} for one answer; give less at once, or a reference",
            )
        # The run goes on with a copy, which the planner cannot change, as a later entry reads it.
        return _read_back(form), msgspec.Raw(form)
    except (InvalidValue, TypeError, RecursionError, msgspec.MsgspecError) as error:
        raise bad_plan(f"the planner's answer cannot be stored: {text_of(error)}") from error


_PLAN_TEXTS: Final = (("text", False), ("reasoning", False), ("model", False))


def _check_texts(given: object, names: Sequence[tuple[str, bool]], path: str = "") -> None:
    """Refuse another value in a field for text.

    Args:
        names: The fields for text, each with True if it may be None.

    Raises:
        InvalidValue: One of the fields holds something else.
    """
    for name, optional in names:
        value = getattr(given, name)
        if not (isinstance(value, str) or (optional and value is None)):
            remedy = "give a string"
            if isinstance(value, datetime):
                remedy += " in ISO 8601 with an offset, as isoformat() of an aware datetime is"
            raise InvalidValue(path + name, f"is a {kind_of_value(value)}; {remedy}")


def _refused(plan: Plan, run: LoopRun) -> Plan:
    """An answer with too many actions without them: its text, its reasoning and its usage."""
    run.refused = (
        f"Your answer had {len(plan.actions):,} calls, and one answer may have "
        f"{run.limits.max_calls_per_answer:,}. Nothing of it was done. Give fewer at once: the "
        "most important ones first, the others in your next answers."
    )
    return Plan((), plan.text, plan.reasoning, plan.usage, model=plan.model)

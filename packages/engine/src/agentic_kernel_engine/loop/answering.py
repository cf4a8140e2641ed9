"""Answering: one call of the planner, reserved before it, and cut short by a pause.

A call that failed may have used up what was reserved for it, so that is spent: before the call is
made again, or another planner's in its place, it is reserved anew (R17).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any, Final, cast

import msgspec

from agentic_kernel import InvalidValue

from .. import edges, values
from .. import events as host
from ..errors import TaskFailed
from ..faults import is_a, report, text_of
from ..plans import vocabulary
from ..plans.action import ACTIONS, TEXTS, FinalAnswer, ToolCall
from ..plans.ending import End, PlannerError
from ..plans.limits import shortfall, unaffordable
from ..plans.plan import LARGEST, NOTHING_USED, Delta, Plan, Usage
from ..plans.reasons import StopReason
from ..seams.middleware import Hooks, Recovery, storable
from ..seams.planner import Context, Forecast, Planner
from .run import LoopRun

RETRIES: Final = 10
"""How often middleware may have one call repeated."""
LENGTH: Final = 4_000_000
"""How long the pieces of one answer may get, in bytes of JSON, before it is taken to be endless; a
piece without text counts as one."""
KEPT: Final = 4_500_000
"""How long a plan may be, in bytes of JSON: it is kept in the state until it is carried out."""
FINAL: Final = 8_000_000
"""The same for a plan that is nothing but the final answer."""
NAME: Final = 512
"""How long the name of a tool and the id of a call may be, in characters."""

Answer = tuple[Plan, msgspec.Raw]
"""A plan, and its JSON form as it is now: what it holds is handed to others."""

_CUT: Final = object()
_fitting = msgspec.json.Decoder(Plan).decode
_encode = msgspec.json.Encoder().encode
_WANTED: Final = (
    "it must give an action, several, a Plan, or a stream of pieces (Delta) that ends with one"
)


class Answering:
    """Asks a planner, with the middleware around it."""

    def __init__(self, planner: Planner, hooks: Hooks) -> None:
        self._planner = planner
        self._hooks = hooks
        self._forecast: Forecast | None = edges.optional(planner, "planner", Forecast)
        self.ask = self._hooked if hooks.before_model or hooks.after_model else self._answer
        """The planner's answer, or middleware's in its place; None if it was cut short.

        Where middleware ends the run because of an answer, the answer is counted first. Raises
        `PlannerError` if the provider failed and no middleware knew better, and `RunEnded` if a
        pause took effect in the middle.
        """

    def forecast(self, context: Context) -> Usage:
        """What the next call may use up at most, as far as its planner can tell.

        Raises:
            PlannerError: It says what cannot be.
        """
        forecast = self._forecast
        if context.planner is not None:
            forecast = edges.optional(context.planner, "planner", Forecast)
        if forecast is None:
            return NOTHING_USED
        worst = forecast.worst_case(context)
        _check_usage(worst, "engine/bad_forecast")
        return worst

    def next(self, run: LoopRun, context: Context) -> Usage | None:
        """What to reserve for the next call along with this step; None if it will not be made."""
        worst = self.forecast(context)
        if worst is NOTHING_USED or unaffordable(run.limits, run.state.spent, worst) is None:
            return worst
        return None

    async def reserve(self, run: LoopRun, context: Context) -> None:
        """Make sure that a commit carries what this call may use up (R17).

        Raises:
            End: It could pass a limit.
        """
        worst, reserved = self.forecast(context), run.state.reserved
        reason = unaffordable(run.limits, run.state.spent, worst)
        if reason is not None:
            raise End(reason, shortfall(run.limits, run.state.spent, worst))
        if reserved is not worst and (reserved is None or not _covers(reserved, worst)):
            run.state.reserved = worst
            await run.commit()

    async def _hooked(self, run: LoopRun, context: Context) -> Answer | None:
        """The answer, with what middleware does before it and after it."""
        for hook in self._hooks.before_model:
            await hook(context)
        if self._hooks.before_model and context.response is None:
            await self.reserve(run, context)  # What they added may use up more.
        preset = context.response
        answer = await self._answer(run, context) if preset is None else answer_of(preset, run)
        if answer is None:
            return None
        plan, _ = answer
        try:
            for hook in self._hooks.after_model:
                changed = await hook(context, plan)
                plan = plan if changed is None else answer_of(changed, run)[0]
        except End as end:
            run.ending = end
        except PlannerError as fault:
            run.ending = End(StopReason.ERROR, fault.message, code=fault.code)
        return plan, values.snapshot(plan)

    async def _answer(self, run: LoopRun, context: Context) -> Answer | None:
        """The answer of the planner whose turn it is; where all fail, the Loop's own failure."""
        own: Exception | None = None
        for _ in range(RETRIES):
            try:
                answer = (context.planner or self._planner).plan(context)
                if hasattr(answer, "__aiter__"):
                    answer = self._stream(run, cast("AsyncIterator[Any]", answer))
                    last = await answer
                    return None if last is _CUT else answer_of(last, run)
                if not hasattr(answer, "__await__"):
                    raise PlannerError(
                        "engine/bad_plan",
                        f"plan() of the planner gave a {kind_of_value(answer)}, which cannot be "
                        f"awaited; write 'async def plan', and {_WANTED}",
                    )
                return answer_of(await answer, run)
            except (End, asyncio.CancelledError):
                raise
            except Exception as error:
                own = error if context.planner is None else own
                recovery = await self._failed(run, context, error)
                if recovery is None or recovery.verb == "fail":
                    if own is None or own is error:
                        raise
                    raise own from error
                if recovery.verb == "skip":
                    return answer_of((), run)
                if recovery.plan is not None:
                    return answer_of(recovery.plan, run)
                context.planner = recovery.planner or context.planner
                await self._wait(run, recovery.delay)
                await self.reserve(run, context)
        raise PlannerError("engine/retries", f"the call was repeated {RETRIES} times in vain")

    async def _failed(self, run: LoopRun, context: Context, error: Exception) -> Recovery | None:
        """Put a failed call on record, with what middleware wants done about it.

        What was reserved for the call is spent; middleware is shown what is left then.
        """
        code, then, forfeited = getattr(error, "code", None), "fail", _forfeit(run)
        context.failures += 1
        context.remaining = run.remaining
        if not is_a(error, TaskFailed):
            report(error, run.task.id, run.state.step, "the planner")
        recovery: Recovery | None = None
        try:
            for hook in self._hooks.on_error:
                recovery = await hook(context, error)
                if recovery is not None:
                    then = recovery.verb
                    break
        finally:
            run.record(
                vocabulary.PLAN_FAILED, then=then, forfeited=forfeited, message=_message(error),
                code=storable(code) if isinstance(code, str) else type(error).__name__,
            )  # fmt: skip
        return recovery

    async def _wait(self, run: LoopRun, delay: float) -> None:
        """Wait before a call is made again; a pause that waits takes effect meanwhile.

        Raises:
            End: It would take longer than the run may.
            RunEnded: A pause took effect.
        """
        limit, now = run.limits.max_seconds, asyncio.get_running_loop().time
        left, due = delay, now() + delay
        await asyncio.sleep(0)
        while True:
            if run.job.stopping:
                await run.checkpoint()
            if limit is not None and run.seconds + max(left, 0) >= limit:
                raise End(StopReason.TIMEOUT, "a failed call is not made again")
            if left <= 0:
                return
            await asyncio.wait([run.job.news()], timeout=left)
            left = due - now()

    async def _stream(self, run: LoopRun, pieces: AsyncIterator[Any]) -> Any:
        """The last piece; the others are passed on as they come.

        A pause that waits ends the stream at its next piece: the text so far is kept, for a
        planner that can continue it. If the pause is withdrawn meanwhile, that is `_CUT`.
        """
        job, said = run.job, [run.state.said]
        length = len(_encode(run.state.said))
        try:
            async for piece in pieces:
                if not isinstance(piece, Delta):
                    return piece
                data = {"text": piece.text}
                if piece.channel:
                    data["channel"] = piece.channel
                try:
                    length += max(_length(piece), 1)
                    if length <= LENGTH:
                        job.emit({"type": host.RUN_DELTA, **data})
                except InvalidValue as error:
                    raise PlannerError(
                        "engine/bad_plan", f"the planner's stream gave a bad Delta: {error}"
                    ) from error
                if not piece.channel:
                    said.append(piece.text)
                if length > LENGTH:
                    raise PlannerError(
                        "engine/endless_answer",
                        f"no end after {LENGTH:,} bytes of JSON; lower the planner's limit of "
                        "output tokens",
                    )
                if run.out_of_time:
                    _cut(run, "".join(said))
                    raise End(StopReason.TIMEOUT, "the answer took longer than the run may")
                if job.stopping:
                    run.state.said = _cut(run, "".join(said))
                    await run.checkpoint()
                    return _CUT
        finally:
            close = getattr(pieces, "aclose", None)
            if close is not None:
                await close()
        raise PlannerError(
            "engine/bad_plan", f"the planner's stream ended without a plan; {_WANTED}"
        )


def _cut(run: LoopRun, text: str) -> str:
    """Put the text so far on record; what was reserved for the call is spent."""
    run.record(vocabulary.RUN_CUT, text=text, forfeited=_forfeit(run))
    return text


def _message(error: Exception) -> str:
    try:
        return storable(str(error.message) if is_a(error, TaskFailed) else text_of(error))
    except Exception:
        return "(its message cannot be read)"


def _forfeit(run: LoopRun) -> Any:
    """Count what was reserved for a call as spent; a reservation of nothing stays."""
    state = run.state
    forfeited = state.reserved or NOTHING_USED
    if forfeited != NOTHING_USED:
        state.spent.bank(forfeited)
        state.reserved = None
    return msgspec.to_builtins(forfeited)


def _covers(reserved: Usage, worst: Usage) -> bool:
    return (
        reserved.input_tokens >= worst.input_tokens
        and reserved.output_tokens >= worst.output_tokens
        and reserved.cost >= worst.cost
    )


def _length(piece: Delta) -> int:
    """How long a piece is, in bytes of JSON.

    Raises:
        InvalidValue: A part of it is no text, or none that can be stored.
    """
    for name in Delta.__struct_fields__:
        text = getattr(piece, name)
        if type(text) is not str:
            raise InvalidValue(f"Delta.{name}", f"is a {kind_of_value(text)}; give a string")
        values.check_text(text, f"Delta.{name}")
    return len(_encode(piece.text)) - 2


def kind_of_value(value: object) -> str:
    """What a value is, for people."""
    return "None" if value is None else type(value).__name__[:80]


def plan_of(answer: Any) -> Plan:
    """The plan of `answer_of`."""
    return answer_of(answer)[0]


def answer_of(answer: Any, run: LoopRun | None = None) -> Answer:
    """A plan from whatever a planner may return, fit to be stored, with its form in the store.

    Args:
        run: Whose limit on the actions of one answer holds. An answer with more of them is taken
            as one without any, and `LoopRun.refused` says why.

    Raises:
        PlannerError: It is nothing of the kind, or too long.
    """
    if isinstance(answer, Plan):
        plan = answer
        if not isinstance(plan.actions, (tuple, list)):
            raise PlannerError(
                "engine/bad_plan",
                f"actions of the planner's Plan is a {kind_of_value(plan.actions)}; give a tuple "
                "of actions",
            )
    elif isinstance(answer, ACTIONS):
        plan = Plan((answer,))
    elif isinstance(answer, (list, tuple)):
        plan = Plan(tuple(answer))
    else:
        raise PlannerError(
            "engine/bad_plan", f"the planner gave a {kind_of_value(answer)}; {_WANTED}"
        )
    if run is not None:
        run.refused = ""
        if len(plan.actions) > run.limits.max_calls_per_answer:
            plan = _refused(plan, run)
    final = bool(plan.actions)
    try:
        if not type(plan.text) is type(plan.reasoning) is type(plan.model) is str:
            _check_texts(plan, _PLAN_TEXTS)
        for index, action in enumerate(plan.actions):
            if type(action) is ToolCall:
                final = False
                if not type(action.tool) is type(action.id) is type(action.refused) is str:
                    _check_texts(action, TEXTS[ToolCall], f"actions[{index}].")
                if len(action.tool) > NAME or len(action.id) > NAME:
                    raise InvalidValue(
                        f"actions[{index}]", f"has a name or an id of over {NAME} characters"
                    )
                values.check(action.arguments, f"actions[{index}].arguments")
            elif type(action) is FinalAnswer:
                values.check(action.output, f"actions[{index}].output")
            elif type(action) not in ACTIONS:
                raise PlannerError(
                    "engine/bad_plan",
                    f"actions[{index}] of the planner's answer is a {kind_of_value(action)} and no "
                    f"action; there are {', '.join(each.__name__ for each in ACTIONS)}",
                )
            else:
                final = False
                _check_texts(action, TEXTS[type(action)], f"actions[{index}].")
        if plan.provider is not None:
            values.check(plan.provider, "provider")
        if plan.usage is not NOTHING_USED:
            _check_usage(plan.usage, "engine/bad_plan")
        form = values.encode_checked(plan, "plan")
        if len(form) > (FINAL if final else KEPT):
            raise InvalidValue(
                "plan",
                f"is {len(form):,} bytes of JSON, over the limit of "
                f"{FINAL if final else KEPT:,} for one answer; give less at once, or a reference",
            )
        _fitting(form)  # It is read back when the run goes on.
    except (InvalidValue, TypeError, RecursionError, msgspec.MsgspecError) as error:
        raise PlannerError(
            "engine/bad_plan", f"the planner's answer cannot be stored: {text_of(error)}"
        ) from error
    return plan, msgspec.Raw(form)


_PLAN_TEXTS: Final = (("text", False), ("reasoning", False), ("model", False))


def _check_texts(given: object, names: Sequence[tuple[str, bool]], path: str = "") -> None:
    """Refuse a value that stands in the place of a text.

    Args:
        names: The fields that hold text, and whether each may be None.

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
    """What is left of an answer with too many actions: what it said beside them, and its usage."""
    run.refused = (
        f"Your answer had {len(plan.actions):,} calls, and one answer may have "
        f"{run.limits.max_calls_per_answer:,}. Nothing of it was done. Give fewer at once: the "
        "most important ones first, the others in your next answers."
    )
    return Plan((), plan.text, plan.reasoning, plan.usage, model=plan.model)


def _check_usage(usage: Any, code: str) -> None:
    """Refuse what cannot have been used up: it would lift the limits, or could not be stored.

    Raises:
        PlannerError: It is no `Usage`, or a part of it is no number from 0 to `LARGEST`.
    """
    if not isinstance(usage, Usage):
        raise PlannerError(code, f"the usage is a {type(usage).__name__}; give a Usage")
    for name in Usage.__struct_fields__:
        used = getattr(usage, name)
        if type(used) not in ((int, float) if name == "cost" else (int,)) or not (
            0 <= used <= LARGEST
        ):
            raise PlannerError(code, f"usage.{name} is no number from 0 to {LARGEST:,}")

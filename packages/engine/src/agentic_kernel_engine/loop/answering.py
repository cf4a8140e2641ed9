"""Answering: one call of the planner, reserved before it, and cut short by a pause."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final, cast

import msgspec

from agentic_kernel import InvalidValue

from .. import events as host
from .. import values
from ..seams.middleware import Hooks, Recovery
from ..seams.planner import Planner
from . import vocabulary
from .action import ACTIONS, FinalAnswer, ToolCall
from .context import Context
from .ending import End, PlannerError
from .execution import Execution
from .limits import unaffordable
from .plan import NOTHING_USED, Delta, Plan, Usage
from .reasons import StopReason

RETRIES: Final = 10
"""How often middleware may have one call repeated."""
LENGTH: Final = 4_000_000
"""How long one answer may get, in characters, before it is taken to be endless."""

_CUT: Final = object()


class Answering:
    """Asks a planner, with the middleware around it."""

    def __init__(self, planner: Planner, hooks: Hooks) -> None:
        self._planner = planner
        self._hooks = hooks
        self._worst_case = getattr(planner, "worst_case", None)

    def forecast(self, context: Context) -> Usage:
        """What the next call may use up at most, as far as the planner can tell."""
        return NOTHING_USED if self._worst_case is None else self._worst_case(context)

    async def reserve(self, run: Execution, context: Context) -> None:
        """Make sure that a commit carries what this call may use up (R17).

        Raises:
            End: It could pass a limit.
        """
        worst, reserved = self.forecast(context), run.state.reserved
        reason = unaffordable(run.limits, run.state.spent, worst)
        if reason is not None:
            raise End(reason, f"the next call could use up {msgspec.to_builtins(worst)}")
        if reserved is not worst and (reserved is None or not _covers(reserved, worst)):
            run.state.reserved = worst
            await run.commit()

    async def ask(self, run: Execution, context: Context) -> Plan | None:
        """The planner's answer, or middleware's in its place; None if it was cut short.

        Where middleware ends the run because of an answer, the answer is counted first.

        Raises:
            PlannerError: The provider failed and no middleware knew better.
            RunEnded: A pause took effect in the middle.
        """
        for hook in self._hooks.before_model:
            await hook(context)
        preset = context.response
        plan = await self._answer(run, context) if preset is None else plan_of(preset)
        if plan is None:
            return None
        try:
            for hook in self._hooks.after_model:
                changed = await hook(context, plan)
                plan = plan if changed is None else plan_of(changed)
        except End as end:
            run.ending = end
        except PlannerError as fault:
            run.ending = End(StopReason.ERROR, fault.message, code=fault.code)
        return plan

    async def _answer(self, run: Execution, context: Context) -> Plan | None:
        for _ in range(RETRIES):
            try:
                answer = self._planner.plan(context)
                if hasattr(answer, "__aiter__"):
                    answer = self._stream(run, cast("AsyncIterator[Any]", answer))
                    last = await answer
                    return None if last is _CUT else plan_of(last)
                return plan_of(await answer)
            except (End, asyncio.CancelledError):
                raise
            except Exception as error:
                context.failures += 1
                recovery = await self._recovery(context, error)
                if recovery is None or recovery.verb == "fail":
                    raise
                run.record(
                    vocabulary.PLAN_FAILED, code=getattr(error, "code", type(error).__name__),
                    message=str(error)[:500], then=recovery.verb,
                )  # fmt: skip
                if recovery.verb == "skip":
                    return Plan(())
                if recovery.plan is not None:
                    return plan_of(recovery.plan)
                await asyncio.sleep(recovery.delay)
                if run.out_of_time:
                    raise End(StopReason.TIMEOUT, "a failed call is not made again") from error
        raise PlannerError("engine/retries", f"the call was repeated {RETRIES} times in vain")

    async def _cut(self, run: Execution, text: str) -> None:
        """Keep the text so far at a safe point; what was reserved for the call is spent."""
        state = run.state
        forfeited, state.reserved, state.said = state.reserved or NOTHING_USED, None, text
        state.spent.bank(forfeited)
        run.record(vocabulary.RUN_CUT, text=text, forfeited=msgspec.to_builtins(forfeited))
        await run.checkpoint()

    async def _recovery(self, context: Context, error: Exception) -> Recovery | None:
        for hook in self._hooks.on_error:
            recovery: Recovery | None = await hook(context, error)
            if recovery is not None:
                return recovery
        return None

    async def _stream(self, run: Execution, pieces: AsyncIterator[Any]) -> Any:
        """The last piece; the others are passed on as they come.

        A pause that waits ends the stream at its next piece: the text so far is kept, for a
        planner that can continue it. If the pause is withdrawn meanwhile, that is `_CUT`.
        """
        job, said, length = run.job, [run.state.said], 0
        try:
            async for piece in pieces:
                if not isinstance(piece, Delta):
                    return piece
                data = {"text": piece.text}
                if piece.channel:
                    data["channel"] = piece.channel
                else:
                    said.append(piece.text)
                job.emit({"type": host.RUN_DELTA, **data})
                length += len(piece.text)
                if length > LENGTH:
                    raise PlannerError(
                        "engine/endless_answer", f"no end after {LENGTH:,} characters"
                    )
                if run.out_of_time:
                    raise End(StopReason.TIMEOUT, "the answer took longer than the run may")
                if job.stopping:
                    await self._cut(run, "".join(said))
                    return _CUT
        finally:
            close = getattr(pieces, "aclose", None)
            if close is not None:
                await close()
        raise PlannerError("engine/bad_plan", "the stream ended without a plan")


def _covers(reserved: Usage, worst: Usage) -> bool:
    return (
        reserved.input_tokens >= worst.input_tokens
        and reserved.output_tokens >= worst.output_tokens
        and reserved.cost >= worst.cost
    )


def plan_of(answer: Any) -> Plan:
    """A plan from whatever a planner may return, fit to be stored.

    Raises:
        PlannerError: It is nothing of the kind.
    """
    if isinstance(answer, Plan):
        plan = answer
    elif isinstance(answer, ACTIONS):
        plan = Plan((answer,))
    elif isinstance(answer, (list, tuple)):
        plan = Plan(tuple(answer))
    else:
        raise PlannerError(
            "engine/bad_plan",
            f"the planner gave a {type(answer).__name__}; it must give an action, several, a Plan, "
            "or a stream that ends with one",
        )
    try:
        for index, action in enumerate(plan.actions):
            if type(action) is ToolCall:
                values.check(action.arguments, f"actions[{index}].arguments")
            elif type(action) is FinalAnswer:
                values.check(action.output, f"actions[{index}].output")
            elif type(action) not in ACTIONS:
                raise PlannerError(
                    "engine/bad_plan",
                    f"actions[{index}] is a {type(action).__name__} and no action",
                )
        if plan.provider is not None:
            values.check(plan.provider, "provider")
        values.encode_checked(plan, "plan")
    except (InvalidValue, TypeError, RecursionError) as error:
        raise PlannerError("engine/bad_plan", f"the answer cannot be stored: {error}") from error
    return plan

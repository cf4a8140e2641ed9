"""SessionRun: one stretch of running, as it is between two commits."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from agentic_kernel import InvalidValue, Task
from agentic_kernel_engine import Job, TaskFailed, values
from agentic_kernel_engine.events import Checked
from agentic_kernel_engine.host import inbox
from agentic_kernel_engine.loop import (
    Context,
    End,
    Limits,
    Observation,
    Plan,
    Principal,
    Remaining,
    StopReason,
)
from agentic_kernel_engine.plans import vocabulary
from agentic_kernel_engine.plans.decision import ALLOW
from agentic_kernel_engine.plans.limits import exceeded, failed_too_often, remaining, unaffordable
from agentic_kernel_engine.plans.observation import INDETERMINATE, SKIPPED
from agentic_kernel_engine.plans.plan import NOTHING_USED
from agentic_kernel_engine.plans.reasons import STOP_REASON, WAITING_FOR
from agentic_kernel_engine.seams import Tool

from .state import Call, State, dump

_IF_PAUSED: Final = {STOP_REASON: StopReason.INTERRUPT.value}


class SessionRun:
    """A job, its state, and what the next commit will say.

    That is first of all that the Task no longer waits for anything: who dies behind a decision
    leaves none that asks for it again.

    Args:
        job: What the Host gave.
        state: What the last commit left, or a new one.
        limits: As configured; those that were changed on the running Task are applied on top.
        principal: On whose behalf the Task runs.
    """

    def __init__(self, job: Job, state: State, limits: Limits, principal: Principal) -> None:
        self.job = job
        self.task: Task = job.task
        self.state = state
        self.principal = principal
        self._base = limits
        self.limits = limits.changed(state.limits) if state.limits else limits
        self._events: list[Checked] = []
        self._consumed: list[int] = []
        self._heeded: set[int] = set()
        """Decisions that were acted on; the inbox shows them until the commit has landed."""
        self._began = time.monotonic()
        if self.task.metadata.get(WAITING_FOR) is not None:
            # What it still waits for it asks for again.
            job.note(WAITING_FOR, None)

    def record(self, type: str, **data: Any) -> None:
        """Say something with the next commit."""
        self._events.append(Checked(type, data))

    def made(self, plan: Plan) -> None:
        """Say what a turn asks for, and count what it used up."""
        spent = self.state.spent
        spent.iterations += 1
        spent.bank(plan.usage)
        self._events.append(Checked(vocabulary.PLAN_MADE, values.snapshot(plan)))

    @property
    def seconds(self) -> float:
        """How long the Task has worked, pauses not counted."""
        return self.state.spent.seconds + time.monotonic() - self._began

    @property
    def seconds_left(self) -> float | None:
        """How long it may work on; None for as long as it likes."""
        limit = self.limits.max_seconds
        return None if limit is None else limit - self.seconds

    def check_time(self) -> None:
        """Make sure that the Task may work on.

        Raises:
            End: It has worked for as long as it may.
        """
        left = self.seconds_left
        if left is not None and left <= 0:
            raise End(StopReason.TIMEOUT, f"the run worked for {self.limits.max_seconds:g} seconds")

    def reached(self) -> End | None:
        """The end of a run that may not have a further turn; None if it may."""
        limits, spent = self.limits, self.state.spent
        if failed_too_often(limits, spent):
            return End(StopReason.MAX_FAILURES, f"{spent.failures} observations went wrong")
        reason = exceeded(limits, spent) or unaffordable(limits, spent, NOTHING_USED)
        if reason is None:
            return None
        return End(reason, f"the limit is reached after {self.state.step} steps")

    def check_spent(self) -> None:
        """Make sure that a further turn may begin.

        Raises:
            End: A limit is reached.
        """
        end = self.reached()
        if end is not None:
            raise end

    def check_calls(self) -> None:
        """Make sure that a further call may begin.

        Raises:
            End: As many were made as may be, or went wrong.
        """
        limits, spent = self.limits, self.state.spent
        if limits.max_tool_calls is not None and spent.tool_calls >= limits.max_tool_calls:
            raise End(StopReason.MAX_TOOL_CALLS, f"{spent.tool_calls} calls were made")
        if failed_too_often(limits, spent):
            raise End(StopReason.MAX_FAILURES, f"{spent.failures} observations went wrong")
        self.check_time()

    def context(self, tools: list[Tool]) -> Context:
        """What a policy is shown; the conversation itself is the CLI's and is not in it."""
        limits, spent = self.limits, self.state.spent
        left: Remaining = remaining(limits, spent, self.seconds)
        return Context(
            self.task, self.state.step, (), tools, (), left, self.principal, {}, (), (), None, ""
        )

    def came_to(self, call: Call, observation: Observation) -> None:
        """Note what came of a call, and count it where it was begun and went wrong."""
        call.observation = observation
        if observation.error and observation.done:
            self.state.spent.failures += 1

    def settle_turn(self) -> None:
        """Put on record what came of the turn at hand, once all of its calls are over."""
        state = self.state
        if state.plan is None:
            return
        calls = state.calls[: len(state.plan.actions)]
        if calls:
            self.record(
                vocabulary.PLAN_DECIDED, decisions=[call.decision or ALLOW for call in calls]
            )
        observed = [_observed(call) for call in calls] or [Observation()]
        self.record(vocabulary.STEP_OBSERVED, observations=observed)
        state.step += 1
        state.plan = None
        state.calls = []

    def apply_decisions(self) -> None:
        """Act on the decisions in the inbox; the next commit consumes them."""
        for said in self.job.inbox:
            if said["id"] in self._heeded:
                continue
            self._heeded.add(said["id"])
            self._consumed.append(said["id"])
            if said["type"] == vocabulary.RETUNE:
                self._retune(said)
            elif (wrong := inbox.fault(said)) is not None:
                # An earlier version of the engine let it in.
                self.record(
                    vocabulary.APPROVAL_IGNORED, digest=inbox.said(said, "digest"),
                    by=inbox.said(said, "by"), why=wrong,
                )  # fmt: skip
            elif said["type"] == vocabulary.APPROVAL:
                self._decided(said)

    async def commit(self, *, progress: bool = True) -> None:
        """Make what was said durable, and go on."""
        events, consumed = self._settle()
        await self.job.commit(dump(self.state), events, consumed=consumed, progress=progress)

    async def checkpoint(self, *, progress: bool = True) -> None:
        """The same at a safe point; a pause that takes effect there leaves its reason."""
        events, consumed = self._settle()
        await self.job.checkpoint(
            dump(self.state), events, consumed=consumed, if_paused=_IF_PAUSED, progress=progress
        )

    async def pause(self, reason: str) -> None:
        """The same, and pause.

        Raises:
            RunEnded: Always.
        """
        self.job.note(STOP_REASON, StopReason.INTERRUPT.value)
        events, consumed = self._settle()
        await self.job.pause(dump(self.state), events, reason, consumed=consumed)

    async def wait_for_people(self) -> None:
        """Pause until somebody has decided about every call that needs it.

        Raises:
            RunEnded: Always.
        """
        requests = [
            {
                "digest": call.digest,
                "type": "tool_call",
                "action": msgspec.to_builtins(call.action),
                "reason": call.decision.reason if call.decision else "",
            }
            for call in self.state.calls
            if call.waits
        ]
        waiting = {"kind": "approval", "requests": requests}
        self.record(vocabulary.RUN_WAITS, **waiting)
        self.job.note(WAITING_FOR, waiting)
        await self.pause(StopReason.INTERRUPT.value)

    def end(self, end: End) -> Any:
        """The one exit: what is left to say, and what the Task becomes.

        Raises:
            TaskFailed: The end is no answer.
        """
        self.record(
            vocabulary.RUN_STOPPED, reason=end.reason.value, message=end.message,
            steps=self.state.step, usage=msgspec.to_builtins(self.state.spent.usage),
        )  # fmt: skip
        self.job.report(self._events)
        self.job.note(STOP_REASON, end.reason.value)
        if end.reason is StopReason.FINAL:
            return end.output
        raise TaskFailed(end.code, end.message or end.reason.value, end.metadata)

    def _decided(self, said: Mapping[str, Any]) -> None:
        """One person's decision about one call: the first one about this digest counts, once."""
        about = {
            "digest": said["digest"],
            "by": inbox.said(said, "by"),
            "why": inbox.said(said, "why"),
        }
        for call in self.state.calls:
            if call.waits and call.digest == about["digest"]:
                call.granted = said["granted"]
                call.by, call.why = about["by"], about["why"]
                given = vocabulary.APPROVAL_GIVEN if call.granted else vocabulary.APPROVAL_REFUSED
                self.record(given, **about)
                return
        self.record(vocabulary.APPROVAL_IGNORED, **about)

    def _retune(self, said: Mapping[str, Any]) -> None:
        changes, by = said.get("limits"), inbox.said(said, "by")
        try:
            if not isinstance(changes, Mapping):
                raise InvalidValue("limits", "must be a mapping of limits by name")
            wanted = {**self.state.limits, **changes}
            self.limits = self._base.changed(wanted)
        except InvalidValue as error:
            self.record(vocabulary.RUN_RETUNED, refused=str(error), by=by)
        else:
            self.state.limits = wanted
            self.record(vocabulary.RUN_RETUNED, limits=dict(changes), by=by)

    def _settle(self) -> tuple[list[Checked], list[int]]:
        events, self._events = self._events, []
        consumed, self._consumed = self._consumed, []
        now = time.monotonic()
        self.state.spent.seconds += now - self._began
        self._began = now
        return events, consumed


def ended(fault: TaskFailed) -> End:
    """A failure as the end of a run."""
    return End(StopReason.ERROR, fault.message, code=fault.code, metadata=fault.metadata)


def _observed(call: Call) -> Observation:
    if call.observation is not None:
        return call.observation
    code, message = SKIPPED, "the turn ended before it was begun"
    if call.key:
        code, message = INDETERMINATE, "it was cut short; whether it took effect is not known"
    return Observation(error=code, message=message, call=call.action.id, tool=call.action.tool)

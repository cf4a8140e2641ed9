"""SessionRun: the ledger of one run of a Task whose conversation a CLI session keeps."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from agentic_kernel import InvalidValue
from agentic_kernel_engine import Event, Job, values
from agentic_kernel_engine.events import Checked
from agentic_kernel_engine.loop import (
    ALLOW,
    INDETERMINATE,
    NOTHING_USED,
    SKIPPED,
    Context,
    End,
    Ledger,
    Limits,
    Observation,
    Plan,
    StopReason,
    TurnText,
    failed_too_often,
)
from agentic_kernel_engine.plans import vocabulary
from agentic_kernel_engine.providers import Price
from agentic_kernel_engine.seams import Tool
from agentic_kernel_engine.texts import Texts
from agentic_kernel_engine.waiting import WAITING_FOR

from .answering import FinalForm
from .state import Call, State


class SessionRun(Ledger[State]):
    """The job of one run, its state, and the content of the next commit.

    The next commit says first that the Task no longer waits for anything, so that a crash after
    the decision does not make the Task ask again.

    Args:
        job: The Host's handle on the Task.
        state: The state of the last commit, or a new one.
        limits: The configured limits; limits that were changed on the running Task replace them.
        clock: Returns seconds, never running backwards, for ``max_seconds``.
        known: Names of the limits that a session keeps.
        price: The price of the model; None if it is not known.
        form: The form of the final answer; by default any answer fits.
    """

    __slots__ = ("_first", "_history", "_known", "form", "price", "text")

    def __init__(
        self,
        job: Job,
        state: State,
        limits: Limits,
        clock: Callable[[], float] = time.monotonic,
        known: Collection[str] = Limits.__struct_fields__,
        *,
        price: Price | None = None,
        form: FinalForm | None = None,
    ) -> None:
        super().__init__(job, state, limits, clock)
        self._known = known
        self.price = price
        if self.granted is not None:
            self.shares().blind = True  # The CLI makes its calls without a reservation.
        self.form = form or FinalForm()
        self._first = state.step
        self._history: list[Event] | None = None
        self.text = TurnText(job)
        """The text of the message on its way."""
        if self.task.metadata.get(WAITING_FOR) is not None:
            job.note(WAITING_FOR, None)  # The run asks again for what it still waits for.

    def retune(self, changes: Mapping[str, Any]) -> None:
        """As for `Ledger`; a limit that a session does not keep is refused.

        Raises:
            InvalidValue: There is no such limit, or the value is not valid for it.
        """
        refuse_limits(changes, self._known)
        super().retune(changes)

    async def read_text(self) -> None:
        """Read which text an earlier entry has begun; call it at each entry but the first."""
        self._history = await self.job.history()
        self.text = TurnText(self.job, Texts(self._history).open())

    async def history(self) -> list[Event]:
        """The Task's durable events; they are read once for each life of the CLI."""
        found, self._history = self._history, None
        return await self.job.history() if found is None else found

    def made(self, plan: Plan) -> None:
        """Record the plan of a turn; its usage was counted when the CLI told it."""
        self.state.spent.iterations += 1
        self.events = [*self.events, Checked(vocabulary.PLAN_MADE, values.snapshot(plan))]

    def reached(self) -> End | None:
        """The end of a run that may not have a further turn; None if it may."""
        if failed_too_often(self.limits, self.state.spent):
            return self.end_at(StopReason.MAX_FAILURES)
        reason = self.exceeded()
        return self.unaffordable(NOTHING_USED) if reason is None else self.end_at(reason)

    @property
    def stopping(self) -> bool:
        """True if the session is to stop at its next safe point."""
        return self.job.stopping or self.stepped

    @property
    def stepped(self) -> bool:
        """True if the Task was to do one step, and this run has done one."""
        return self.one_step and self.state.step > self._first

    def check_spent(self) -> None:
        """Raise if no further turn may begin.

        Raises:
            End: A limit is reached.
        """
        end = self.reached()
        if end is not None:
            raise end

    def context(self, tools: list[Tool]) -> Context:
        """The context for a policy; it lacks the conversation, because the CLI keeps that."""
        return Context(
            self.task, self.state.step, (), tools, (), self.remaining, self.job.principal, {}, (),
            (), None, "",
        )  # fmt: skip

    def came_to(self, call: Call, observation: Observation) -> None:
        """Keep the observation of a call; count a failure if the call began and failed."""
        call.observation = observation
        if observation.error and observation.done:
            self.state.spent.failures += 1

    def settle_turn(self) -> None:
        """Record the decisions and observations of the turn at hand, once its calls are over."""
        state = self.state
        if state.plan is None:
            return
        calls = state.calls[: len(state.plan.actions)]
        if calls:
            self.record(
                vocabulary.PLAN_DECIDED, decisions=[call.decision or ALLOW for call in calls]
            )
        observed = [_observed(call) for call in calls] or [self.form.observed(state.plan)]
        self.record(vocabulary.STEP_OBSERVED, observations=observed)
        state.step += 1
        state.plan = None
        state.calls = []

    def act_on_decisions(self) -> None:
        """Act on the decisions in the inbox; the next commit consumes them.

        A session asks no question, so an answer is recorded as ignored.
        """
        self.apply_decisions(self._decide)

    async def wait_for_people(self) -> None:
        """Pause until a person has decided about every call that needs it.

        Raises:
            RunEnded: Always.
        """
        requests = [
            call.request(call.action, call.decision.reason if call.decision else "")
            for call in self.state.calls
            if call.waits
        ]
        await self.wait_for({"kind": "approval", "requests": requests})

    def _decide(self, entry: Mapping[str, Any]) -> bool:
        return entry["type"] == vocabulary.APPROVAL and self.judge(self.state.calls, entry)


def refuse_limits(limits: Collection[str], known: Collection[str]) -> None:
    """Refuse limits that a session does not keep.

    Raises:
        InvalidValue: One of the limits is not known; it is named.
    """
    for name in limits:
        if name not in known:
            raise InvalidValue(
                f"limits.{name}",
                f"is not kept by a session of the Copilot CLI; use {', '.join(known)}, or run the "
                "Task on a Loop",
            )


def _observed(call: Call) -> Observation:
    if call.observation is not None:
        return call.observation
    code, message = SKIPPED, "the turn ended before it was begun"
    if call.key:
        code, message = INDETERMINATE, "it was cut short; whether it took effect is not known"
    return Observation(error=code, message=message, call=call.action.id, tool=call.action.tool)

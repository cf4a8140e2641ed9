"""Ledger: the events, the spending and the decisions of one run between two commits.

The Loop has one for each run, and so has a substrate whose agent brings a loop of its own. So
limits, decisions of people and events work in the same way for both.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from agentic_kernel import InvalidValue, Task

from .. import values
from ..cursor import Cursor
from ..errors import TaskFailed
from ..events import Checked
from ..faults import is_unwinding, report
from ..host import inbox
from ..host.job import Job
from ..plans import vocabulary
from ..plans.accounts import USED, Shares, note_of, regrant
from ..plans.budget import (
    NONE_USED,
    SECONDS,
    UNLIMITED,
    Amounts,
    granted_to,
    plus,
    shared,
    used_by,
    within,
    without,
    worst_case,
)
from ..plans.decision import Approvable
from ..plans.ending import End, unhandled
from ..plans.limits import (
    Limits,
    Remaining,
    Spent,
    failed_too_often,
    reached,
    remaining,
    shortfall,
    unaffordable,
)
from ..plans.plan import NOTHING_USED, Usage
from ..plans.reasons import STOP_REASON, WAITING_FOR, StopReason
from ..waiting import field_text
from . import tool_progress

Clock = Callable[[], float]
"""A function that returns seconds and never runs backwards."""
IF_PAUSED: Final = {STOP_REASON: StopReason.INTERRUPT.value}
"""The notes that a pause at a safe point leaves."""
_SHARED: Final[Mapping[StopReason, tuple[str, ...]]] = {
    StopReason.MAX_ITERATIONS: ("max_iterations",),
    StopReason.MAX_TOOL_CALLS: ("max_tool_calls",),
    StopReason.MAX_TOKENS: ("max_input_tokens", "max_output_tokens", "max_total_tokens"),
    StopReason.MAX_COST: ("max_cost",),
}
"""The limits that a family shares, by the stop reason."""
_BUDGET: Final = (vocabulary.RETUNE, vocabulary.GRANT)


class Durable(Protocol):
    """The part of a run's durable state that its ledger keeps."""

    step: int
    """Steps that are committed."""
    spent: Spent
    limits: dict[str, Any] | None
    """Limits that were changed while the Task ran."""
    shares: Shares | None
    """The part of the state about the budget of the Task's family."""

    @property
    def reserved(self) -> Usage | None:
        """The reservation for the call after this commit; None if no call is reserved (R17)."""
        ...

    @property
    def variables(self) -> Mapping[str, Any]:
        """The host's own data."""
        ...


S = TypeVar("S", bound=Durable)


class Ledger(Generic[S]):
    """The job of one run, its durable state, and the content of the next commit.

    Args:
        job: The Host's handle on the Task.
        state: The state of the last commit, or a new one.
        limits: The configured limits. The Task's own limits replace them, and limits that were
            changed on the running Task replace both.
        clock: Measures how long the run works.
    """

    __slots__ = (
        "_base", "_began", "_clock", "_handed", "_kept", "_seconds", "_shared", "acted_on", "caps",
        "consumed", "events", "granted", "job", "landed", "limits", "one_step", "outcome_unknown",
        "progress_room", "state", "task", "untold", "worst",
    )  # fmt: skip

    def __init__(self, job: Job, state: S, limits: Limits, clock: Clock) -> None:
        self.job = job
        self.task: Task = job.task
        self.state = state
        self.events: list[Checked] | tuple[()] = ()
        """The events of the step so far, in order; no list while there is none, because a waiting
        run keeps it (memory in benchmarks/loop.py)."""
        self.consumed: tuple[int, ...] = ()
        """Ids of the decisions that the next commit consumes."""
        self.acted_on: tuple[int, ...] = ()
        """Ids of all decisions acted on; the inbox shows a decision until its commit has landed."""
        self.one_step = False
        """True if the Task pauses after this step."""
        self.outcome_unknown = False
        """True if a crash hides what the calls of this step did: the step is then no progress."""
        self.progress_room = tool_progress.PROGRESS
        """The bytes of JSON that tools may still report until the next commit."""
        self.landed: Callable[[Cursor], None] | None = None
        """Called after each commit, with a cursor after its last event."""
        terms = job.terms
        self._base = limits = limits.changed(terms.limits) if terms.limits else limits
        self.caps = limits
        """The limits of the Task: those configured, as changed, within the Task's grant."""
        self.limits = limits
        """The same without what the children hold and used."""
        self.granted: Amounts | None = None
        """The Task's own grant; None if it has no part in the budget of a parent."""
        self._shared: Amounts | None = None
        """`shared`, once it was asked for."""
        self._seconds: float | None = None
        self.worst = NOTHING_USED
        """The worst case of the last call of a model, which is kept back for the next one."""
        self._kept: tuple[Amounts, dict[str, tuple[Amounts, Amounts | None]]] | None = None
        """The shared limits and the grants as of the last commit, if they have changed since."""
        self._handed: dict[str, Mapping[str, Any]] | None = None
        """`Job.grants`, once a child has one."""
        self.untold = False
        """True if children may not have heard of a change of their grants."""
        self._clock = clock
        self._began = clock()
        if terms.grant is not None or state.shares is not None or state.limits:
            self._take_up(terms.grant, state.shares)

    def record(self, type: str, **data: Any) -> None:
        """Add an event to the next commit."""
        if self.events:
            self.events.append(Checked(type, data))
        else:
            self.events = [Checked(type, data)]

    def spend(self, usage: Usage) -> None:
        """Count one call of a model."""
        spent = self.state.spent
        spent.iterations += 1
        spent.bank(usage)

    @property
    def seconds(self) -> float:
        """Seconds that the run has worked; pauses do not count."""
        return self.state.spent.seconds + self._clock() - self._began

    @property
    def seconds_left(self) -> float | None:
        """Seconds that the run may go on working; None for no limit."""
        limit = self.limits.max_seconds
        return None if limit is None else limit - self.seconds

    @property
    def out_of_time(self) -> bool:
        """True if the run has worked for ``max_seconds``."""
        limit = self.limits.max_seconds
        return limit is not None and self.seconds >= limit

    @property
    def remaining(self) -> Remaining:
        """The rest of each limit."""
        limits = self.limits
        seconds = 0.0 if limits.max_seconds is None else self.seconds
        return remaining(limits, self.state.spent, seconds)

    def check_time(self) -> None:
        """Raise if the run may not go on working.

        Raises:
            End: The run has worked for ``max_seconds``.
        """
        if self.out_of_time:
            raise self.end_at(StopReason.TIMEOUT)

    def check_calls(self) -> None:
        """Raise if no further tool call may begin.

        Raises:
            End: ``max_tool_calls``, ``max_failures`` or ``max_seconds`` is reached.
        """
        limits, spent = self.limits, self.state.spent
        if limits.max_tool_calls is not None and spent.tool_calls >= limits.max_tool_calls:
            raise self.end_at(StopReason.MAX_TOOL_CALLS)
        if failed_too_often(limits, spent):
            raise self.end_at(StopReason.MAX_FAILURES)
        self.check_time()

    def end_at(self, reason: StopReason) -> End:
        """The end of a run that has reached the limit with this stop reason."""
        message = reached(reason, self.limits, self.state.spent, self.seconds)
        return End(reason, message + self._family(reason))

    def unaffordable(self, worst: Usage) -> End | None:
        """The end of a run whose next call could pass a limit; None if the call may be made."""
        reason = unaffordable(self.limits, self.state.spent, worst)
        if reason is None:
            return None
        return End(reason, shortfall(self.limits, self.state.spent, worst) + self._family(reason))

    def _family(self, reason: StopReason) -> str:
        """The part of a limit's message that says why the limit is lower than it was set."""
        said = ""
        for name in _SHARED.get(reason, ()):
            cap, left = getattr(self.caps, name), getattr(self.limits, name)
            if cap != left:
                said += f"; children hold or used {cap - left:,.6g} of {name} {cap:,.6g}"
            if self.granted is not None and cap == getattr(self.granted, name[4:]) is not None:
                said += f"; the parent granted {name} {cap:,.6g}, so raise it there"
        return said

    def exceeded(self, limits: Limits | None = None) -> StopReason | None:
        """The stop reason of a limit that forbids a further step; None if none is reached.

        Args:
            limits: Limits to try in place of the run's own.
        """
        limits, spent = limits or self.limits, self.state.spent
        if limits.max_seconds is not None and self.out_of_time:
            return StopReason.TIMEOUT
        if spent.iterations >= limits.max_iterations:
            return StopReason.MAX_ITERATIONS
        if limits.max_failures is not None and failed_too_often(limits, spent):
            return StopReason.MAX_FAILURES
        return None

    def apply_decisions(
        self,
        act: Callable[[Mapping[str, Any]], bool],
        may_fit_later: Callable[[], bool] = lambda: False,
    ) -> None:
        """Act on the decisions in the inbox; the next commit consumes them (R12).

        A decision that fits nothing is recorded as ignored. So is a decision of an unknown type, or
        with a field of a wrong type, which an earlier version accepted.

        Args:
            act: Acts on an approval or an answer; returns False if the run does not wait for it.
            may_fit_later: Returns True if a decision that fits nothing stays in the inbox for now.
        """
        for entry in self.job.inbox:
            if entry["id"] in self.acted_on:
                continue
            fits, wrong = True, None
            match entry["type"]:
                case vocabulary.RETUNE:
                    self._retune(entry)
                case vocabulary.GRANT:
                    self._regrant(entry)
                case _ if (wrong := inbox.fault(entry)) is not None:
                    fits = False
                case vocabulary.APPROVAL | vocabulary.ANSWER:
                    fits = act(entry)
                case vocabulary.STEP:
                    self.one_step = True
                case unknown:
                    fits, wrong = False, f"a run does not act on a decision of type {unknown!r}"
            if not fits:
                if wrong is None and may_fit_later():
                    continue
                why = wrong or field_text(entry, "text") or field_text(entry, "why")
                digest, by = field_text(entry, "digest"), field_text(entry, "by")
                self.record(vocabulary.APPROVAL_IGNORED, digest=digest, by=by, why=why)
            self.acted_on = (*self.acted_on, entry["id"])
            self.consumed = (*self.consumed, entry["id"])

    def judge(self, actions: Iterable[Approvable], entry: Mapping[str, Any]) -> bool:
        """Apply a person's decision about one action: the first one about a digest counts, once.

        Returns:
            True if one of the actions waits for it.
        """
        for each in actions:
            if each.waits and each.digest == entry["digest"]:
                each.granted = entry["granted"]
                each.by, each.why = field_text(entry, "by"), field_text(entry, "why")
                event = vocabulary.APPROVAL_GIVEN if each.granted else vocabulary.APPROVAL_REFUSED
                self.record(event, digest=each.digest, by=each.by, why=each.why)
                return True
        return False

    def _retune(self, entry: Mapping[str, Any]) -> None:
        """Change limits; record a change that is not valid as refused."""
        changes, by = entry.get("limits"), field_text(entry, "by")
        try:
            if not isinstance(changes, Mapping):
                raise InvalidValue("limits", "must be a mapping of limits by name")
            self.retune(changes)
        except InvalidValue as error:
            self.record(vocabulary.RUN_RETUNED, refused=str(error), by=by)
        else:
            self.record(vocabulary.RUN_RETUNED, limits=changes, by=by)

    def retune(self, changes: Mapping[str, Any]) -> None:
        """Change limits from now on, across pauses and crashes.

        Raises:
            InvalidValue: There is no such limit, or the value is not valid for it.
        """
        wanted = {**(self.state.limits or {}), **changes}
        self._base.changed(wanted)
        self._keep()
        self.state.limits = wanted
        self._changed()

    @property
    def shared(self) -> Amounts:
        """The limits of the Task that its children share."""
        if self._shared is None:
            self._shared = shared(self.caps, self.granted)
        return self._shared

    @property
    def own(self) -> Amounts:
        """The spending and the reservation of the Task itself; its children are not counted."""
        return self._with_begun(used_by(self.state.spent, self.state.reserved))

    @property
    def begun(self) -> int:
        """Tool calls that may have been made and are not counted as spent."""
        return 0

    def _with_begun(self, used: Amounts) -> Amounts:
        begun = self.begun
        return plus(used, Amounts(tool_calls=begun)) if begun else used

    @property
    def reallotted(self) -> bool:
        """True if a decision waits that changes limits, and children have to hear of that."""
        if self.state.shares is None or not self.state.shares.grants:
            return False
        changes = [entry for entry in self.job.inbox if entry["type"] in _BUDGET]
        return any(entry["id"] not in self.acted_on for entry in changes)

    def shares(self) -> Shares:
        """The part of the state about the family's budget; made at the first use."""
        if self.state.shares is None:
            self.state.shares = Shares()
        return self.state.shares

    def refit(self) -> None:
        """Compute the limits again after a grant was opened, changed or closed."""
        shares = self.state.shares
        taken = NONE_USED if shares is None else shares.taken
        self.limits = self.caps if taken == NONE_USED else without(self.caps, self.shared, taken)

    def _take_up(self, grant: Mapping[str, Any] | None, shares: Shares | None) -> None:
        """Compute the limits at the entry of a run."""
        self.granted, self._seconds = granted_to(grant)
        if shares is not None:
            if shares.granted is not None:
                self.granted = None if shares.granted == UNLIMITED else shares.granted
            self.untold = any(each.seq for each in shares.grants.values())
            for child, each in shares.grants.items():
                self.hand(child, each.cap)
        self._cap()

    def _cap(self) -> None:
        changes = self.state.limits
        caps = self._base.changed(changes) if changes else self._base
        if self.granted is not None or self._seconds is not None:
            caps = within(caps, self.granted, self._seconds)
        self.caps = caps
        self._shared = None
        self.refit()

    def _keep(self) -> None:
        """Keep the limits and the grants as of the last commit, before they change."""
        if self._kept is None:
            shares = self.state.shares
            grants = {} if shares is None else shares.grants
            self._kept = self.shared, {id: (each.amounts, each.told) for id, each in grants.items()}

    def _changed(self) -> None:
        """Compute the limits after a change, and carry the change on to the children's grants.

        Several changes before one commit count as one: no child has heard of those between.
        """
        assert self._kept is not None
        before, kept = self._kept
        self._cap()
        shares = self.state.shares
        if shares is None or not shares.grants:
            return
        for id, (amounts, told) in kept.items():
            if id in shares.grants:
                shares.grants[id].amounts, shares.grants[id].told = amounts, told
        if self.shared != before:
            own = plus(self.own, worst_case(self.worst))
            self.untold = regrant(shares, before, self.shared, own) or self.untold
        self.refit()

    def _regrant(self, entry: Mapping[str, Any]) -> None:
        """Take a changed grant; an older change than the last one does nothing."""
        shares = self.shares()
        if entry["seq"] <= shares.seq:
            return
        self._keep()
        amounts, _ = granted_to(entry["grant"])
        shares.granted, shares.seq = amounts or UNLIMITED, entry["seq"]
        self.granted = amounts
        self._changed()
        self.record(vocabulary.RUN_RETUNED, grant=entry["grant"], by="")

    def hand(self, child: str, amounts: Amounts) -> None:
        """Have a child's Task get its grant when it is spawned; a grant counts once, by its id."""
        grant: dict[str, Any] = msgspec.to_builtins(amounts)
        if self.caps.max_seconds is not None:
            grant[SECONDS] = max(self.caps.max_seconds - self.seconds, 0.0)
        if grant:
            if not self._handed:
                self._handed = self.job.grants = {}
            self._handed[child] = grant

    def forget(self, child: str) -> None:
        """Drop the grant of a child that is not spawned any more, so that they do not add up."""
        if self._handed:
            self._handed.pop(child, None)

    def used(self, reason: StopReason) -> Amounts:
        """The use of the Task and its settled children when the run ends for this reason.

        After an error the last call may have been made, so its reservation counts as used. Tool
        calls that may have been made count after every end.
        """
        error = reason is StopReason.ERROR
        spent = self.own if error else self._with_begun(used_by(self.state.spent))
        return spent if self.state.shares is None else plus(spent, self.state.shares.used)

    async def commit(self, *, progress: bool = False) -> None:
        """Make the ledger durable, and go on.

        Args:
            progress: False if the commit only announces the next action.
        """
        cursor = await self._write(self.job.commit, progress=progress)
        if self.landed is not None:
            self.landed(cursor)

    async def checkpoint(self, *, progress: bool = True) -> None:
        """`commit` at a safe point; a pause that takes effect here leaves its reason."""
        progress = progress and not self.outcome_unknown
        self.outcome_unknown = False
        cursor = await self._write(self.job.checkpoint, if_paused=IF_PAUSED, progress=progress)
        if self.landed is not None:
            self.landed(cursor)

    async def pause(
        self, reason: str, due: Any = None, *, note: StopReason = StopReason.INTERRUPT
    ) -> None:
        """`commit`, and pause the Task.

        Args:
            reason: The reason in the event of the pause.
            due: The moment at which a Host resumes the Task; None for never.
            note: The stop reason in the Task's note.

        Raises:
            RunEnded: Always.
        """
        self.job.note(STOP_REASON, note.value)
        await self._write(self.job.pause, reason=reason, due=due)

    async def wait_for(self, waiting: Mapping[str, Any], due: Any = None) -> None:
        """Pause, and record on the Task and in its history what the Task waits for.

        Raises:
            RunEnded: Always.
        """
        self.record(vocabulary.RUN_WAITS, **waiting)
        self.job.note(WAITING_FOR, waiting)
        try:
            await self.pause(StopReason.INTERRUPT.value, due)
        except BaseException as fault:
            if not is_unwinding(fault):
                self.job.note(WAITING_FOR, None)
            raise

    async def _write(self, write: Callable[..., Awaitable[Cursor]], **how: Any) -> Cursor:
        """Write the next commit; if the write fails, its events and decisions are in the next one.

        An event that may not be stored does not come back, so that the run can still end. Only the
        host's variables are checked here. The other parts were checked when they were made.

        Raises:
            InvalidValue: A variable, or a text in the state, may not be stored; nothing is taken.
        """
        now = self._clock()
        self.state.spent.seconds += now - self._began
        self._began = now
        self.progress_room = tool_progress.PROGRESS
        self._kept = None
        if self.state.variables:
            values.check(self.state.variables, "variables")
        state = values.Encoded(values.encode_checked(self.state, "state"))
        events, self.events = self.events, ()
        consumed, self.consumed = self.consumed, ()
        try:
            return await write(state, events, consumed=consumed, **how)
        except InvalidValue:
            raise
        except BaseException as fault:
            # A cancellation that is not the run's own may have cut short a commit that landed.
            if not is_unwinding(fault) and not self.job.holds(state):
                self.events = [*events, *self.events]
                self.consumed = (*consumed, *self.consumed)
            raise

    def progress(self, step: int, tool: str, index: int, report: Any) -> None:
        """Emit a tool's report; one from a call of an earlier step is dropped.

        The observation of an earlier step's call is on record already.
        """
        if step == self.state.step:
            self.progress_room = tool_progress.emit(
                self.job, self.progress_room, tool, index, report
            )

    def unhandled(self, fault: BaseException) -> End:
        """The end of a run because of an exception that no part of it expected, which is logged."""
        report(fault, self.task.id, self.state.step)
        return unhandled(fault)

    def close(self, end: End) -> Any:
        """Record the end of the run; return its final answer.

        Raises:
            TaskFailed: The run ended without a final answer.
        """
        self.record(
            vocabulary.RUN_STOPPED, reason=end.reason, message=end.message, steps=self.state.step,
            usage=self.state.spent.usage,
        )  # fmt: skip
        self.job.report(self.events, acted_on=self.acted_on)
        self.job.note(STOP_REASON, end.reason.value)
        if self.task.metadata.get(WAITING_FOR) is not None:
            self.job.note(WAITING_FOR, None)
        shares = self.state.shares
        if self.granted is not None or shares is not None:
            grants = {} if shares is None else shares.grants
            self.job.note(USED, note_of(self.used(end.reason), grants))
        if end.reason is StopReason.FINAL:
            return end.output
        raise TaskFailed(end.code, end.message or end.reason.value, end.metadata)

"""Step: one transition of an execution, as a pure function of its state, its past and a request.

`step` does no I/O and reads no clock. It changes the state that it is given and returns the events
to store with it, what to push to the agent after that, and the answer. The caller stores state and
events in one write and throws the state away if the write fails.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from ..errors import Refused
from ..ports import Ruling
from . import events as e
from .encoding import digest, same
from .requests import (
    NO_MESSAGE,
    NO_REASON,
    AgentLost,
    Approve,
    Assign,
    Cancel,
    ChildEnded,
    ChildMoved,
    Complete,
    Fail,
    Handover,
    Invoke,
    Reconnected,
    Reply,
    Request,
    Signal,
    StepResult,
    Tick,
    Wait,
)
from .state import MOST_FORMER, MOST_SIGNALS, Approval, Closed, Past, Session, State, Step, due
from .tables import STEPS, StepStatus, advance

SETTLED_BY: Final = {
    "succeed": e.STEP_SUCCEEDED,
    "fail": e.STEP_FAILED,
    "time_out": e.STEP_TIMED_OUT,
    "cancel": e.STEP_CANCELLED,
    "deny": e.STEP_CANCELLED,
}
"""The event of each trigger that ends a step."""
NO_AGENT: Final = " while no agent had it; start an agent with its agent_id, or give it more time"
WAITS_NOT: Final = "waits for no approval: it got one, needed none, or has ended; see its events"
OVER: Final = "the step reached its deadline"
MOVED_BY: Final = {
    "dispatch": e.STEP_DISPATCHED,
    "start": e.STEP_STARTED,
    "retry": e.STEP_RETRIED,
}
"""The event of each other trigger of a step."""


@dataclass(frozen=True, slots=True)
class End:
    """The end of an execution by its agent or by its timeout."""

    output: Any = None
    code: str = ""
    """The code of its failure; empty for success."""
    error: str = ""


@dataclass(slots=True)
class Stepped:
    """The outcome of one request."""

    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """Types and data, stored with the state."""
    pushes: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """Types and data, sent to the session's consumer after the events are stored."""
    reply: Reply = field(default_factory=Reply.ok)
    end: End | None = None
    kill: bool = False
    """True if the execution is to be cancelled."""
    spawned: list[str] = field(default_factory=list)
    """The remote steps whose Task is to be dispatched."""
    undecided: bool = False
    """True if a call needs the decision of the policy; nothing has changed."""
    repeated: bool = False
    """True if an earlier session began this local call, so that it may take effect once more."""
    let_go: bool = False
    """True if another process is to take the execution."""
    late: list[str] = field(default_factory=list)
    """The remote steps whose Tasks are to be ended now; a Task may have its result already."""


def step(
    state: State,
    past: Past,
    request: Request,
    now: float,
    task_id: str,
    step_timeout: float,
    ruling: Ruling | None = None,
) -> Stepped:
    """Carry out one request.

    Args:
        state: Is changed.
        now: The time, in seconds since 1970.
        task_id: The execution.
        step_timeout: Seconds that a step may take after its approval.
        ruling: The policy's decision about a call, if it was asked.
    """
    made = _Transition(state, past, now, task_id, step_timeout)
    try:
        made.carry_out(request, ruling)
    except Refused as refused:
        made.done.reply = Reply.refusal(refused)
    if made.done.events:
        state.at = now
    return made.done


class _Transition:
    def __init__(
        self, state: State, past: Past, now: float, task_id: str, step_timeout: float
    ) -> None:
        self.state = state
        self.past = past
        self.now = now
        self.task_id = task_id
        self.step_timeout = step_timeout
        self.done = Stepped()

    def carry_out(self, request: Request, ruling: Ruling | None) -> None:
        match request:
            case Invoke():
                self._invoke(request, ruling)
            case StepResult():
                self._result(request)
            case Wait():
                self._wait(request)
            case Complete():
                self._complete(request)
            case Fail():
                self._fail(request)
            case Signal():
                self._signal(request)
            case Approve():
                self._approve(request)
            case Cancel():
                self._cancel_steps("the execution was cancelled")
                self.done.kill = True
            case Assign():
                self._assign(request)
            case AgentLost():
                self._lose(request)
            case Reconnected():
                self._reconnect(request)
            case Handover():
                session = self.state.session
                self.done.let_go = session is not None and session.consumer == request.consumer
            case ChildMoved():
                self._child_moved(request)
            case ChildEnded():
                self._child_ended(request)
            case Tick():
                self._tick()

    def _session(self, id: str) -> Session:
        """The session of an intent.

        Raises:
            Refused: The session is not the execution's.
        """
        session = self.state.session
        if session is None:
            raise Refused("UNAUTHORIZED", "session not found: the execution waits for an agent")
        if session.id != id:
            raise Refused("UNAUTHORIZED", "session expired: another session has the execution")
        session.heard = True
        session.doubted_at = session.patience = None
        return session

    def _assign(self, request: Assign) -> None:
        number = self.state.sessions + 1
        self.state.sessions = number
        self.state.session = Session(request.session, request.consumer, number)
        payload = {"session_id": request.session, "consumer_id": request.consumer}
        self._tell(e.STARTED, payload)
        self._push("execution.assigned", {"session_id": request.session})

    def _lose(self, request: AgentLost) -> None:
        session = self.state.session
        if session is None or session.consumer != request.consumer:
            return
        for each in list(self.state.steps.values()):
            if each.remote:
                continue
            if each.status is StepStatus.PENDING:
                self._settle(each, "cancel", error="the agent was lost before the step began")
            else:
                error = "indeterminate: the agent was lost while the step ran"
                self._settle(each, "fail", error=error)
        self.done.pushes.clear()
        self.state.session = None
        former = [each for each in self.state.former if each != session.consumer]
        self.state.former = [*former, session.consumer][-MOST_FORMER:]
        self._tell(e.RESET, {"session_id": session.id, "reason": request.reason})

    def _reconnect(self, request: Reconnected) -> None:
        """Push everything again that the session may have missed."""
        session = self.state.session
        if session is None or session.consumer != request.consumer or not session.heard:
            return
        if session.doubted_at is None:
            session.doubted_at, session.patience = self.now, self.step_timeout
        for closed in self.past.closed.values():
            if closed.occurrence >= session.asked.get(closed.digest, 0):
                continue  # This session has not asked for it.
            if closed.asked:
                self._push_approval(closed.id, not closed.denied)
            if closed.remote and not closed.denied:
                self._push("tool.result", closed.pushed())
        for each in self.state.steps.values():
            if each.approval is None and each.session == session.number:
                self._push_approval(each.id, True)
        for signal_type, taken in session.taken.items():
            for payload in self.past.signals.get(signal_type, [])[:taken]:
                self._push_signal(signal_type, payload)

    def _invoke(self, request: Invoke, ruling: Ruling | None) -> None:
        session = self._session(request.session)
        if not request.tool:
            raise Refused("VALIDATION_ERROR", "intent.tool_id is missing; name the tool")
        call = digest(request.tool, request.arguments)
        if request.key and self._asked_before(request, call):
            return
        occurrence = session.asked.get(call, 0)
        if request.remote and self._replays(session, call, occurrence):
            return
        if ruling is None:
            self.done.undecided = True
            self.done.repeated = not request.remote and (call, occurrence) in self.past.ran
            return
        if ruling.effect == "deny":
            payload: dict[str, Any] = {"tool_id": request.tool, "arguments": request.arguments}
            if ruling.rule:
                payload["rule"] = ruling.rule
            self._tell(e.DENIED, {**payload, "reason": ruling.reason})
            self.done.reply = Reply.ok(accepted=False, error=ruling.reason)
            return
        session.asked[call] = occurrence + 1
        self._begin(request, ruling, session, call, occurrence)

    def _begin(
        self, request: Invoke, ruling: Ruling, session: Session, call: str, occurrence: int
    ) -> None:
        self.state.made += 1
        made = Step(
            f"{self.task_id}.{self.state.made}", request.tool, call, occurrence, session.number,
            remote=request.remote, key=request.key,
        )  # fmt: skip
        payload = {
            "tool_id": request.tool,
            "arguments": request.arguments,
            "remote": request.remote,
        }
        asks = ruling.effect == "require_approval"
        if asks:
            limit = ruling.approval_timeout
            made.approval = Approval(
                ruling.reason, list(ruling.approvers), None if limit is None else self.now + limit
            )
            payload["pending_approval"] = True
        if asks or request.remote:
            made.arguments = request.arguments
        self.state.steps[made.id] = made
        data: dict[str, Any] = {"digest": call, "occurrence": occurrence, "session": session.number}
        if request.key:
            data["idempotency_key"] = request.key
        self._tell(e.STEP_CREATED, payload, made.id, **data)
        if not asks:
            self._release(made)
        self._accept(made.id, pending=asks)

    def _release(self, made: Step) -> None:
        """Let a step begin that needs no approval any more."""
        made.approval = None
        made.deadline = self.now + self.step_timeout
        if made.remote:
            self.done.spawned.append(made.id)
            return
        made.arguments = None
        self._move(made, "dispatch", {"attempt": made.attempt})
        self._move(made, "start", {"attempt": made.attempt})

    def _asked_before(self, request: Invoke, call: str) -> bool:
        """Answer a repeated call like the first; return False if its key is new.

        Raises:
            Refused: The key is another call's, about which the policy was asked.
        """
        for each in self.state.steps.values():
            if each.key == request.key:
                self._check_same(each, request, call)
                self._accept(each.id, pending=each.approval is not None)
                return True
        closed = self.past.closed.get(self.past.keys.get(request.key, ""))
        if closed is None:
            return False
        self._check_same(closed, request, call)
        self._answer_closed(closed)
        return True

    def _check_same(self, first: Step | Closed, request: Invoke, call: str) -> None:
        if (first.digest, first.remote) != (call, request.remote):
            raise Refused(
                "CONFLICT",
                f"the idempotency key {request.key[:200]!r} is that of step {first.id!r}, which "
                "is another call; repeat that call unchanged, or use a new key",
            )

    def _replays(self, session: Session, call: str, occurrence: int) -> bool:
        """Give a later session the remote step that an earlier one began for the same call."""
        for each in self.state.steps.values():
            if (each.digest, each.occurrence, each.remote) == (call, occurrence, True):
                each.session = session.number
                session.asked[call] = occurrence + 1
                self._accept(each.id, pending=each.approval is not None)
                return True
        closed = self.past.closed.get(self.past.calls.get((call, occurrence), ""))
        if closed is None:
            return False
        session.asked[call] = occurrence + 1
        self._answer_closed(closed)
        return True

    def _answer_closed(self, closed: Closed) -> None:
        self._accept(closed.id, pending=closed.denied)
        if closed.denied:
            self._push_approval(closed.id, False)
        elif closed.remote:
            self._push("tool.result", closed.pushed())

    def _accept(self, step_id: str, *, pending: bool) -> None:
        more = {"pending_approval": True} if pending else {}
        self.done.reply = Reply.ok(accepted=True, step_id=step_id, **more)

    def _result(self, request: StepResult) -> None:
        self._session(request.session)
        closed = self.past.closed.get(request.step)
        if closed is not None and not closed.remote:
            wanted = StepStatus.SUCCEEDED if request.success else StepStatus.FAILED
            said = closed.result if request.success else closed.error
            again = request.data if request.success else request.error or NO_MESSAGE
            if closed.status is wanted and same(said, again):
                return  # The same report again.
            what = "is late" if closed.status is not wanted else "is another one than before"
            raise Refused(
                "CONFLICT", f"step {request.step!r} is {closed.status.value}; its result {what}"
            )
        made = self.state.steps.get(request.step)
        if made is None or made.remote:
            what = "a remote step" if made is not None or closed is not None else "unknown"
            raise Refused(
                "NOT_FOUND" if what == "unknown" else "CONFLICT",
                f"step {request.step[:200]!r} is {what}; report results of local steps only",
            )
        if made.status is not StepStatus.RUNNING:
            raise Refused("CONFLICT", f"step {made.id!r} is {made.status.value} and not running")
        if request.success:
            self._settle(made, "succeed", result=request.data)
        else:
            self._settle(made, "fail", error=request.error or NO_MESSAGE)

    def _wait(self, request: Wait) -> None:
        session = self._session(request.session)
        if not request.signal_type:
            raise Refused("VALIDATION_ERROR", "intent.signal_type is missing; name the signal")
        self.done.reply = Reply.ok(accepted=True)
        if request.signal_type in session.waits:
            return
        received = self.past.signals.get(request.signal_type, [])
        taken = session.taken.get(request.signal_type, 0)
        if taken < len(received):
            session.taken[request.signal_type] = taken + 1
            self._push_signal(request.signal_type, received[taken])
            self.state.at = self.now
            return
        session.waits.append(request.signal_type)
        self._tell(e.SIGNAL_AWAITED, {"signal_type": request.signal_type})

    def _complete(self, request: Complete) -> None:
        self._session(request.session)
        if self.state.steps:
            some = ", ".join(sorted(self.state.steps)[:5])
            raise Refused(
                "CONFLICT",
                f"{len(self.state.steps)} steps are open: {some}; complete after they have ended",
            )
        self.done.reply = Reply.ok(accepted=True)
        self.done.end = End(output=request.output)

    def _fail(self, request: Fail) -> None:
        self._session(request.session)
        self._cancel_steps("the execution failed")
        self.done.reply = Reply.ok(accepted=True)
        error = request.error or NO_REASON
        self.done.end = End(code="server/agent_failed", error=error)

    def _signal(self, request: Signal) -> None:
        self.done.reply = Reply.ok(status="delivered")
        if request.id and request.id in self.past.known:
            return  # The same request again.
        if len(self.past.known) >= MOST_SIGNALS:
            raise Refused(
                "CONFLICT",
                f"the execution has got {MOST_SIGNALS:,} signals, which is the limit; create "
                "another execution",
            )
        payload = {"signal_type": request.signal_type, "payload": request.payload}
        if request.by:
            payload["by"] = request.by
        self._tell(e.SIGNAL_RECEIVED, payload, **({"request": request.id} if request.id else {}))
        session = self.state.session
        if session is not None and request.signal_type in session.waits:
            session.waits.remove(request.signal_type)
            kind = request.signal_type
            session.taken[kind] = session.taken.get(kind, 0) + 1
            # The k-th wait gets the k-th signal, so this wait took the last one.
            self._push_signal(kind, request.payload)

    def _approve(self, request: Approve) -> None:
        made = self.state.steps.get(request.step)
        if made is None or made.approval is None:
            known = made is not None or request.step in self.past.closed
            raise Refused(
                "CONFLICT" if known else "NOT_FOUND",
                f"step {request.step[:200]!r} "
                + (WAITS_NOT if known else "does not exist in this execution"),
            )
        allowed = made.approval.approvers
        if allowed and request.by not in allowed:
            raise Refused(
                "FORBIDDEN",
                f"{request.by or 'the caller'!r} may not approve {made.tool!r}; the rule names "
                f"{', '.join(allowed)}",
            )
        self._resolve(made, request.approved, request.by, request.reason)
        self.done.reply = Reply.ok(status="delivered")

    def _resolve(self, made: Step, approved: bool, by: str, reason: str) -> None:
        payload: dict[str, Any] = {"step_id": made.id, "approved": approved}
        if by:
            payload["by"] = by
        if reason:
            payload["reason"] = reason
        self._tell(e.APPROVAL_RESOLVED, payload, made.id)
        asked_here = self._asks(made.session)
        if approved:
            self._release(made)
        else:
            self._settle(made, "deny", error=reason or "the approval was denied", quiet=True)
        if asked_here:
            self._push_approval(made.id, approved)

    def _tick(self) -> None:
        if self.now >= self.state.deadline:
            self._cancel_steps("the execution timed out")
            self.done.end = End(
                code="server/execution_timeout",
                error="the execution reached its deadline"
                + ("" if self.state.session else NO_AGENT),
            )
            return
        session, silent = self.state.session, self.state.silent_until
        if session is not None and silent is not None and self.now >= silent:
            why = f"the agent was silent for {session.patience:g} s after its stream was lost"
            self._lose(AgentLost(session.consumer, why))
        for each in list(self.state.steps.values()):
            if each.approval is not None:
                limit = each.approval.deadline
                if limit is not None and self.now >= limit:
                    self._resolve(each, False, "", "the approval did not come in time")
            elif each.deadline is not None and self.now >= due(each):
                if each.remote:
                    # Its runner's result may be stored, and only its Task knows.
                    self.done.late.append(each.id)
                else:
                    self._settle(each, "time_out", error=OVER)

    def _child_moved(self, request: ChildMoved) -> None:
        made = self.state.steps.get(request.step)
        if made is None or made.approval is not None or request.attempt < made.attempt:
            return
        if request.trigger not in STEPS[made.status]:
            return  # Told again after a restart of this run.
        if request.trigger == "retry":
            made.attempt = request.attempt + 1
        self._move(made, request.trigger, dict(request.payload))

    def _child_ended(self, request: ChildEnded) -> None:
        made = self.state.steps.get(request.step)
        if made is None or made.approval is not None:
            return
        if request.trigger == "succeed":
            self._settle(made, "succeed", result=request.result)
        else:
            self._settle(made, request.trigger, error=request.error)

    def _cancel_steps(self, why: str) -> None:
        for each in list(self.state.steps.values()):
            self._settle(each, "cancel", error=why, quiet=True)

    def _move(self, made: Step, trigger: str, payload: dict[str, Any]) -> None:
        made.status = advance(STEPS, made.status, trigger)
        self._tell(MOVED_BY[trigger], payload, made.id)

    def _settle(
        self, made: Step, trigger: str, *, result: Any = None, error: str = "", quiet: bool = False
    ) -> None:
        """End a step. A result for a step that is only dispatched records first that it ran."""
        if trigger in ("succeed", "fail"):
            attempt = {"attempt": made.attempt}
            if made.status is StepStatus.PENDING:
                self._move(made, "dispatch", attempt)
            if made.status is StepStatus.DISPATCHED:
                self._move(made, "start", attempt)
        made.status = advance(STEPS, made.status, trigger)
        payload = {"result": result} if trigger == "succeed" else {"error": error}
        self._tell(SETTLED_BY[trigger], payload, made.id)
        del self.state.steps[made.id]
        if made.remote and not quiet and self._asks(made.session):
            closed = Closed(
                made.id, made.tool, made.digest, made.occurrence, made.key, True, None,
                made.status, result, error,
            )  # fmt: skip
            self._push("tool.result", closed.pushed())

    def _asks(self, number: int) -> bool:
        """True if the present session asked for a step, and can hear of it."""
        session = self.state.session
        return session is not None and session.number == number and session.heard

    def _tell(self, type: str, payload: dict[str, Any], step_id: str = "", **data: Any) -> None:
        said: dict[str, Any] = {"payload": payload, **data}
        if step_id:
            said["step_id"] = step_id
        self.done.events.append((type, said))

    def _push(self, type: str, data: dict[str, Any]) -> None:
        self.done.pushes.append((type, data))

    def _push_signal(self, signal_type: str, payload: Any) -> None:
        self._push("signal.received", {"signal_type": signal_type, "payload": payload})

    def _push_approval(self, step_id: str, approved: bool) -> None:
        self._push("approval.resolved", {"step_id": step_id, "approved": approved})

"""State: all that an execution needs to go on, and its past, read from its events once an entry.

The state is stored with every transition, so it holds only what is open. Closed steps and received
signals are in the events; `Past` folds them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from agentic_kernel_engine import Event

from ..identity import shown
from . import events as e
from .requests import Reply
from .tables import ExecutionStatus, StepStatus

FORM: Final = "server/1"
MOST_FORMER: Final = 16
"""The most consumers of lost sessions that are remembered."""
MOST_SIGNALS: Final = 10_000
"""The most signals of one execution: each new owner reads all of them."""
MOST_REPLIES: Final = 1_000
"""The most answers to requests of other processes that are remembered; more do not wait at once."""
LATE: Final = 2.0
"""Seconds after its deadline at which the Task of a remote step is ended from here."""


class Session(msgspec.Struct, omit_defaults=True):
    """The hold of one consumer of an agent on an execution."""

    id: str
    consumer: str
    number: int
    """1 for the first session of the execution."""
    heard: bool = False
    """True after the first intent: before it the agent would drop what is pushed."""
    asked: dict[str, int] = {}
    """The number of times that this session has asked for each call, by digest."""
    taken: dict[str, int] = {}
    """The number of signals of each type that this session has waited for and got."""
    waits: list[str] = []
    """The types of signals that it waits for."""
    doubted_at: float | None = None
    """The moment at which its stream was opened again, in seconds since 1970, until it is heard of:
    the program at the other end may be a new one, which knows nothing of the session."""
    patience: float | None = None
    """Seconds for which it may be silent then, while it has nothing to wait for."""


class Approval(msgspec.Struct, omit_defaults=True):
    """An approval that a step waits for."""

    reason: str = ""
    approvers: list[str] = []
    deadline: float | None = None
    """Seconds since 1970; None for no limit."""


class Step(msgspec.Struct, omit_defaults=True):
    """An open step."""

    id: str
    tool: str
    digest: str
    occurrence: int
    session: int
    """The number of the session that asked for it last."""
    remote: bool = False
    status: StepStatus = StepStatus.PENDING
    key: str = ""
    attempt: int = 1
    arguments: Any = None
    """Kept for a step that a runner or an approval waits for."""
    approval: Approval | None = None
    deadline: float | None = None


class State(msgspec.Struct, omit_defaults=True):
    """The state of an execution."""

    deadline: float
    """The moment at which it fails if it has not ended, in seconds since 1970."""
    tenant: str = ""
    """The tenant that it belongs to."""
    session: Session | None = None
    sessions: int = 0
    """The number of sessions so far."""
    former: list[str] = []
    """The consumers of lost sessions; the latest last."""
    steps: dict[str, Step] = {}
    made: int = 0
    """The number of steps so far."""
    at: float = 0.0
    """The moment of the last transition, in seconds since 1970."""

    @property
    def status(self) -> ExecutionStatus:
        """The status while it has not ended and a living owner has it, or it is paused."""
        if self.session is None:
            return ExecutionStatus.PENDING
        if self.steps or self.session.waits:
            return ExecutionStatus.BLOCKED
        return ExecutionStatus.RUNNING

    @property
    def waits_for_people(self) -> bool:
        """True if only a signal or an approval lets it go on, so that it needs no owner."""
        if self.session is None or not (self.steps or self.session.waits):
            return False
        return all(step.approval is not None for step in self.steps.values())

    @property
    def silent_until(self) -> float | None:
        """The moment at which a doubted session counts as lost; None if it is not doubted or waits.

        An agent that waits for a step or a signal has nothing to say.
        """
        session = self.session
        if session is None or session.doubted_at is None or self.status is ExecutionStatus.BLOCKED:
            return None
        return max(session.doubted_at, self.at) + (session.patience or 0.0)

    def next_deadline(self, ending: Container[str] = ()) -> float:
        """The first moment at which something times out.

        Args:
            ending: The remote steps whose Tasks are being ended; their time is over.
        """
        silent = self.silent_until
        moments = [self.deadline] if silent is None else [self.deadline, silent]
        for step in self.steps.values():
            if step.approval is not None:
                if step.approval.deadline is not None:
                    moments.append(step.approval.deadline)
            elif step.deadline is not None and step.id not in ending:
                moments.append(due(step))
        return min(moments)


def due(step: Step) -> float:
    """The moment at which a step that began times out here.

    A remote step ends by its own Task, which ends by its own deadline; here only if it is `LATE`.
    """
    assert step.deadline is not None
    return step.deadline + (LATE if step.remote else 0.0)


_from_text = msgspec.json.Decoder(State).decode


def decoded(text: bytes | None) -> State | None:
    """The state in a record; None if it has none yet."""
    return None if text is None else _from_text(text)


def from_plain(value: Any) -> State:
    """The state from plain JSON values."""
    return msgspec.convert(value, State)


def plain(state: State) -> Any:
    """The state as plain JSON values."""
    return msgspec.to_builtins(state)


class Closed(msgspec.Struct):
    """A step that has ended, as its events say."""

    id: str
    tool: str
    digest: str
    occurrence: int
    key: str
    remote: bool
    arguments: Any
    status: StepStatus = StepStatus.PENDING
    result: Any = None
    error: str = ""
    at: datetime | None = None
    denied: bool = False
    """True if an approval was denied."""
    asked: bool = False
    """True if it waited for an approval."""

    def entry(self) -> dict[str, Any]:
        """The step in the history that an agent gets."""
        shape: dict[str, Any] = {
            "step_id": self.id,
            "tool_id": self.tool,
            "status": self.status.value,
            "arguments": self.arguments,
        }
        if self.status is StepStatus.SUCCEEDED:
            shape["result"] = self.result
        if self.error:
            shape["error"] = self.error
        if self.at is not None:
            shape["completed_at"] = shown(self.at)
        return shape

    def pushed(self) -> dict[str, Any]:
        """The ``tool.result`` of the step: only ``failed`` makes the agent's call raise."""
        if self.status is StepStatus.SUCCEEDED:
            return {"step_id": self.id, "status": "succeeded", "result": self.result}
        return {"step_id": self.id, "status": "failed", "error": self.error or self.status.value}


_ENDS: Final[Mapping[str, StepStatus]] = {
    e.STEP_SUCCEEDED: StepStatus.SUCCEEDED,
    e.STEP_FAILED: StepStatus.FAILED,
    e.STEP_TIMED_OUT: StepStatus.TIMED_OUT,
    e.STEP_CANCELLED: StepStatus.CANCELLED,
}


class Past:
    """The closed steps and the received signals of an execution, folded from its events."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.closed: dict[str, Closed] = {}
        self.keys: dict[str, str] = {}
        """The ids of closed steps by idempotency key."""
        self.calls: dict[tuple[str, int], str] = {}
        """The ids of closed remote steps by digest and occurrence."""
        self.ran: set[tuple[str, int]] = set()
        """The closed local steps that began, by digest and occurrence."""
        self.signals: dict[str, list[Any]] = {}
        """The payloads of the signals of each type, in order."""
        self.known: set[str] = set()
        """The names of the requests that brought signals."""
        self.replies: dict[str, Reply] = {}
        """The latest answers to requests that other processes sent, by the request's id."""
        self._open: dict[str, Closed] = {}
        for event in events:
            self.fold(event.type, event.data, event.at)

    def fold(self, type: str, data: Mapping[str, Any], at: datetime | None) -> None:
        """Add one event."""
        payload = data.get("payload") or {}
        if type == e.STEP_CREATED:
            step = Closed(
                data["step_id"], payload["tool_id"], data["digest"], data["occurrence"],
                data.get("idempotency_key", ""), bool(payload.get("remote")),
                payload.get("arguments"), asked=bool(payload.get("pending_approval")),
            )  # fmt: skip
            self._open[step.id] = step
        elif type in _ENDS:
            ended = self._open.pop(data["step_id"], None)
            if ended is None:
                return
            ended.status, ended.at = _ENDS[type], at
            ended.result, ended.error = payload.get("result"), payload.get("error", "")
            self.closed[ended.id] = ended
            if ended.key:
                self.keys[ended.key] = ended.id
            if ended.remote:
                self.calls[ended.digest, ended.occurrence] = ended.id
            elif ended.status is not StepStatus.CANCELLED:
                self.ran.add((ended.digest, ended.occurrence))
        elif type == e.APPROVAL_RESOLVED:
            found = self._open.get(data["step_id"])
            if found is not None:
                found.denied = not payload.get("approved")
        elif type == e.SIGNAL_RECEIVED:
            self.signals.setdefault(payload["signal_type"], []).append(payload.get("payload"))
            if data.get("request"):
                self.known.add(data["request"])
        elif type == e.REPLIED:
            if len(self.replies) >= MOST_REPLIES:
                del self.replies[next(iter(self.replies))]
            self.replies[data["request"]] = Reply(data["status"], data["body"])

    def history(self) -> list[dict[str, Any]]:
        """The closed steps, as an agent gets them."""
        return [step.entry() for step in self.closed.values()]

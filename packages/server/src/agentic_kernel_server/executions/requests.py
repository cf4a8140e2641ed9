"""Requests: everything that can happen to an execution, and the answers.

A request that reaches another process than the owner's travels as a decision in the Task's inbox,
so each kind that a client can send has a JSON form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from ..errors import STATUS, Refused
from ..ports import Ruling

DECISION: Final = "server/request"
"""The type of the decision that carries a request."""

NO_MESSAGE: Final = "the tool failed without a message"
"""The error of a step whose agent or runner gave none."""
NO_REASON: Final = "the agent failed the execution without a message"
"""The error of an execution whose agent gave none."""


class Invoke(msgspec.Struct, tag="invoke_tool", tag_field="kind", omit_defaults=True):
    """An agent calls a tool."""

    session: str
    tool: str
    arguments: Any = None
    key: str = ""
    remote: bool = False


class Wait(msgspec.Struct, tag="wait", tag_field="kind"):
    """An agent waits for a signal."""

    session: str
    signal_type: str


class Complete(msgspec.Struct, tag="complete", tag_field="kind"):
    """An agent ends the execution with its output."""

    session: str
    output: Any = None


class Fail(msgspec.Struct, tag="fail", tag_field="kind"):
    """An agent ends the execution with an error."""

    session: str
    error: str = ""


class StepResult(msgspec.Struct, tag="step_result", tag_field="kind", omit_defaults=True):
    """An agent reports the result of a local step."""

    session: str
    step: str
    success: bool
    data: Any = None
    error: str = ""


class Signal(msgspec.Struct, tag="signal", tag_field="kind", omit_defaults=True):
    """A client sends a signal."""

    signal_type: str
    payload: Any = None
    by: str = ""
    id: str = ""
    """Names the request, so that sending it again changes nothing."""


class Approve(msgspec.Struct, tag="approve", tag_field="kind", omit_defaults=True):
    """A person approves or denies a step."""

    step: str
    approved: bool
    reason: str = ""
    by: str = ""


class Cancel(msgspec.Struct, tag="cancel", tag_field="kind", omit_defaults=True):
    """A client cancels the execution."""

    by: str = ""


class Handover(msgspec.Struct, tag="handover", tag_field="kind"):
    """Another process has the consumer's stream now, and takes the execution."""

    consumer: str


Sent = Invoke | Wait | Complete | Fail | StepResult | Signal | Approve | Cancel | Handover
"""The requests that may come from another process."""


class Assign(msgspec.Struct):
    """A consumer of the agent gets the execution."""

    session: str
    consumer: str


class AgentLost(msgspec.Struct):
    """The grace of a consumer without a stream is over."""

    consumer: str
    reason: str


class Reconnected(msgspec.Struct):
    """A consumer opened its stream again within the grace."""

    consumer: str


class ChildMoved(msgspec.Struct):
    """The Task of a remote step has a new attempt, or its attempt has moved."""

    step: str
    trigger: str
    """``dispatch``, ``start`` or ``retry``."""
    attempt: int
    payload: Mapping[str, Any]


class ChildEnded(msgspec.Struct):
    """The Task of a remote step has ended."""

    step: str
    trigger: str
    """``succeed``, ``fail``, ``time_out`` or ``cancel``."""
    result: Any = None
    error: str = ""


class Tick(msgspec.Struct):
    """Time has passed."""


Request = Sent | Assign | AgentLost | Reconnected | ChildMoved | ChildEnded | Tick


class Reply(msgspec.Struct, frozen=True):
    """The answer to a request: an HTTP status and a JSON body."""

    status: int
    body: Mapping[str, Any]

    @classmethod
    def ok(cls, **body: Any) -> Reply:
        """An answer with status 200."""
        return cls(200, body)

    @classmethod
    def refusal(cls, refused: Refused) -> Reply:
        """The answer that is an error."""
        return cls(refused.status, refused.body)

    def unwrap(self) -> Mapping[str, Any]:
        """The body of a good answer.

        Raises:
            Refused: The answer is an error.
        """
        if self.status == 200:
            return self.body
        code = self.body["code"]
        raise Refused(code if code in STATUS else "SERVICE_UNAVAILABLE", self.body["error"])


class Ruled(msgspec.Struct):
    """A call with the decision of the policy."""

    call: Invoke
    ruling: Ruling


def to_decision(request: Sent, id: str) -> dict[str, Any]:
    """The decision that carries a request.

    Args:
        id: Names the request, so that its answer can be found.
    """
    return {"type": DECISION, "request": id, "body": msgspec.to_builtins(request)}


def from_decision(entry: Mapping[str, Any]) -> Sent:
    """The request that a decision carries."""
    found: Sent = msgspec.convert(_thawed(entry["body"]), Sent)
    return found


def answer_before(inbox: Iterable[Mapping[str, Any]], request: Approve) -> Reply | None:
    """The answer to an approval whose step has one that waits in the inbox: the first decides."""
    for entry in inbox:
        if entry["type"] != DECISION:
            continue
        try:
            before = from_decision(entry)
        except (ValueError, KeyError):
            continue  # The run drops it.
        if not isinstance(before, Approve) or before.step != request.step:
            continue
        if before.approved == request.approved:
            return Reply.ok(status="delivered")
        word = "approved" if before.approved else "denied"
        why = f"step {request.step[:200]!r} was {word} before; that takes effect soon"
        return Reply.refusal(Refused("CONFLICT", why))
    return None


def _thawed(value: Any) -> Any:
    """A frozen JSON value as plain dicts and lists."""
    return msgspec.json.decode(msgspec.json.encode(value))

"""Decisions of a policy, and the route of each action under each decision.

    decision \\ action   tool call, delegate, thought, goals, final answer, ask user, schedule, stop
    allow               it is done
    deny                it is not done; the planner is told, or the run ends (``on_deny``)
    stop                the run ends
    require_approval    the Task pauses until a person has decided

`ROUTES` is this matrix, cell by cell. Where a cell differs from the picture, a comment says why.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final, Literal

import msgspec

from .action import (
    Action,
    AskUser,
    CompleteGoal,
    Delegate,
    FinalAnswer,
    PushGoal,
    Schedule,
    Stop,
    Thought,
    ToolCall,
    kind_of,
)

Verdict = Literal["allow", "deny", "stop", "require_approval"]


class Decision(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A policy's decision about one action."""

    verdict: Verdict
    reason: str = ""
    """For the planner if the action is denied, for the person if it needs an approval."""


ALLOW: Final = Decision("allow")


def deny(reason: str) -> Decision:
    """Refuse one action."""
    return Decision("deny", reason)


def stop(reason: str) -> Decision:
    """End the run."""
    return Decision("stop", reason)


def require_approval(reason: str) -> Decision:
    """Let a person decide about this very action."""
    return Decision("require_approval", reason)


class Approvable(msgspec.Struct, omit_defaults=True, kw_only=True):
    """An action that may need the approval of a person, and that person's decision."""

    digest: str = ""
    """The digest that an approval of the action must name; "" if it needs none."""
    granted: bool | None = None
    """True if a person approved it, False if a person refused it; None while it is undecided."""
    by: Any = ""
    why: Any = ""
    """Text; the store of an earlier version may hold anything else."""

    @property
    def waits(self) -> bool:
        """True if a person still has to decide about the action."""
        return bool(self.digest) and self.granted is None

    def refusal(self, reason: str) -> str:
        """The message for the planner about an action that the policy or a person refused.

        Args:
            reason: The reason that the policy gave.
        """
        if self.granted is False:
            return f"{self.by or 'a person'} refused it: {self.why or 'no reason given'}"
        return reason or "it is not allowed"

    def request(self, action: Action, reason: str) -> dict[str, Any]:
        """The request to people for an approval, as a part of the note ``engine/waiting_for``.

        Args:
            reason: The reason that the policy gave.
        """
        form = msgspec.to_builtins(action)
        return {"digest": self.digest, "type": kind_of(action), "action": form, "reason": reason}


class Route(StrEnum):
    """The handling of an action after the decision about it."""

    CALL = "call"
    """Run the tool."""
    DELEGATE = "delegate"
    RECORD = "record"
    """Put it on record, and go on."""
    FINISH = "finish"
    """End the Task with the answer."""
    ASK = "ask"
    """Pause for an answer."""
    SLEEP = "sleep"
    """Pause until a moment."""
    STOP = "stop"
    """End the Task without an answer."""
    REFUSE = "refuse"
    """Tell the planner that it was denied, or end the run."""
    APPROVE = "approve"
    """Pause for an approval."""


_DONE: Final[dict[type[Action], Route]] = {
    ToolCall: Route.CALL,
    Delegate: Route.DELEGATE,
    Thought: Route.RECORD,
    PushGoal: Route.RECORD,
    CompleteGoal: Route.RECORD,
    FinalAnswer: Route.FINISH,
    AskUser: Route.ASK,
    Schedule: Route.SLEEP,
    Stop: Route.STOP,
}

ROUTES: Final[dict[Verdict, dict[type[Action], Route]]] = {
    "allow": _DONE,
    "deny": {
        **dict.fromkeys(_DONE, Route.REFUSE),
        # A planner cannot be kept from giving up: the run would only go on and spend its limits.
        Stop: Route.STOP,
    },
    "stop": dict.fromkeys(_DONE, Route.STOP),
    "require_approval": {
        **dict.fromkeys(_DONE, Route.APPROVE),
        # A question goes to a person in any case.
        AskUser: Route.ASK,
        Stop: Route.STOP,
    },
}
"""The route of each type of action under each decision."""

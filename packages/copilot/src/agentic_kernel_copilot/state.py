"""State: what a Task leaves behind with every commit, beside the session that the CLI keeps.

The session is the state: what was said and done is in the CLI's own log of it. Here is where in
that log the Task's history stands, what was used up, and what was decided about open calls.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from agentic_kernel import InvalidValue
from agentic_kernel_engine import values
from agentic_kernel_engine.loop import Decision, Observation, Plan, Spent, ToolCall

VERSION: Final = 1
"""Schema of the state."""


class Call(msgspec.Struct, omit_defaults=True):
    """One call of a tool that the turn at hand asks for."""

    action: ToolCall
    decision: Decision | None = None
    """What the policy said; None while it was not asked."""
    digest: str = ""
    """What an approval of it is bound to, where one is required."""
    granted: bool | None = None
    """Whether a person approved it; None while nobody has decided."""
    by: Any = ""
    why: Any = ""
    """Text; the store of an earlier version may hold anything else."""
    begun: bool = False
    """Whether it counts as made."""
    key: str = ""
    """Its idempotency key, once its effect may have begun."""
    observation: Observation | None = None
    """What came of it; None while that is not known."""

    @property
    def waits(self) -> bool:
        """Whether a person is still to decide about it."""
        return bool(self.digest) and self.granted is None and self.observation is None


class State(msgspec.Struct, omit_defaults=True):
    """The durable state of a Task."""

    version: int
    session: str
    """The id of the CLI's session."""
    cursor: str = ""
    """The last event of the session's log that is on record here."""
    told: list[tuple[str, int]] = []
    """What the session was told: the event of the prompt, and how many supplements it had heard
    then. A CLI that is killed forgets the last moments, and is told again."""
    offered: int | None = None
    """How many supplements the prompt has that is being handed over."""
    step: int = 0
    """SessionTurns that are over and on record."""
    spent: Spent = msgspec.field(default_factory=Spent)
    plan: Plan | None = None
    """What the turn at hand asks for."""
    calls: list[Call] = []
    """Its calls, in the order of the plan's actions."""
    limits: dict[str, Any] | None = None
    """Limits that were changed while the Task ran."""

    @property
    def heard(self) -> int:
        """How many supplements the session has heard; -1 before the instructions."""
        return self.told[-1][1] if self.told else -1

    def call(self, id: str) -> Call | None:
        """The open call that the CLI knows by this id."""
        return next((call for call in self.calls if call.action.id == id), None)


def load(stored: Any) -> State:
    """The state behind its JSON form.

    Raises:
        InvalidValue: It was left by something else, or by a later version of this package.
    """
    version = stored.get("version") if isinstance(stored, dict) else None
    if version != VERSION:
        raise InvalidValue(
            "state",
            f"is not one this version understands ({ascii(stored)[:80]}); go on with the version "
            "of agentic-kernel-copilot that began it",
        )
    try:
        return msgspec.convert(stored, State)
    except msgspec.ValidationError as error:
        raise InvalidValue("state", f"is no state of a Copilot session: {error}") from error


def dump(state: State) -> values.Encoded:
    """The JSON form of the state as it is now.

    Raises:
        InvalidValue: A text in it may not be stored.
    """
    return values.Encoded(values.encode_checked(state, "state"))

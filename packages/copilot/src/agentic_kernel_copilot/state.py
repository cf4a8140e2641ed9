"""State: the data that a Task stores with every commit, beside the session that the CLI keeps.

The conversation itself is in the CLI's log of the session. The state holds the place in that log up
to which the Task's history goes, the usage, and the decisions about open calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from agentic_kernel import InvalidValue
from agentic_kernel_engine.loop import (
    Approvable,
    Decision,
    Observation,
    Plan,
    Shares,
    Spent,
    ToolCall,
    Usage,
)

VERSION: Final = 1
"""The version of the state's schema."""


class Call(Approvable, omit_defaults=True):
    """One call of a tool that the turn at hand asks for."""

    action: ToolCall
    decision: Decision | None = None
    """The policy's decision; None before the policy was asked."""
    begun: bool = False
    """True if the call counts as made."""
    key: str = ""
    """Its idempotency key; "" before its effect may have begun."""
    observation: Observation | None = None
    """The outcome of the call; None while it is not known."""

    @property
    def waits(self) -> bool:
        """True if a person still has to decide about the call."""
        return super().waits and self.observation is None


class State(msgspec.Struct, omit_defaults=True):
    """The durable state of a Task."""

    version: int
    session: str
    """The id of the CLI's session."""
    cursor: str = ""
    """The last event of the session's log that the Task's history has recorded."""
    told: list[tuple[str, int]] = []
    """The prompts that the session received: the event of each, and the number of supplements that
    the session knew then. A killed CLI forgets its last moments, so it is told again."""
    offered: int | None = None
    """The number of supplements that the prompt on its way includes; None without such a prompt."""
    step: int = 0
    """Turns that are over and recorded."""
    spent: Spent = msgspec.field(default_factory=Spent)
    plan: Plan | None = None
    """The plan of the turn at hand."""
    calls: list[Call] = []
    """The calls of the turn, in the order of the plan's actions."""
    limits: dict[str, Any] | None = None
    """Limits that were changed while the Task ran."""
    shares: Shares | None = None
    """The Task's part in the budget of a parent; None for a Task that has none."""

    @property
    def reserved(self) -> Usage | None:
        """None: the CLI makes its calls without a reservation."""
        return None

    @property
    def variables(self) -> Mapping[str, Any]:
        """Empty: a session keeps no data of the host."""
        return {}

    @property
    def heard(self) -> int:
        """The number of supplements that the session has received; -1 before the instructions."""
        return self.told[-1][1] if self.told else -1

    def call(self, id: str) -> Call | None:
        """The open call that the CLI knows by this id."""
        return next((call for call in self.calls if call.action.id == id), None)


def load(stored: Any) -> State:
    """Decode a state from its JSON form.

    Raises:
        InvalidValue: Another substrate or another version of this package wrote it.
    """
    version = stored.get("version") if isinstance(stored, dict) else None
    if version != VERSION:
        raise InvalidValue(
            "state",
            f"is not a state that this version reads ({ascii(stored)[:80]}); use the version of "
            "agentic-kernel-copilot that began the Task",
        )
    try:
        return msgspec.convert(stored, State)
    except msgspec.ValidationError as error:
        raise InvalidValue("state", f"is not a state of a Copilot session: {error}") from error

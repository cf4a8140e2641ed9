"""State: what the Loop leaves behind with every commit, and needs to go on.

It does not grow with the run: what was said is in the Task's history (R15).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from agentic_kernel import InvalidValue

from .. import values
from .decision import Decision
from .limits import Spent
from .observation import Observation
from .plan import Plan, Usage

VERSION: Final = 1
"""Of this schema. A state of an older one is migrated when it is read."""


class Judgement(msgspec.Struct, omit_defaults=True):
    """What was decided about one action of the plan at hand."""

    decision: Decision
    digest: str = ""
    """What an approval of it is bound to, where one is required."""
    granted: bool | None = None
    """Whether a person approved it; None while nobody has decided."""
    by: str = ""
    why: str = ""


class AtHand(msgspec.Struct, omit_defaults=True):
    """A plan that is being carried out, kept where carrying it out takes more than one commit."""

    plan: Plan
    verdicts: list[Judgement]
    prepared: bool = False
    """Whether its effects may have begun."""
    children: dict[str, str] = {}
    """Ids of the children that it spawns, by the index of the action."""
    done: dict[str, Observation] = {}
    """What came of its tool calls, by the index of the action, where children follow them."""


class State(msgspec.Struct, omit_defaults=True):
    """The durable state of a run."""

    version: int = VERSION
    step: int = 0
    """Steps that are committed."""
    spent: Spent = msgspec.field(default_factory=Spent)
    reserved: Usage | None = None
    """For the call that follows the commit which carries this; None if none follows (R17)."""
    at_hand: AtHand | None = None
    waiting: dict[str, Any] | None = None
    """What a pause waits for, as in the note ``engine/waiting_for``."""
    goals: list[str] = []
    """The outermost first."""
    variables: dict[str, Any] = {}
    """The host's scratch: kept with the state, not in the log."""
    limits: dict[str, Any] = {}
    """Limits that were changed while the Task ran."""
    non_progress: int = 0
    reflections: int = 0
    repeats: int = 0
    last: str = ""
    """Fingerprint of the last step's actions and observations."""
    said: str = ""
    """Text of an answer that a pause cut short."""


def load(stored: Any) -> State:
    """The state behind its JSON form, migrated.

    Raises:
        InvalidValue: It was written by a newer version, or is no state of the Loop.
    """
    version = stored.get("version", VERSION) if isinstance(stored, dict) else None
    if not isinstance(version, int) or version > VERSION:
        raise InvalidValue(
            "state.version",
            f"is {version!r}, and this engine reads up to {VERSION}; use the engine that wrote it, "
            "or a newer one",
        )
    try:
        return msgspec.convert(stored, State)
    except msgspec.ValidationError as error:
        raise InvalidValue("state", f"is no state of the Loop: {error}") from error


def dump(state: State) -> bytes:
    """The JSON form; all but the host's variables is made of parts that were checked before.

    Raises:
        InvalidValue: A variable may not be stored.
    """
    if state.variables:
        values.check(state.variables, "variables")
    return values.encode_checked(state, "state")

"""State: the data that the Loop stores with every commit and needs to go on.

It does not grow with the run, because the transcript is in the Task's history (R15).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from agentic_kernel import InvalidValue

from .. import edges
from ..host import inbox
from ..plans.accounts import Shares
from ..plans.action import ToolCall
from ..plans.decision import Approvable, Decision
from ..plans.ending import End
from ..plans.limits import Spent
from ..plans.observation import SKIPPED, Observation
from ..plans.plan import Plan, Usage
from ..plans.reasons import StopReason
from ..seams.memory import Item

VERSION: Final = 3
"""The version of this schema. A state of an older version is migrated when it is read.

Version 2 added ``cursor``. A state of version 1 has none: its history is read from the beginning.
Version 3 added ``shares``. A state without shares is written as version 2, because an engine of
that version can go on with it.
"""
WITHOUT_SHARES: Final = 2
"""The version of a state without `Shares`."""
FORM: Final = f"loop/{VERSION}"
"""The form of a state with `Shares` (R23): an older engine would forget what is reserved. A state
without them has no form, because every engine reads it."""


NOT_BEGUN: Final = Observation(error=SKIPPED, message="the run ended before it was begun")
"""The observation of an action that the run did not begin."""


class Judgement(Approvable, omit_defaults=True):
    """The decisions about one action of the plan at hand."""

    decision: Decision


class AtHand(msgspec.Struct, omit_defaults=True):
    """A plan that is being carried out; the state keeps it if that takes more than one commit."""

    plan: Plan
    verdicts: list[Judgement]
    prepared: bool = False
    """True if its tool calls may have begun: those without an observation in ``done``."""
    children: dict[str, str] = {}
    """Ids of the children that it spawns, by the index of the action."""
    done: dict[str, Observation] = {}
    """The observations of its finished actions, by their index, if the plan was interrupted; and
    `NOT_BEGUN` for each tool call that was not prepared, because the limits had no room for it."""
    awaited: dict[str, dict[str, Any]] = {}
    """The requests of children and of tools to people, by the index of the action that waits."""
    decided: dict[str, list[dict[str, Any]]] = {}
    """Decisions of people that still have to be handed on to the child, by the same index."""
    answers: dict[str, dict[str, str]] = {}
    """The answers of people to questions of a tool, by the same index and the question's digest."""

    def may_have_begun(self, index: int) -> bool:
        """True if this tool call was prepared and is not settled."""
        return self.prepared and str(index) not in self.done

    def begun(self) -> int:
        """The number of tool calls that were prepared and are not settled."""
        if not self.prepared:
            return 0
        return sum(
            type(action) is ToolCall and self.may_have_begun(index)
            for index, action in enumerate(self.plan.actions)
        )

    def found(self) -> dict[int, Observation]:
        """The observations of the finished actions, by their index."""
        return {int(at): each for at, each in self.done.items() if each.error != SKIPPED}


class Ended(msgspec.Struct, omit_defaults=True):
    """The end of a run, kept in the state while memory is written before the Task ends."""

    reason: StopReason
    message: str = ""
    output: Any = None
    code: str = ""
    metadata: dict[str, Any] | None = None

    def end(self) -> End:
        """The exception that ends the run in this way."""
        return End(
            self.reason, self.message, output=self.output, code=self.code, metadata=self.metadata
        )


class State(msgspec.Struct, gc=False, omit_defaults=True):
    """The durable state of a run."""

    version: int = 1
    """Written with every state; the first version left it out."""
    step: int = 0
    """Steps that are committed."""
    spent: Spent = msgspec.field(default_factory=Spent)
    reserved: Usage | None = None
    """The reservation for the call after this commit; None if no call follows (R17)."""
    at_hand: AtHand | None = None
    waiting: dict[str, Any] | None = None
    """The request that a pause waits for, as in the note ``engine/waiting_for``."""
    goals: tuple[str, ...] = ()
    """The open goals, the outermost first."""
    variables: dict[str, Any] = {}
    """The host's own data: kept in the state, not in the history."""
    limits: dict[str, Any] | None = None
    """Limits that were changed while the Task ran."""
    non_progress: int = 0
    reflections: int = 0
    repeats: int = 0
    last: str = ""
    """Fingerprint of the last step's actions and observations."""
    said: str = ""
    """Text of an answer that a pause cut short."""
    remembering: tuple[Item, ...] = ()
    """Items that are recorded and not in memory yet."""
    ended: Ended | None = None
    cursor: tuple[int, int] | None = None
    """The last event that a compaction replaced; an entry reads the history after it (R15)."""
    shares: Shares | None = None
    """The grants of the children, what they used, and changes of the Task's own grant (R18); None
    for a Task that has had none of these."""


_FIELDS: Final = frozenset(State.__struct_fields__)


def load(stored: Any) -> State:
    """Decode a state from its JSON form, and migrate it.

    Raises:
        InvalidValue: A newer version wrote it, or it is not a state of the Loop.
    """
    version = stored.get("version", 1) if isinstance(stored, dict) else None
    if not isinstance(version, int) or version > VERSION:
        raise InvalidValue(
            "state.version",
            f"is {edges.came(version)}, and this engine reads up to {VERSION}; use the engine that "
            "wrote it, or a newer one",
        )
    unknown = stored.keys() - _FIELDS
    if unknown:
        raise InvalidValue(
            "state",
            f"is not a state of the Loop: it has a field {edges.came(min(unknown))}; another "
            "substrate wrote it",
        )
    try:
        state = msgspec.convert(stored, State)
    except msgspec.ValidationError as error:
        raise InvalidValue("state", f"is not a state of the Loop: {error}") from error
    state.version = WITHOUT_SHARES if state.shares is None else VERSION
    if state.at_hand is not None and state.at_hand.decided:
        # An earlier version kept what a child would refuse now; the child asks again.
        state.at_hand.decided = {
            slot: [each for each in decisions if inbox.fault(each) is None]
            for slot, decisions in state.at_hand.decided.items()
        }
    return state

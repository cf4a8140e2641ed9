"""Governor: decides what of a run is remembered, and what is forgotten again; and one that does."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final, Protocol

import msgspec

from agentic_kernel import InvalidValue, Task

from ..plans.action import ToolCall
from ..plans.context import Context
from ..plans.ending import End
from ..plans.observation import Observation
from ..plans.plan import Plan
from ..plans.reasons import StopReason
from ..plans.transcript import Entry
from .memory import MAX_HITS, MAX_TEXT, Item, Memory, NotCurrent, Query

MAX_PROPOSALS: Final = 16
"""How much a governor may propose at once."""
TRIES: Final = 5
"""How often an item is placed anew because somebody else was faster."""


class Proposal(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a governor wants remembered; the Loop makes an `Item` of it, with id, scope, origin."""

    text: str
    key: str = ""
    """What it is about; see `Item.key`."""


class MemoryGovernor(Protocol):
    """Decides what is remembered, and keeps a memory in order.

    What it proposes is on record with the step, in one write; only then is it brought into memory,
    by `keep`. So nothing is remembered of a step that came to nothing, and nothing forgotten that
    is on record. What a governor raises is recorded, and the run goes on without.
    """

    async def of_step(
        self, context: Context, plan: Plan, observations: Sequence[Observation]
    ) -> Sequence[Proposal]:
        """What to remember of a step that was done, before it is committed.

        At most `MAX_PROPOSALS`, of a step as of an end.

        Args:
            observations: In the order of the plan's actions.
        """
        ...

    async def of_end(self, task: Task, end: End, transcript: Sequence[Entry]) -> Sequence[Proposal]:
        """What to remember of a run that is over, before its Task ends.

        It is not asked about a run that failed by a fault, nor about one that was killed.
        """
        ...

    async def keep(self, memory: Memory, item: Item) -> None:
        """Bring an item into memory, and forget what is too much in its scope.

        It is called again with the same item after a crash or a fault, also when that is in memory
        already; this must come to the same as one call.
        """
        ...


class SessionMemoryGovernor:
    """Remembers what tools gave and what was answered, within bounds, for the rest of a session.

    A newer result of the same call takes the older one's place, as does a newer answer to the same
    instructions. Beyond the bound the oldest items are forgotten.

    Args:
        max_items: How many live items a session has at most.
        max_characters: How long one of them is at most; the rest is cut off.

    Raises:
        InvalidValue: A bound is out of range.
    """

    def __init__(self, max_items: int = 100, max_characters: int = 1_000) -> None:
        for name, bound, most in (
            ("max_items", max_items, MAX_HITS // 2),
            ("max_characters", max_characters, MAX_TEXT),
        ):
            if type(bound) is not int or not 1 <= bound <= most:
                raise InvalidValue(name, f"must be a whole number from 1 to {most:,}")
        self._items = max_items
        self._characters = max_characters

    async def of_step(
        self, context: Context, plan: Plan, observations: Sequence[Observation]
    ) -> Sequence[Proposal]:
        proposals: list[Proposal] = []
        for action, observation in zip(plan.actions, observations, strict=True):
            if isinstance(action, ToolCall) and observation.ok:
                call = f"{action.tool}({_json(action.arguments)})"
                text = f"{call} gave {_text(observation.output)}"
                proposals.append(Proposal(self._cut(text), f"call:{_digest(call)}"))
        return proposals[-MAX_PROPOSALS:]

    async def of_end(self, task: Task, end: End, transcript: Sequence[Entry]) -> Sequence[Proposal]:
        if end.reason is not StopReason.FINAL:
            return ()
        asked = _cut(task.instructions, self._characters // 2)
        text = f"Asked: {asked}\nAnswered: {_text(end.output)}"
        return [Proposal(self._cut(text), f"answer:{_digest(task.instructions)}")]

    async def keep(self, memory: Memory, item: Item) -> None:
        for tries_left in reversed(range(TRIES)):
            try:
                await self._place(memory, item)
                return
            except NotCurrent:  # Another run of the session was faster.
                if not tries_left:
                    raise

    async def _place(self, memory: Memory, item: Item) -> None:
        """Remember an item, in the place of one with the same key if there is one."""
        same: list[str] = []
        rest: list[str] = []
        for hit in islice(await memory.recall(Query(item.scope, limit=MAX_HITS)), MAX_HITS):
            live = hit.item
            about = live.id == item.id or (item.key and live.key == item.key)
            (same if about else rest).append(live.id)
        if item.id not in same:
            placed = memory.supersede(same[0], item) if same else memory.propose(item)
            if not await placed:  # It is known, and not live any more.
                return
        for id in same[1:]:  # Two runs of the session learned it side by side.
            await memory.tombstone(item.scope, id, "something newer is known about the same")
        for id in rest[self._items - 1 :]:
            await memory.tombstone(item.scope, id, f"older than the newest {self._items} items")

    def _cut(self, text: str) -> str:
        return _cut(text, self._characters)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return _encoder.encode(value).decode()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


_encoder = msgspec.json.Encoder(order="sorted")

"""Governor: the port that decides what a memory keeps of a run, and one implementation."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final, Protocol

import msgspec

from agentic_kernel import InvalidValue, Task

from ..plans.action import ToolCall
from ..plans.ending import End
from ..plans.observation import Observation
from ..plans.plan import Plan
from ..plans.reasons import StopReason
from ..plans.transcript import Entry
from .memory import MAX_HITS, MAX_TEXT, Item, Memory, NotCurrent, Query
from .planner import Context

MAX_PROPOSALS: Final = 16
"""The most proposals of one step, or of one end."""
TRIES: Final = 5
"""The most attempts to place an item while other runs of the session are faster."""


class Proposal(msgspec.Struct, frozen=True, omit_defaults=True):
    """A text that a governor wants remembered; the Loop adds id, scope and origin to an `Item`."""

    text: str
    key: str = ""
    """The subject; see `Item.key`."""


class MemoryGovernor(Protocol):
    """Decides what is remembered, and keeps a memory in order.

    Its proposals are on record with the step, in one write. Only after that does `keep` bring them
    into memory. So a step that was never committed leaves nothing in memory, and a crash loses no
    proposal that is on record. If a governor raises, an event says so, and the run goes on without
    that call.
    """

    async def of_step(
        self, context: Context, plan: Plan, observations: Sequence[Observation]
    ) -> Sequence[Proposal]:
        """Decide what to remember of a step that was done; called before the step is committed.

        It returns at most `MAX_PROPOSALS`; so does `of_end`.

        Args:
            observations: In the order of the plan's actions.
        """
        ...

    async def of_end(self, task: Task, end: End, transcript: Sequence[Entry]) -> Sequence[Proposal]:
        """Decide what to remember of a run that is over; called before its Task ends.

        It is not called for a run that failed by a fault, nor for a run that was killed.
        """
        ...

    async def keep(self, memory: Memory, item: Item) -> None:
        """Bring an item into memory, and forget the surplus items of its scope.

        It is called again with the same item after a crash or a fault, even if the item is in
        memory already. Several calls must have the same effect as one.
        """
        ...


class SessionMemoryGovernor:
    """Remembers results of tools and final answers, within bounds, for the rest of a session.

    A newer result of the same call takes the older one's place, and so does a newer answer to the
    same instructions. Beyond the bound, the oldest items are forgotten.

    Args:
        max_items: The most live items of a session.
        max_characters: The most characters of one item; the rest is cut off.

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
                proposals.append(Proposal(_clip(text, self._characters), f"call:{_digest(call)}"))
        return proposals[-MAX_PROPOSALS:]

    async def of_end(self, task: Task, end: End, transcript: Sequence[Entry]) -> Sequence[Proposal]:
        if end.reason is not StopReason.FINAL:
            return ()
        asked = _clip(task.instructions, self._characters // 2)
        text = f"Asked: {asked}\nAnswered: {_text(end.output)}"
        kept = _clip(text, self._characters)
        return [Proposal(kept, f"answer:{_digest(task.instructions)}")]

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
            if not await placed:  # The item is known, and no longer live.
                return
        for id in same[1:]:  # Two runs of the session learned it side by side.
            await memory.tombstone(item.scope, id, "something newer is known about the same")
        for id in rest[self._items - 1 :]:
            await memory.tombstone(item.scope, id, f"older than the newest {self._items} items")


def _clip(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return _encoder.encode(value).decode()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


_encoder = msgspec.json.Encoder(order="sorted")

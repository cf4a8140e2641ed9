"""Governors, each with one mistake that a real author might make."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from uuid import uuid4

import msgspec

from agentic_kernel import Task
from agentic_kernel_engine.loop import Context, Entry, Observation, Plan
from agentic_kernel_engine.plans.ending import End
from agentic_kernel_engine.seams import Item, Memory, Proposal, Query, Scope, SessionMemoryGovernor


class _Ten(SessionMemoryGovernor):
    def __init__(self) -> None:
        super().__init__(10)


class ProposesAll(_Ten):
    """One proposal for each observation, however many there are."""

    async def of_step(
        self, context: Context, plan: Plan, observations: Sequence[Observation]
    ) -> Sequence[Proposal]:
        return [Proposal(f"it gave {each.output!a}"[:500]) for each in observations]


class EmptyAnswers(_Ten):
    """The final answer is proposed as it is, and may be empty."""

    async def of_end(self, task: Task, end: End, transcript: Sequence[Entry]) -> Sequence[Proposal]:
        return [Proposal(end.output)] if isinstance(end.output, str) else []


class OnceOnly(_Ten):
    """It remembers what it has proposed, and does not propose it again after a crash."""

    def __init__(self) -> None:
        super().__init__()
        self.proposed: set[str] = set()

    async def of_step(
        self, context: Context, plan: Plan, observations: Sequence[Observation]
    ) -> Sequence[Proposal]:
        found = await super().of_step(context, plan, observations)
        fresh = [each for each in found if each.text not in self.proposed]
        self.proposed |= {each.text for each in fresh}
        return fresh


class IdsOfItsOwn(_Ten):
    """An item gets a new id each time that it is kept."""

    async def keep(self, memory: Memory, item: Item) -> None:
        await super().keep(memory, msgspec.structs.replace(item, id=uuid4().hex, key=""))


class ForgetsFirst(_Ten):
    """It forgets the item that is to be replaced, and asks only then whether the new one is new."""

    async def keep(self, memory: Memory, item: Item) -> None:
        for hit in await memory.recall(Query(item.scope, limit=100)):
            if hit.item.key == item.key != "":
                await memory.tombstone(item.scope, hit.item.id, "replaced")
        await memory.propose(item)


class StopsIfKnown(_Ten):
    """An item that is known is done with, so a crash leaves the older one beside it."""

    async def keep(self, memory: Memory, item: Item) -> None:
        older = [
            hit.item.id
            for hit in await memory.recall(Query(item.scope, limit=100))
            if item.key and hit.item.key == item.key and hit.item.id != item.id
        ]
        if not await memory.propose(item):
            return
        for id in older:
            await memory.tombstone(item.scope, id, "replaced")


class NeverFails(_Ten):
    """Memory is not vital, so its failures are swallowed."""

    async def keep(self, memory: Memory, item: Item) -> None:
        with suppress(Exception):
            await super().keep(memory, item)


class OneUser(_Ten):
    """Items are kept for the person, whatever the session."""

    async def keep(self, memory: Memory, item: Item) -> None:
        scope = Scope(item.scope.tenant, item.scope.principal, "tuesday")
        await super().keep(memory, msgspec.structs.replace(item, scope=scope))


class KeepsLater(_Ten):
    """The item is written in the background, so that the step does not wait."""

    async def keep(self, memory: Memory, item: Item) -> None:
        self.writing = asyncio.ensure_future(super().keep(memory, item))


class TriesOnce(_Ten):
    """It finds out which item to replace, and does not expect another run to be faster."""

    async def keep(self, memory: Memory, item: Item) -> None:
        await self._place(memory, item)


class ReadsTheText(_Ten):
    """The outputs are joined as if they all were texts."""

    async def of_step(
        self, context: Context, plan: Plan, observations: Sequence[Observation]
    ) -> Sequence[Proposal]:
        text = " ".join(each.output for each in observations if each.ok)
        return [Proposal(text[:1_000])] if text.strip() else []


class NotesInTheContext(_Ten):
    """What was proposed is noted among the variables of the run."""

    async def of_step(
        self, context: Context, plan: Plan, observations: Sequence[Observation]
    ) -> Sequence[Proposal]:
        found = await super().of_step(context, plan, observations)
        context.variables["proposed"] = len(found)
        return found


class OneStep(_Ten):
    """It keeps the step that it works on, for one call at a time."""

    async def of_step(
        self, context: Context, plan: Plan, observations: Sequence[Observation]
    ) -> Sequence[Proposal]:
        self.step: Any = context, plan, observations
        await asyncio.sleep(0)
        return await super().of_step(*self.step)


class CountsInTheProcess(_Ten):
    """The oldest are forgotten by a list of what this process kept."""

    def __init__(self) -> None:
        super().__init__()
        self.own: list[str] = []

    async def keep(self, memory: Memory, item: Item) -> None:
        if await memory.propose(item):
            self.own.append(item.id)
        while len(self.own) > 10:
            await memory.tombstone(item.scope, self.own.pop(0), "too old")

"""Delegations, each with one mistake that a real author might make."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from agentic_kernel import CannotStart, Task, TaskExists, TaskStatus
from agentic_kernel_engine import Host, Job
from agentic_kernel_engine.seams import DelegationRefused, OnRuntime
from agentic_kernel_engine.waiting import asked


class Elsewhere(OnRuntime):
    """Children on another Host."""

    def __init__(self, host: Host) -> None:
        super().__init__(host, runtime_kind="there")
        self.host = host


class CountsChildren(Elsewhere):
    """A parent may have two children, as long as this process remembers them."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.children: dict[str, set[str]] = {}

    def admit(self, parent: Task, child: Task) -> Task:
        known = self.children.setdefault(parent.id, set())
        known.add(child.id)
        if len(known) > 2:
            raise DelegationRefused(f"{parent.id} has two children already")
        return super().admit(parent, child)


class NamesChildren(Elsewhere):
    """A child is called after its parent."""

    def admit(self, parent: Task, child: Task) -> Task:
        return replace(super().admit(parent, child), id=f"{parent.id}/{child.id}")


class OwnMetadata(Elsewhere):
    """A child has the metadata that it needs there, in place of what it came with."""

    def admit(self, parent: Task, child: Task) -> Task:
        admitted = super().admit(parent, child)
        kept = {"engine/parent": parent.id, "acme/for": parent.agent_name or ""}
        return replace(admitted, metadata=kept)


class RefusesByValue(Elsewhere):
    """What may not be is a ValueError, as it always is in this house."""

    def admit(self, parent: Task, child: Task) -> Task:
        try:
            return super().admit(parent, child)
        except DelegationRefused as refusal:
            raise ValueError(refusal.reason) from refusal


class RemembersStarts(Elsewhere):
    """Which children it started is known to this process alone."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.known: set[str] = set()

    async def spawn(self, job: Job, child: Task) -> None:
        if child.id not in self.known:
            await self.host.spawn(child, job.task.id)
            self.known.add(child.id)


class TakesAnyTask(Elsewhere):
    """Whatever has the id already is taken for the child."""

    async def spawn(self, job: Job, child: Task) -> None:
        with suppress(TaskExists):
            await self.host.spawn(child, job.task.id)


class StartsSilently(Elsewhere):
    """That a child could not be started shows when somebody waits for it."""

    async def spawn(self, job: Job, child: Task) -> None:
        with suppress(CannotStart):
            await super().spawn(job, child)


class ForAnybody(Elsewhere):
    """Whose child it is does not matter to who waits for it."""

    async def _own(self, job: Job, child: str) -> Task:
        return await self.host.get(child)


class LeavesOrphans(Elsewhere):
    """A parent that is killed waits no longer, and that is all."""

    async def join(self, job: Job, child: str) -> Task:
        while True:
            task = await self._own(job, child)
            if task.status.terminal or asked(task) is not None:
                return task
            await asyncio.sleep(0.01)


class CancelsTheRunning(Elsewhere):
    """That a child has ended meanwhile is a mistake of who cancels it."""

    async def cancel(self, job: Job, child: str) -> None:
        task = await self._own(job, child)
        if task.status.terminal:
            raise RuntimeError(f"{child} is {task.status} and cannot be cancelled")
        await super().cancel(job, child)


class AnyPause(Elsewhere):
    """A child that is paused has something to say."""

    async def join(self, job: Job, child: str) -> Task:
        await self._own(job, child)
        return await self.host.wait(child, TaskStatus.PAUSED)


class OnlyTheEnd(Elsewhere):
    """A child is waited for until it has ended, whatever it asks."""

    async def join(self, job: Job, child: str) -> Task:
        await self._own(job, child)
        return await self.host.wait(child)


class KillsWhenCancelled(Elsewhere):
    """Whoever waits no longer needs the child no longer."""

    async def join(self, job: Job, child: str) -> Task:
        try:
            return await super().join(job, child)
        except asyncio.CancelledError:
            await self.host.kill(child)
            raise


class OneChild(Elsewhere):
    """It keeps the child that it waits for, for one at a time."""

    async def join(self, job: Job, child: str) -> Task:
        self.child = child
        await super().join(job, child)
        return await self.host.get(self.child)


class WaitsOn(Elsewhere):
    """A task waits for the child, and goes on when nobody wants to know any more."""

    async def join(self, job: Job, child: str) -> Task:
        waiting = asyncio.ensure_future(super().join(job, child))
        return await asyncio.shield(waiting)


class OneByOne(Elsewhere):
    """Each decision lets the child go on."""

    async def tell(self, job: Job, child: str, decisions: Sequence[Mapping[str, Any]]) -> None:
        if not (await self._own(job, child)).status.terminal:
            for decision in decisions:
                await self.host.decide(child, decision)


class TheFirstOnly(Elsewhere):
    """One decision is all that a child waits for."""

    async def tell(self, job: Job, child: str, decisions: Sequence[Mapping[str, Any]]) -> None:
        await super().tell(job, child, decisions[:1])


class LeavesIt(Elsewhere):
    """What was decided is in the inbox, where the child will find it when it goes on."""

    async def tell(self, job: Job, child: str, decisions: Sequence[Mapping[str, Any]]) -> None:
        if not (await self._own(job, child)).status.terminal:
            for decision in decisions:
                await self.host.post(child, decision)


class TellsTheEnded(Elsewhere):
    """That a child may have ended meanwhile does not occur to it."""

    async def tell(self, job: Job, child: str, decisions: Sequence[Mapping[str, Any]]) -> None:
        await self._own(job, child)
        *others, last = decisions
        for decision in others:
            await self.host.post(child, decision)
        await self.host.decide(child, last)


class MarksFirst(Elsewhere):
    """A child counts as started as soon as its start has begun."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.begun: set[str] = set()

    async def spawn(self, job: Job, child: Task) -> None:
        if child.id in self.begun:
            return
        self.begun.add(child.id)
        await asyncio.sleep(0)
        await super().spawn(job, child)


class ForgetsTheUnjoined(Elsewhere):
    """It says that it ends the children of a killed parent, and asks them to pause."""

    async def on_killed(self, parent: Task, child: str) -> None:
        await self.host.pause(child)


class KillsAll(Elsewhere):
    """When a parent is killed, everything that runs at the children's home is."""

    async def on_killed(self, parent: Task, child: str) -> None:
        for task in await self.host.find():
            await self.host.kill(task.id)

"""Take-over: run the Tasks that no living Host runs, and wake paused Tasks that are due."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from agentic_kernel import CannotStart, TaskStatus

from .. import events as host_events
from ..errors import UnknownOutcome
from ..events import Event
from ..readback import read_back
from ..receipt import Receipt
from ..record import Record, acquired_at, host_of, owner_name
from .change import Decided, successor
from .complaints import remember
from .family import Family
from .in_flight import answered
from .live_runs import LiveRuns

_PAGE = 200
_FIRST = 0.1
"""Seconds that a Host waits before the second attempt."""
_LONGEST = 30.0
"""Seconds that it waits at most."""


class TakeOver:
    """Claims, recovers and wakes Tasks that this Host did not dispatch.

    Every method raises `StoreError` if the store fails.
    """

    def __init__(self, live: LiveRuns, family: Family) -> None:
        self._parts = live.parts
        self._store = live.parts.store
        self._news = live.news
        self._live = live
        self._family = family
        self._searched: str | None = None
        """The last Task that a patient `recover` has met; None for the beginning."""
        self._due: str | None = None
        """The last due Task that `wake` has met; None for the beginning."""
        self._looked: str | None = None
        """The last Task that `look_again` has looked at."""
        self.backoff = Backoff(live.parts.clock)

    async def claim(self, task_id: str) -> Receipt:
        """Take up a running Task that no living Host owns, and run it here.

        Raises:
            CannotStart: This Host does not serve the Task's kind, has no free slot, or may not take
                the Task: it does not act for its principal, or cannot read its state.
        """
        record = await self._store.load(task_id)
        if not self._live.serves(record.task.runtime_kind):
            raise self._live.not_served(record.task)
        if record.task.status is not TaskStatus.RUNNING:
            return Receipt(record.task, False, record.version)
        principal = await self._live.admission.admit(record)
        with self._live.arrival_in_slot(task_id, record.parent) as arrival:
            arrival.principal = principal
            claimed = await self._claim(task_id)
            if claimed is None:
                record = await self._store.load(task_id)
                return Receipt(record.task, False, record.version)
            await self._family.enter(claimed, arrival)
        return Receipt(claimed.task, False, claimed.version, "claimed")

    async def _claim(self, task_id: str) -> Record | None:
        by = {"by": self._parts.name}
        made = host_events.by_act(
            host_events.TASK_CLAIMED, by, next(self._parts.acts), self._parts.clock()
        )
        try:
            claimed = await answered(self._store.claim(task_id, self._parts.name, [made]))
        except UnknownOutcome:
            claimed = await self._claimed_after_all(task_id, made)
        if claimed is not None:
            self._news.published(claimed, [made])
        return claimed

    async def _claimed_after_all(self, task_id: str, text: bytes) -> Record | None:
        """The record if the claim that wrote this event has landed (R5); else None."""
        current = await read_back(self._store, task_id)
        if current is None or current.owner is None or host_of(current.owner) != self._parts.name:
            return None
        version = acquired_at(current.owner)
        found = await self._store.events(task_id, (version, -1), limit=1)
        return current if found and found[0] == ((version, 0), text) else None

    async def recover(self, *, patient: bool = False) -> list[str]:
        """Take up every claimable Task of the kinds served, as long as there are free slots.

        Args:
            patient: True to skip Tasks whose back-off has not passed. The search then stops after a
                page from which this Host took no Task; the next call continues there.
        """
        taken: list[str] = []
        after = self._searched if patient else None
        while self._live.can_run and self._live.slots.free:
            page = await self._store.find(
                claimable=True, kinds=self._live.kinds, realms=self._live.admission.realms,
                after=after, limit=_PAGE,
            )  # fmt: skip
            before = len(taken)

            async def take(record: Record) -> None:
                if patient and not self.backoff.over(record):
                    return
                if (await self.claim(record.task.id)).effect == "claimed":
                    taken.append(record.task.id)

            await self._each(page, take, patient=patient)
            after = page[-1].task.id if len(page) == _PAGE else None
            self._searched = after
            if after is None or (patient and len(taken) == before):
                break  # A page of Tasks that are not for this Host: look further next time.
        return taken

    async def _each(
        self,
        page: Sequence[Record],
        act: Callable[[Record], Awaitable[None]],
        *,
        patient: bool,
        in_parents_slot: bool = False,
    ) -> None:
        """Act on every record of a page while there is a free slot, each principal's on their own.

        So a resolver that is slow for one principal does not delay other principals, and a refused
        principal is asked for once.

        Args:
            in_parents_slot: True if each Task uses the slot of its parent's run here, so that it
                needs no free slot.
        """
        admission = self._live.admission

        async def each(who: tuple[str, str], records: Sequence[Record]) -> None:
            if patient and admission.refused_lately(who):
                return
            for record in records:
                if not (in_parents_slot or self._live.slots.free):
                    return
                with self._parts.complaints.sparing(record.task.id, record.version):
                    await act(record)
                if admission.refused_lately(who):
                    return

        groups: dict[tuple[str, str], list[Record]] = {}
        for record in page:
            groups.setdefault(admission.whose(record), []).append(record)
        await asyncio.gather(*(each(who, records) for who, records in groups.items()))

    async def adopt(self) -> None:
        """Take up and wake the children of the runs that are here, in the slots of those runs (R9).

        Otherwise a parent that holds the last slot and waits for its child would wait for ever.
        """
        for run in [run for run in self._live.current.values() if run.delegates]:
            page = await self._store.find(
                parent=run.task_id, claimable=True, kinds=self._live.kinds, limit=_PAGE
            )
            for record in page:
                if not self.backoff.over(record):
                    continue
                with self._parts.complaints.sparing(record.task.id, record.version):
                    await self.claim(record.task.id)
            await self._wake(in_parents_slot=True, parent=run.task_id)

    async def wake(self) -> None:
        """Resume the paused Tasks of the kinds served that are due, while slots are free."""
        while self._live.slots.free:
            page, woken = await self._wake(after=self._due)
            self._due = page[-1].task.id if len(page) == _PAGE else None
            if self._due is None or not woken:
                return

    async def _wake(
        self, *, in_parents_slot: bool = False, **which: Any
    ) -> tuple[Sequence[Record], int]:
        """Resume the Tasks of one page of those that are due, if this Host may take them.

        Args:
            in_parents_slot: As for `_each`.

        Returns:
            The page, and the number of Tasks that went on.
        """
        page = await self._store.find(
            status=TaskStatus.PAUSED,
            due=self._parts.clock(),
            kinds=self._live.kinds,
            realms=self._live.admission.realms,
            limit=_PAGE,
            **which,
        )
        woken = 0

        async def wake(record: Record) -> None:
            nonlocal woken
            await self._live.admission.admit(record)
            receipt = await self._family.resume(record.task.id, None, record.version)
            woken += receipt.changed

        await self._each(page, wake, patient=True, in_parents_slot=in_parents_slot)
        return page, woken

    async def look_again(self) -> None:
        """Look at one page of the paused Tasks of the kinds served; see `Family.look_again`."""
        page = await self._store.find(
            status=TaskStatus.PAUSED, kinds=self._live.kinds, realms=self._live.admission.realms,
            after=self._looked, limit=_PAGE,
        )  # fmt: skip
        self._looked = page[-1].task.id if len(page) == _PAGE else None
        await self._family.look_again(page)

    async def restart(self, record: Record) -> None:
        """Run a Task that this Host owns and does not run, as a new attempt (R21).

        The run may have ended since the record was read. So the record is read again: the second
        read shows that end.
        """
        if self._live.knows(record):
            return
        latest = await self._store.load(record.task.id)
        if latest.owner != record.owner or self._live.knows(latest) or self._news.closed:
            return
        if not self.backoff.over(latest):
            return
        task_id = record.task.id
        try:
            principal = await self._live.admission.admit(latest)
        except CannotStart:
            # This Host may not act for the principal any more. While it lives, no other Host can
            # claim the Task, so it lets the Task go.
            await self._live.leave(task_id, latest.owner)
            return
        with self._live.arrival_in_slot(task_id, latest.parent) as arrival:
            arrival.principal = principal
            acquired = await self._acquire_anew(latest)
            if acquired is not None:
                await self._family.enter(acquired, arrival)

    async def _acquire_anew(self, owned: Record) -> Record | None:
        """The record under a new owner of this Host; None if its owner has changed."""

        async def decide(before: Record) -> Decided:
            if before.owner != owned.owner:
                return None
            owner = owner_name(self._parts.name, before.version + 1)
            after = successor(before, owner=owner, attempts=before.attempts + 1)
            return after, [Event(host_events.TASK_CLAIMED, {"by": self._parts.name})]

        return await self._live.change(owned.task.id, decide)


class Backoff:
    """The delay before a Host runs a Task again whose runs died (R21).

    The second attempt comes 0.1 seconds after this Host first saw the Task without a run. The delay
    doubles with each further attempt, to at most 30 seconds. It needs no field of the record.

    Args:
        clock: Returns the time.
    """

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[tuple[str | None, int], datetime]] = {}
        """By Task: its owner and attempts, and the moment at which they were first seen. The delay
        of a forgotten Task begins again."""
        self._next: datetime | None = None

    def over(self, record: Record) -> bool:
        """True if the Task may be run now."""
        if not record.attempts:
            return True
        task_id, now = record.task.id, self._clock()
        state = record.owner, record.attempts
        known, since = self._seen.get(task_id, (None, now))
        if known != state or since > now:  # The clock may have been set back.
            since = now
            remember(self._seen, task_id, (state, since))
        until = since + timedelta(seconds=min(_LONGEST, _FIRST * 2 ** min(record.attempts - 1, 20)))
        if now >= until:
            self._seen.pop(task_id, None)
            return True
        self._next = until if self._next is None else min(self._next, until)
        return False

    def rings(self) -> bool:
        """True once after the earliest delay that `over` reported has passed."""
        if self._next is None or self._clock() < self._next:
            return False
        self._next = None
        return True

"""Take-over: running what nobody runs, and waking what its moment has come for."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from agentic_kernel import CannotStart, IllegalTransition, TaskNotFound, TaskStatus

from . import events as vocabulary
from .errors import UnknownOutcome
from .hub import Hub
from .mutators import by_act, read_back
from .receipt import Receipt
from .record import Record, acquired_at, host_of
from .runs import Runs

if TYPE_CHECKING:
    from .control import Control

_PAGE = 100


class TakeOver:
    """How a Host comes to run Tasks that it did not dispatch.

    Every method raises `StoreError` if the store fails.
    """

    def __init__(
        self, hub: Hub, runs: Runs, control: Control, kinds: frozenset[str] | None
    ) -> None:
        self._hub = hub
        self._store = hub.store
        self._runs = runs
        self._control = control
        self._kinds = kinds
        self._looked: str | None = None
        """How far `look_again` has come."""

    async def claim(self, task_id: str) -> Receipt:
        """Take up a running Task that no living host owns, and run it here.

        Raises:
            CannotStart: This host does not serve its kind, or has no free slot.
        """
        record = await self._store.load(task_id)
        if not self._control.serves(record.task.runtime_kind):
            raise CannotStart(
                f"this Host does not run Tasks of kind {record.task.runtime_kind!r}", task_id
            )
        in_slot = self._take_slot(record)
        with self._runs.arriving(task_id):
            try:
                claimed = await self._claim(task_id)
            except BaseException:
                self._give_back(in_slot)
                raise
            if claimed is None:
                self._give_back(in_slot)
                return _unchanged(await self._store.load(task_id))
            await self._runs.enter(claimed, in_slot=in_slot)
        return Receipt(claimed.task, False, claimed.version, "claimed")

    def _take_slot(self, record: Record) -> bool:
        """Take a slot for a Task, unless it uses its parent's (R9); whether one was taken.

        Raises:
            CannotStart: There is none.
        """
        if self._control.family.houses(record.parent):
            return False
        self._runs.slots.take(record.task.id)
        return True

    def _give_back(self, in_slot: bool) -> None:
        if in_slot:
            self._runs.slots.give_back()

    async def _claim(self, task_id: str) -> Record | None:
        by = {"by": self._hub.name}
        made = by_act(vocabulary.TASK_CLAIMED, by, next(self._hub.acts), self._hub.clock())
        try:
            claimed = await self._store.claim(task_id, self._hub.name, [made])
        except UnknownOutcome:
            claimed = await self._claimed_after_all(task_id, made)
        if claimed is not None:
            self._hub.published(claimed, [made])
        return claimed

    async def _claimed_after_all(self, task_id: str, text: bytes) -> Record | None:
        """The record, if it is this host's by the very claim that wrote this event (R5)."""
        current = await read_back(self._store, task_id)
        if current is None or current.owner is None or host_of(current.owner) != self._hub.name:
            return None
        version = acquired_at(current.owner)
        found = await self._store.events(task_id, (version, -1), limit=1)
        return current if found and found[0] == ((version, 0), text) else None

    async def recover(self) -> list[str]:
        """Take up every claimable Task of the kinds served, as long as there are free slots."""
        taken: list[str] = []
        after: str | None = None
        while self._runs.can_run and self._runs.slots.free:
            page = await self._store.find(
                claimable=True, kinds=self._kinds, after=after, limit=_PAGE
            )
            for record in page:
                if not self._runs.slots.free:
                    break
                try:
                    receipt = await self.claim(record.task.id)
                except TaskNotFound:
                    continue
                except CannotStart:  # the last slot went to somebody else meanwhile
                    return taken
                if receipt.effect == "claimed":
                    taken.append(record.task.id)
            if len(page) < _PAGE:
                break
            after = page[-1].task.id
        return taken

    async def adopt(self) -> None:
        """Take up claimable children of the runs that are here, and wake them, in their slots (R9).

        A parent that holds the last slot and waits for its child would else wait for ever.
        """
        for run in [run for run in self._runs.current.values() if run.delegates]:
            page = await self._store.find(
                parent=run.task_id, claimable=True, kinds=self._kinds, limit=_PAGE
            )
            for record in page:
                try:
                    await self.claim(record.task.id)
                except (CannotStart, TaskNotFound):  # the parent, or the child, is gone meanwhile
                    continue
            await self._wake(parent=run.task_id)

    async def wake(self) -> None:
        """Resume the paused Tasks of the kinds served whose moment has come, as slots are free."""
        after: str | None = None
        while self._runs.slots.free:
            page = await self._wake(after=after)
            if len(page) < _PAGE:
                return
            after = page[-1].task.id

    async def _wake(self, **which: Any) -> Sequence[Record]:
        """Resume one page of them."""
        page = await self._store.find(
            status=TaskStatus.PAUSED, due=self._hub.clock(), kinds=self._kinds, limit=_PAGE, **which
        )
        for record in page:
            with suppress(TaskNotFound, IllegalTransition):
                await self._control.resume(record.task.id, None, record.version)
        return page

    async def look_again(self) -> None:
        """Look at one page of the paused Tasks of the kinds served; see `Family.look_again`."""
        page = await self._store.find(
            status=TaskStatus.PAUSED, kinds=self._kinds, after=self._looked, limit=_PAGE
        )
        self._looked = page[-1].task.id if len(page) == _PAGE else None
        await self._control.family.look_again(page)

    async def restart(self, record: Record) -> None:
        """Run what this host owns and does not run.

        A run that has ended since the record was read leaves nobody here who knows it. So what
        nobody knows is read once more: from then on the store tells of that end.
        """
        if self._runs.knows(record):
            return
        with suppress(CannotStart, TaskNotFound):
            latest = await self._store.load(record.task.id)
            if latest.owner != record.owner or self._runs.knows(latest) or self._hub.closed:
                return
            await self._runs.enter(latest, in_slot=self._take_slot(latest))


def _unchanged(record: Record) -> Receipt:
    return Receipt(record.task, False, record.version)

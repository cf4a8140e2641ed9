"""Tests of a store on a disk that fails, and on one that is slow."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import pytest

from agentic_kernel import KernelError, TaskNotFound
from agentic_kernel_engine import Record, Store, UnknownOutcome

from .disk import Disk
from .records import after, running
from .rules import broken, expect, in_time
from .storage import Reopen, StoreSuite

_MOST = 100
"""The most operations of one write."""
_READS = 20
_KINDS = ("insert", "commit", "claim")


class StoreDisks(StoreSuite):
    """R5 (settled writes), durability and C4 (readers do not wait), on disks that are not well."""

    @pytest.mark.feature("failable")
    @pytest.mark.rule("R5")
    @pytest.mark.parametrize("kind", _KINDS)
    @pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
    async def test_a_write_on_a_failing_disk_tells_what_it_knows(
        self, store: Store, disk: Disk, kind: str, number: int
    ) -> None:
        """From each operation on: a typed error, nothing torn; afterwards the handle goes on."""
        await store.join("host-b")
        for at in range(1, _MOST):
            task_id = f"task {at:03}"
            before, write = await _write(store, kind, task_id)
            outcome: BaseException | None = None
            with disk.failing(at, number):
                try:
                    await write()
                except KernelError as error:
                    outcome = error
                except OSError as error:
                    raise broken(
                        "R5",
                        f"operation {at} of a {kind} failed, and the caller got {error!r:.200}, "
                        "which is no KernelError; raise StoreError from it",
                    ) from error
                reached = disk.count >= at
            expect(at > 1 or reached, "kit", f"`disk` was asked nothing by a {kind}")
            async with in_time("R5", self.patience * 3, "reads and a write after a failed write"):
                told = await _told(store, task_id, before, outcome, f"operation {at} of a {kind}")
                if told:
                    latest = await store.load(task_id)
                    await store.commit(latest, after(latest, state=b'"on"'), [b"3"])
            if not reached:
                return
        raise broken("kit", f"one {kind} needs more than {_MOST} operations")

    @pytest.mark.feature("failable")
    @pytest.mark.feature("durable")
    @pytest.mark.rule("durable")
    async def test_no_acknowledged_write_was_left_on_a_failing_disk(
        self, store: Store, disk: Disk, reopen: Reopen
    ) -> None:
        """Opened again, the store has what each write was told, and no more."""
        told: dict[str, tuple[int, BaseException | None]] = {}
        for at in range(1, _MOST):
            before, write = await _write(store, "commit", f"task {at:03}")
            outcome: BaseException | None = None
            with disk.failing(at):
                try:
                    await write()
                except (KernelError, OSError) as error:  # The other test looks at the type.
                    outcome = error
                reached = disk.count >= at
            told[f"task {at:03}"] = (before, outcome)
            if not reached:
                break
        opened = await reopen(store)
        for task_id, (before, outcome) in told.items():
            await _told(opened, task_id, before, outcome, f"before {task_id}", "durable")

    @pytest.mark.feature("failable")
    @pytest.mark.rule("C4")
    async def test_a_slow_disk_holds_no_reader_and_no_event_loop(
        self, store: Store, disk: Disk
    ) -> None:
        """Each operation of a commit waits in turn: other Tasks are read meanwhile."""
        await store.insert(running("read"), [b"1"])
        for at in range(1, _MOST):
            _, write = await _write(store, "commit", f"task {at:03}")
            with disk.waiting(at) as waits:
                going = asyncio.ensure_future(write())
                noticing = asyncio.ensure_future(asyncio.to_thread(waits.wait))
                try:
                    async with in_time("C4", self.patience * 3, f"reads, operation {at} waits"):
                        await asyncio.wait({going, noticing}, return_when="FIRST_COMPLETED")
                        reached = waits.is_set()
                        for _ in range(_READS):
                            await store.load("read")
                        await store.find(limit=5)
                except BaseException:
                    going.cancel()
                    raise
            await asyncio.gather(going, noticing)
            expect(
                not disk.on_loop, "C4",
                f"operation {at} of a commit, {disk.on_loop}, runs in the thread of the event "
                "loop, where a slow disk holds every other Task; run it in another thread",
            )  # fmt: skip
            if not reached:
                expect(at > 1, "kit", "`disk` was asked nothing by a commit")
                return
            loaded = await store.load(f"task {at:03}")
            expect(loaded.version == 2, "C4", f"version {loaded.version} after a slow commit")
        raise broken("kit", f"one commit needs more than {_MOST} operations")


async def _write(
    store: Store, kind: str, task_id: str
) -> tuple[int, Callable[[], Awaitable[object]]]:
    """The version before a write, 0 for none, and the write."""
    record = running(task_id)
    if kind == "insert":
        return 0, partial(store.insert, record, [b"1"])
    await store.insert(record, [b"1"])
    if kind == "claim":
        return 1, partial(store.claim, task_id, "host-b", [b"2"])
    return 1, partial(store.commit, record, after(record, state=b'"new"'), [b"2"])


async def _told(
    store: Store,
    task_id: str,
    before: int,
    outcome: BaseException | None,
    what: str,
    rule: str = "R5",
) -> bool:
    """True if the Task is stored; raise if it is not as the writer was told."""
    record: Record | None = None
    with suppress(TaskNotFound):
        record = await store.load(task_id)
    version = 0 if record is None else record.version
    events = 0 if record is None else len(await store.events(task_id))
    expect(events == version, rule, f"{what} failed: version {version} has {events} events")
    expect(version in (before, before + 1), rule, f"{what} failed: {before}, then {version}")
    landed = version > before
    if outcome is None:
        expect(landed, rule, f"{what} failed, the write was acknowledged, and is not stored")
    elif not isinstance(outcome, UnknownOutcome):
        expect(not landed, rule, f"{what} failed, it is stored, and the writer got {outcome!r:.99}")
    return record is not None

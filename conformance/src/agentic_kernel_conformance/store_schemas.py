"""Tests of a store whose storage another version of its code wrote."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

import pytest

from agentic_kernel import KernelError
from agentic_kernel_engine import Record, Store

from .records import after, expect_same, running
from .rules import broken, expect
from .storage import Newer, Older, Reopen, StoreSuite

_REMEDY = ("newer", "upgrade", "version")
"""Words of a message that says what is wrong, or what to do."""


class StoreSchemas(StoreSuite):
    """An older schema is read and written on; a newer one is refused, and left as it is."""

    @pytest.mark.feature("reads_older")
    @pytest.mark.feature("durable")
    @pytest.mark.rule("durable")
    async def test_what_an_older_version_wrote_is_read_and_written_on(
        self, older: Older, reopen: Reopen
    ) -> None:
        """Every record as it was; then a commit and an insert, which are there when reopened."""
        store, known = await older()
        expect(len(known) > 1, "kit", f"`older` gave {len(known)} records; give two or more")
        moving = next((each for each in known if not each.task.status.terminal), None)
        if moving is None:
            raise broken("kit", "every record that `older` gave has ended; give one that goes on")
        await _has(store, known)
        moved, added = after(moving, state=b'"on"'), running("added by this version")
        await store.commit(moving, moved, [b"2"])
        await store.insert(added, [b"1"])
        now = [*(each for each in known if each is not moving), moved, added]
        await _has(store, now)
        await _has(await reopen(store), now)

    @pytest.mark.feature("refuses_newer")
    @pytest.mark.rule("durable")
    async def test_what_a_newer_version_wrote_is_refused_and_left_as_it_is(
        self, store: Store, newer: Newer
    ) -> None:
        """A typed error that says why, for reads and writes; and they change nothing."""
        known = [running(f"task {number}") for number in range(3)]
        for record in known:
            await store.insert(record, [b"1"])
        async with newer(store) as opened:
            for what in ("load", "find", "insert", "commit"):
                try:
                    await _called(await opened(), what, known[0])
                except KernelError as error:
                    said = str(error)
                    expect(
                        any(word in said.lower() for word in _REMEDY), "durable",
                        f"the error of a {what} says neither that a newer version wrote it nor to "
                        f"upgrade: {said!r:.300}",
                    )  # fmt: skip
                else:
                    raise broken("durable", f"a {what} went on what a newer version wrote")
        await _has_still(opened, known)


async def _called(store: Store, what: str, record: Record) -> None:
    if what == "load":
        await store.load(record.task.id)
    elif what == "find":
        await store.find(limit=5)
    elif what == "insert":
        await store.insert(running("late"), [b"1"])
    else:
        await store.commit(record, after(record, state=b'"late"'), [b"2"])


async def _has(store: Store, known: Iterable[Record]) -> None:
    """The store has these records, and no other."""
    wanted = {record.task.id: record for record in known}
    found = {record.task.id for record in await store.find(limit=1_000)}
    missing, more = sorted(wanted.keys() - found), sorted(found - wanted.keys())
    expect(not missing and not more, "durable", f"{missing} are missing, and {more} were not there")
    for task_id, record in wanted.items():
        expect_same("durable", await store.load(task_id), record)


async def _has_still(opened: Callable[[], Awaitable[Store]], known: Iterable[Record]) -> None:
    """The place can be opened again, and has these records, and no other."""
    try:
        await _has(await opened(), known)
    except KernelError as error:
        raise broken("durable", f"what was stored cannot be read any more: {error}") from error

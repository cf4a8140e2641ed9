"""Tests of a connection that is cut around a commit: no write may claim what it does not know."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import pytest

from agentic_kernel import KernelError, TaskNotFound
from agentic_kernel_engine import Record, Store, UnknownOutcome

from .records import after, running
from .rules import expect, in_time
from .storage import Cut, StoreSuite


class StoreCuts(StoreSuite):
    """R5 (settled writes): a write that may have landed says `UnknownOutcome`, or reads it back."""

    @pytest.mark.feature("cuttable")
    @pytest.mark.rule("R5")
    @pytest.mark.parametrize("kind", ["insert", "commit", "claim"])
    @pytest.mark.parametrize("where", ["before", "after"])
    async def test_a_write_whose_connection_is_cut_tells_what_it_knows(
        self, store: Store, cut: Cut, kind: str, where: str
    ) -> None:
        """Any error but `UnknownOutcome` says that nothing is stored, and an answer that all is."""
        await store.join("host-b")
        record = running("cut")
        if kind != "insert":
            await store.insert(record, [b"1"])
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "insert": partial(store.insert, record, [b"1"]),
            "commit": partial(store.commit, record, after(record, state=b'"cut"'), [b"2"]),
            "claim": partial(store.claim, "cut", "host-b", [b"2"]),
        }
        wanted = 1 if kind == "insert" else 2
        outcome: BaseException | None = None
        async with in_time("R5", self.patience * 3, f"a {kind} that is cut {where} it lands"):
            async with cut(where):
                try:
                    await calls[kind]()
                except KernelError as error:
                    outcome = error
            version, events = await _stored(store)
        landed = version == wanted
        expect(version in (wanted, wanted - 1), "R5", f"version {version} after a cut {kind}")
        expect(events == version, "R5", f"a torn {kind}: version {version}, {events} events")
        if where == "after":
            expect(landed, "kit", f"`cut('after')` cut the {kind} before it landed")
        if landed:
            known = outcome is None or isinstance(outcome, UnknownOutcome)
            expect(known, "R5", f"the {kind} landed, and the caller was told {outcome!r:.200}")
        else:
            expect(outcome is not None, "R5", f"the {kind} did not land, and no error was raised")

    @pytest.mark.feature("cuttable")
    @pytest.mark.rule("R5")
    @pytest.mark.parametrize("where", ["before", "after"])
    async def test_after_a_cut_the_same_handle_goes_on(
        self, store: Store, cut: Cut, where: str
    ) -> None:
        """The next write lands, on whatever the cut one left."""
        record = running("cut")
        await store.insert(record, [b"1"])
        async with cut(where):
            with suppress(KernelError):  # The other test looks at it.
                await store.commit(record, after(record, state=b'"cut"'), [b"2"])
        async with in_time("R5", self.patience * 3, "a write after a cut"):
            latest = await store.load("cut")
            await store.commit(latest, after(latest, state=b'"on"'), [b"3"])
            version, events = await _stored(store)
        expect(version == latest.version + 1, "R5", f"version {version} after {latest.version}")
        expect(events == version, "R5", f"version {version} has {events} events")


async def _stored(store: Store) -> tuple[int, int]:
    """The version of the Task, 0 if it is not stored, and the number of its events."""
    try:
        record: Record = await store.load("cut")
    except TaskNotFound:
        return 0, 0
    return record.version, len(await store.events("cut"))

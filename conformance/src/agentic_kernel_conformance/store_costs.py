"""Tests of what a store writes, reads and syncs: counts that the adapter's hooks supply."""

from __future__ import annotations

import pytest

from agentic_kernel_engine import Store

from .operations import Operations
from .records import after, running
from .rules import expect
from .storage import Count, StoreSuite

_INPUT = 400_000
"""The bytes of what is given once: a commit does not write them again."""
_STATE = 200
_SMALL = 32_768
"""More bytes than a commit of a small step may write, whatever pages and logs add."""
_STEPS = 200
_LENGTHS = 7
_FEW, _MANY = 20, 400
_LOOKED = 16
"""Records beyond the asked one that one `changed` may look at."""


class StoreCosts(StoreSuite):
    """R16 (small steps), R8 (noticing) and durability, by counts and not by seconds."""

    @pytest.mark.feature("weighed")
    @pytest.mark.rule("R16")
    async def test_a_commit_writes_its_step_and_not_the_record(
        self, store: Store, written: Count
    ) -> None:
        """A commit does not write again the input that was given once, nor the events so far."""
        record = running("heavy", given={"acme/input": "x" * _INPUT})
        await store.insert(record)
        costs = []
        for step in range(_STEPS):
            # States of many lengths: a row that keeps its length may be written in its place.
            moved = after(record, state=b'"%d"' % (10 ** (_STATE + step % _LENGTHS)))
            begun = written()
            await store.commit(record, moved, [b'"%d"' % step])
            costs.append(written() - begun)
            record = moved
        first, last = sorted(costs[_FEW : 2 * _FEW])[_FEW // 2], sorted(costs[-_FEW:])[_FEW // 2]
        expect(first > 0, "kit", "`written` counted no byte of a commit")
        expect(
            last <= _SMALL, "R16",
            f"a commit of {_STATE} bytes wrote {last:,} bytes, over {_SMALL:,}: the Task was given "
            f"{_INPUT:,} bytes once",
        )  # fmt: skip
        most = max(4 * first, _SMALL)
        expect(
            last <= most, "R16", f"of {_STEPS} commits, early ones wrote {first:,} bytes each, and "
            f"late ones {last:,}",
        )  # fmt: skip

    @pytest.mark.feature("counted")
    @pytest.mark.rule("R8")
    async def test_changed_looks_at_what_was_asked(self, store: Store, looked: Count) -> None:
        """Its work does not grow with the number of Tasks that are stored."""
        costs = []
        stored = 0
        for many in (_FEW, _MANY):
            for number in range(stored, many):
                await store.insert(running(f"task {number:04}"))
            stored = many
            begun = looked()
            await store.changed({"task 0001": 1})
            costs.append(looked() - begun)
        expect(costs[0] > 0, "kit", "`looked` counted nothing that `changed` looked at")
        few, more = costs
        expect(
            more <= few + _LOOKED, "R8",
            f"to ask for one Task, `changed` looked at {few} records among {_FEW}, and at {more} "
            f"among {_MANY}",
        )  # fmt: skip

    @pytest.mark.feature("synced")
    @pytest.mark.rule("durable")
    async def test_what_was_acknowledged_was_synced_before(
        self, store: Store, operations: Operations
    ) -> None:
        """When a write returns, no file that it wrote and no name that it made waits for a sync."""
        record = running("synced")
        await store.insert(record, [b"1"])
        made = operations.unsynced()
        expect(not made, "durable", f"an insert returned, and this is not synced: {made}")
        seen = operations.count
        for step in range(_FEW):
            # The last states are large, because a store may keep those elsewhere.
            size = 10 * step if step < _FEW - 3 else _INPUT
            moved = after(record, state=b'"%s"' % (b"x" * size))
            await store.commit(record, moved, [b"2"])
            record = moved
            left = operations.unsynced()
            expect(not left, "durable", f"commit {step + 1} returned, not synced: {left}")
        expect(operations.count > seen, "kit", "`operations` recorded nothing of twenty commits")

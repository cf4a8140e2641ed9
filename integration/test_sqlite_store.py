"""SQLiteStore passes the contracts, leases included; and what only it promises."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agentic_kernel import Complete, Dispatch, Pause, Resume, Task, apply
from agentic_kernel_conformance import (
    QueryContract,
    RuntimeContract,
    RuntimeFeatures,
    ScriptedSubstrate,
    ScriptedWork,
    StoreContract,
    StoreFactory,
    StoreFeatures,
)
from agentic_kernel_conformance.records import AT, after, owned
from agentic_kernel_conformance.storage import Damage, Newer, Older
from agentic_kernel_engine import (
    Conflict,
    Host,
    MemoryStore,
    Record,
    Store,
    StoreError,
    Unreadable,
)

from .levels import conformance_level as conformance_level
from .sqlite_store import SQLiteStore

pytestmark = pytest.mark.slow

SCHEMA_2 = Path(__file__).with_name("sqlite_schema_2.sql")
"""The dump of a file in which SQLiteStore kept the records below while its schema was 2."""


class TestSQLiteStore(StoreContract):
    features = StoreFeatures(
        durable=True, processes=True, threads=True, leases=True, holdable=True, damageable=True,
        weighed=True, reads_older=True, refuses_newer=True,
    )  # fmt: skip

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "state.db"

    @pytest.fixture
    def store(self, path: Path) -> Iterator[SQLiteStore]:
        store = SQLiteStore(path, lease=30.0)
        yield store
        store.close()

    @pytest.fixture
    def reopen(self) -> Iterator[Callable[[SQLiteStore], Awaitable[SQLiteStore]]]:
        opened: list[SQLiteStore] = []

        async def reopen(store: SQLiteStore) -> SQLiteStore:
            store.close()
            opened.append(SQLiteStore(store.path, lease=30.0))
            return opened[-1]

        yield reopen
        for store in opened:
            store.close()

    @pytest.fixture
    def factory(self, path: Path) -> StoreFactory:
        return StoreFactory("integration.sqlite_store:SQLiteStore", (str(path), 3.0))

    @pytest.fixture
    def expire(self, path: Path) -> Callable[[str], Awaitable[None]]:
        async def run_out(host: str) -> None:
            expire(path, host)

        return run_out

    @pytest.fixture
    def damage(self, path: Path) -> Damage:
        async def damage(store: Store, task_id: str) -> Store:
            spoil(path, task_id)
            return store

        return damage

    @pytest.fixture
    def hold(self, path: Path) -> Callable[[], object]:
        @asynccontextmanager
        async def hold() -> AsyncIterator[None]:
            with locked(path):
                yield

        return hold

    @pytest.fixture
    def written(self) -> Callable[[], int]:
        """The bytes that this process has handed to the system."""

        def written() -> int:
            counts = Path("/proc/self/io").read_text(encoding="ascii").split()
            return int(counts[counts.index("wchar:") + 1])

        return written

    @pytest.fixture
    def older(self, path: Path) -> Iterator[Older]:
        with closing(sqlite3.connect(path)) as db:
            db.executescript(SCHEMA_2.read_text(encoding="utf-8"))
        opened: list[SQLiteStore] = []

        async def older() -> tuple[Store, Sequence[Record]]:
            opened.append(SQLiteStore(path, lease=30.0))
            return opened[0], records_of_schema_2()

        yield older
        for each in opened:
            each.close()

    @pytest.fixture
    def newer(self, path: Path) -> Iterator[Newer]:
        opened: list[SQLiteStore] = []

        async def again() -> Store:
            opened.append(SQLiteStore(path, lease=30.0))
            return opened[-1]

        @asynccontextmanager
        async def newer(store: Store) -> AsyncIterator[Callable[[], Awaitable[Store]]]:
            """Say that a version 999 wrote the file, and take it back at the end."""
            with closing(sqlite3.connect(path, isolation_level=None)) as db:
                (known,) = db.execute("PRAGMA user_version").fetchone()
                db.execute("PRAGMA user_version = 999")
                try:
                    yield again
                    assert db.execute("PRAGMA user_version").fetchone() == (999,)
                finally:
                    db.execute(f"PRAGMA user_version = {known}")

        yield newer
        for each in opened:
            each.close()


def records_of_schema_2() -> Sequence[Record]:
    """Four records, each at the version that it had."""

    def new(task_id: str, **fields: Any) -> Task:
        task = Task.new(
            id=task_id, summary="s", instructions="i", runtime_kind="k", at=AT, **fields
        )
        return apply(task, Dispatch(), AT)

    ended = apply(new("ended"), Complete({"is": [1.0, None]}), AT + timedelta(hours=1))
    rest = apply(new("rest", metadata={"label/team": "red"}), Pause(), AT + timedelta(minutes=1))
    again = apply(apply(new("again"), Pause(), AT), Resume("go on"), AT + timedelta(minutes=2))
    return [
        Record(again, version=3, owner="gone:3", state=b'{"n":3}', step=1, attempts=2),
        Record(new("child", agent_name="acme/ann"), parent="again", realm="acme"),
        Record(ended, version=2),
        Record(rest, version=2, due_at=AT + timedelta(days=1)),
    ]


def spoil(path: Path, task_id: str) -> None:
    """Make a record unreadable."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE tasks SET head = '{' WHERE id = ?", [task_id])


def expire(path: Path, host: str) -> None:
    """Move the end of a lease into the past."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE hosts SET until = 1 WHERE name = ?", [host])


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another writer is in the middle of a write."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield
        db.execute("ROLLBACK")


class _OnSQLite:
    @pytest.fixture
    def work(self) -> ScriptedWork:
        return ScriptedWork()

    @pytest_asyncio.fixture
    async def runtime(self, work: ScriptedWork, tmp_path: Path) -> AsyncIterator[Host]:
        store = SQLiteStore(tmp_path / "state.db")
        async with Host(ScriptedSubstrate(work), store) as host:
            yield host
        store.close()


@pytest.mark.torture  # Hosts on the stores that ship are in the gate.
class TestHostOnSQLite(_OnSQLite, RuntimeContract):
    features = RuntimeFeatures(pauses=True, keeps_partial_output=True, refuses=True)


@pytest.mark.torture
class TestHostOnSQLiteAsQuery(_OnSQLite, QueryContract):
    features = RuntimeFeatures(pauses=True, keeps_partial_output=True, refuses=True)


@pytest.mark.rule("R14")
async def test_leases_are_renewed_while_the_event_loop_is_blocked(tmp_path: Path) -> None:
    """And each on its own: one that ran out is not renewed along with the others."""
    with closing(SQLiteStore(tmp_path / "state.db", lease=0.8)) as store:
        await store.join("lapsed")
        await store.join("alive")
        expire(store.path, "lapsed")
        time.sleep(2.5 * store.lease)  # noqa: ASYNC251
        assert await store.alive("alive:1")
        assert not await store.alive("lapsed:1")
    with closing(SQLiteStore(store.path)) as store:
        time.sleep(1.5 * 0.8)  # noqa: ASYNC251
        assert not await store.alive("alive:1")


async def test_waiting_for_another_writer_ends_in_a_typed_error(tmp_path: Path) -> None:
    """And leaves nothing; the same write lands once the other is done."""
    with closing(SQLiteStore(tmp_path / "state.db", timeout=0.1)) as store:
        record = owned("a")
        await store.insert(record)
        with locked(store.path):
            with pytest.raises(StoreError, match="locked"):
                await store.commit(record, after(record), [b"1"])
            assert await store.load("a") == record
        await store.commit(record, after(record), [b"2"])
        assert await store.events("a") == [((2, 0), b"2")]


async def test_what_cannot_be_opened_is_a_typed_error_and_stays_as_it_is(tmp_path: Path) -> None:
    text = tmp_path / "letter.txt"
    text.write_text("Dear reader, this is no database. " * 100)
    with closing(sqlite3.connect(tmp_path / "newer.db")) as db:
        db.execute("PRAGMA user_version = 4")
    for name in ("letter.txt", "newer.db", "no folder/state.db"):
        with closing(SQLiteStore(tmp_path / name)) as store:
            for call in (store.load("a"), store.insert(owned("a")), store.join("h")):
                with pytest.raises(StoreError, match=name):
                    await call
    assert text.read_text().startswith("Dear reader, this is no database.")
    assert not (tmp_path / "no folder").exists()


async def test_a_closed_store_says_so_and_leaves_no_thread(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    store = SQLiteStore(tmp_path / "state.db")
    await store.insert(owned("a"))
    await asyncio.gather(*(store.load("a") for _ in range(20)))
    store.close()
    assert set(threading.enumerate()) == before
    with pytest.raises(StoreError, match="closed"):
        await store.load("a")
    assert not (tmp_path / "state.db-wal").exists()


@pytest.mark.rule("R22")
async def test_one_record_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    with closing(SQLiteStore(tmp_path / "state.db")) as store:
        for name in ("a", "b", "c"):
            await store.insert(owned(name), [b"1"])
        spoil(store.path, "b")
        with pytest.raises(Unreadable):
            await store.load("b")
        assert [each.task.id for each in await store.find(limit=2)] == ["a", "c"]
        assert [each.task.id for each in await store.find(newest=True, limit=2)] == ["c", "a"]
        assert set(await store.load_many(["a", "b"])) == {"a"}
        (bad,) = await store.unreadable()
        grave = await store.bury("b", bad.version, [b"2"])
        assert await store.load("b") == grave
        assert [text for _, text in await store.events("b")] == [b"1", b"2"]
        assert await store.unreadable() == []
        with pytest.raises(Conflict):
            await store.bury("a", 1)


async def test_tasks_are_found_by_agent_realm_label_and_age(tmp_path: Path) -> None:
    """As the reference finds them, in both orders."""
    reference = MemoryStore()
    with closing(SQLiteStore(tmp_path / "state.db")) as store:
        for n in range(24):
            given = Task.new(
                id=f"{n:02}", summary="", instructions="", runtime_kind="k",
                agent_name=("acme/ann", None)[n % 2], metadata={"label/team": f"{n % 3}"},
                at=AT + timedelta(minutes=n * 5 % 24),
            )  # fmt: skip
            record = Record(apply(given, Dispatch(), AT), realm=("", "acme")[n % 4 // 2])
            for each in (store, reference):
                await each.insert(record)
        asked: list[dict[str, Any]] = [
            {}, {"agent": "acme/ann"}, {"realms": ["acme"]}, {"realms": [""], "limit": 3},
            {"labels": {"team": "1"}}, {"labels": {"team": "1"}, "agent": "acme/ann"},
            {"created_from": AT + timedelta(minutes=7), "created_before": AT + timedelta(hours=9)},
            {"limit": 0}, {"limit": 5},
        ]  # fmt: skip
        for options in asked:
            for newest in (False, True):
                found = await store.find(**options, newest=newest)
                assert found == await reference.find(**options, newest=newest)
        place = (AT + timedelta(minutes=9), "11")
        assert await store.find(newest=True, after=place) == await reference.find(
            newest=True, after=place
        )

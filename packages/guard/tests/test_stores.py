"""The contract of a store of the guard, for each of its implementations."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_guard.stores import (
    ApprovalRequest,
    Begin,
    GuardStore,
    Kept,
    Seen,
    SQLiteGuardStore,
    StoreFailed,
)
from agentic_kernel_guard.stores.port import SKEW
from agentic_kernel_guard.tokens import Key, Keyring
from agentic_kernel_guard.trace import (
    START,
    Broken,
    check_export,
    export,
    linked,
    signed,
    verify,
)
from agentic_kernel_guard.trace.chain import Link

KEYS = Keyring([Key("a", bytes(range(32)))])
NOW = 1_700_000_000_000


def entry(action: str, number: int = 0) -> str:
    return f'{{"action":"{action}","n":{number}}}'


def begin(action: str, **rest: Any) -> Begin:
    given: dict[str, Any] = {
        "print": "p", "tokens": (), "until": 1_000, "limits": (), "now": 10, "entry": entry(action)
    }  # fmt: skip
    return Begin(action, **{**given, **rest})


async def states(store: GuardStore, *begins: Begin) -> list[str]:
    return [(await store.begin(each)).state for each in begins]


async def test_an_action_is_begun_once_and_answers_with_its_result(store: GuardStore) -> None:
    assert await states(store, begin("a"), begin("a"), begin("a", print="q")) == [
        "begun",
        "known",
        "other",
    ]
    assert (await store.begin(begin("a"))).result is None
    await store.finish("a", "done", entry("a", 1))
    assert (await store.begin(begin("a"))).result == "done"
    assert [link.entry["n"] for link in await store.of_action("a")] == [0, 1]


async def test_uses_are_taken_from_a_token_and_its_parents(store: GuardStore) -> None:
    chain = (("parent", 2), ("child", 1))
    assert await states(
        store,
        begin("a", tokens=chain),
        begin("b", tokens=chain),
        begin("c", tokens=(("parent", 2), ("other", None))),
        begin("d", tokens=(("parent", 2), ("third", 5))),
        begin("e", tokens=(("third", 1),)),
    ) == ["begun", "used_up", "begun", "used_up", "begun"]
    assert len(await store.links()) == 3


async def test_a_revoked_token_takes_its_children_with_it(store: GuardStore) -> None:
    await store.revoke("parent", 1_000, entry("r"))
    await store.revoke("parent", 1_000, entry("r"))
    chain = (("parent", None), ("child", None))
    assert await states(store, begin("a", tokens=chain), begin("b", tokens=chain[1:])) == [
        "revoked",
        "begun",
    ]
    await store.finish("b", "done", entry("b"))
    await store.revoke("child", 1_000, entry("r"))
    assert await states(store, begin("b", tokens=chain[1:])) == ["revoked"]


async def test_what_is_recorded_of_an_action(store: GuardStore) -> None:
    assert await store.recorded("a") is None
    first = begin("a")
    await store.begin(first)
    assert await store.recorded("a") == (first.print, None)
    await store.finish("a", "done", entry("a"))
    assert await store.recorded("a") == (first.print, "done")
    assert await store.recorded("b") is None


async def test_a_limit_counts_calls_in_a_window_that_moves(store: GuardStore) -> None:
    limits = (("c", 2, 100),)
    moments = [10, 20, 109, 110, 111, 120]
    assert await states(store, *(begin(f"a{now}", limits=limits, now=now) for now in moments)) == [
        "begun",
        "begun",
        "limited",
        "begun",
        "limited",
        "begun",
    ]
    assert await store.count("c", 20) == 2


async def test_what_is_refused_spends_nothing(store: GuardStore) -> None:
    full = (("c", 1, 100),)
    await store.begin(begin("a", limits=full))
    both = begin("b", limits=(("d", 1, 100), *full), tokens=(("t", 1),))
    assert (await store.begin(both)).state == "limited"
    assert await states(store, begin("b", tokens=(("t", 1),))) == ["begun"]
    assert await store.count("d", 0) == 0


async def test_a_handle_has_a_time_to_live(store: GuardStore) -> None:
    await store.begin(begin("a"))
    kept = Kept("h", "ann", "acme", "[1]", NOW)
    await store.finish("a", "r", entry("a"), kept)
    assert await store.kept("h", NOW - 1) == kept
    assert await store.kept("h", NOW) is None
    assert await store.kept("other", 0) is None
    await store.prune(NOW)
    assert await store.kept("h", 0) is None
    assert len(await store.links()) == 2


async def test_what_is_pruned_is_what_nothing_needs_any_more(store: GuardStore) -> None:
    for at in (10, 50):
        await store.begin(begin(f"a{at}", limits=(("c", 9, 100),), now=NOW + at))
        await store.finish(f"a{at}", "done", entry(f"a{at}"))
    await store.prune(NOW + SKEW + 110)
    assert await store.count("c", 0) == 1
    # A call that is counted still counts, and an action answers until it is forgotten on purpose.
    assert await store.count("c", NOW + 10) == 1
    assert await states(store, begin("a10"), begin("a50")) == ["known", "known"]
    await store.prune(NOW + SKEW + 110, before=NOW + 50)
    assert await store.recorded("a10") is None
    assert await store.recorded("a50") == ("p", "done")
    assert await states(store, begin("a10"), begin("a50")) == ["begun", "known"]
    assert len(await store.links()) == 5


async def test_a_guard_whose_clock_is_behind_takes_no_token_that_was_used_or_revoked(
    store: GuardStore,
) -> None:
    ends = NOW + 1_000
    used = Begin("a", "p", (("t", 1),), ends, (), NOW, entry("a"))
    await store.begin(used)
    await store.revoke("r", ends, entry("r"))
    await store.prune(ends + SKEW - 1)
    again = Begin("b", "p", (("t", 1),), ends, (), NOW, entry("b"))
    revoked = Begin("c", "p", (("r", 1),), ends, (), NOW, entry("c"))
    assert await states(store, again, revoked) == ["used_up", "revoked"]
    await store.prune(ends + SKEW)
    assert await states(store, again, revoked) == ["begun", "begun"]


@pytest.mark.parametrize(
    "times",
    [(NOW // 1_000,), (NOW * 1_000,), (float(NOW),), (None,), (NOW, NOW // 1_000), (NOW, "x")],
    ids=str,
)
async def test_pruning_in_another_unit_than_milliseconds_is_refused(
    store: GuardStore, times: tuple[Any, ...]
) -> None:
    await store.append(entry("a"), Seen("run", "mail", "one", NOW * 100))
    with pytest.raises(InvalidValue, match="milliseconds"):
        await store.prune(*times)
    assert len(await store.seen("run")) == 1


async def test_an_action_that_was_forgotten_before_its_end_still_has_an_end(
    store: GuardStore,
) -> None:
    await store.begin(begin("a"))
    await store.prune(NOW, before=NOW)
    await store.finish("a", "done", entry("a", 1))
    assert [link.entry["n"] for link in await store.of_action("a")] == [0, 1]
    assert await store.recorded("a") is None


async def test_what_a_run_saw_is_kept_in_order_until_its_time_is_over(store: GuardStore) -> None:
    assert list(await store.seen("run")) == []
    await store.begin(begin("a"))
    await store.finish("a", "r", entry("a"), None, Seen("run", "mail", "one", NOW + 100))
    await store.append(entry("b"), Seen("other", "mail", "not this", NOW + 200))
    await store.append(entry("b"), Seen("run", "web", "two", NOW + 200))
    (first, *one), (second, *two) = await store.seen("run")
    assert (one, two) == (["mail", "one"], ["web", "two"])
    assert [tuple(each) for each in await store.seen("run", first)] == [(second, "web", "two")]
    assert list(await store.seen("run", second)) == []
    await store.prune(NOW + SKEW + 100)
    assert [each[2] for each in await store.seen("run")] == ["two"]
    await store.append(entry("c"), Seen("run", "mail", "three", 200))
    assert [each[2] for each in await store.seen("run", second)] == ["three"]


def asking(id: str, print: str = "p", asked: int = 10, until: int = 100) -> ApprovalRequest:
    return ApprovalRequest(id, print, "{}", asked, until)


async def test_a_call_has_one_open_request_for_an_approval(store: GuardStore) -> None:
    first = asking("q1")
    assert await store.ask(first, entry("q1")) == first
    assert await store.ask(asking("q2", asked=99), entry("q2")) == first
    other = asking("q3", "other", asked=9)
    assert await store.ask(other, entry("q3")) == other
    assert list(await store.approvals(10)) == [other, first]
    assert list(await store.approvals(10, 1)) == [other]
    assert (await store.approval("q1"), await store.approval("q2")) == (first, None)
    assert len(await store.links()) == 2
    later = asking("q4", asked=100, until=200)
    assert await store.ask(later, entry("q4")) == later, "the time of the first one is over"
    assert list(await store.approvals(100)) == [later]


async def test_the_first_decision_of_a_request_stays(store: GuardStore) -> None:
    await store.ask(asking("q"), entry("q"))
    settled = await store.settle("q", "yes", 20, entry("q", 1))
    assert settled is not None
    assert settled.verdict == "yes"
    assert await store.settle("q", "no", 21, entry("q", 2)) == settled
    assert await store.settle("none", "no", 21, entry("none")) is None
    assert await store.ask(asking("r"), entry("r")) == settled, "a decision does not close it"
    assert list(await store.approvals(20)) == []
    assert [link.entry["n"] for link in await store.of_action("q")] == [0, 1]


async def test_a_request_is_closed_by_its_action_and_by_its_time(store: GuardStore) -> None:
    await store.ask(asking("q"), entry("q"))
    late = await store.settle("q", "yes", 100, entry("q", 1))
    assert late is not None
    assert late.verdict is None
    await store.settle("q", "yes", 99, entry("q", 1))
    await store.begin(begin("q"))
    again = asking("r")
    assert await store.ask(again, entry("r")) == again
    await store.begin(begin("r"))
    assert list(await store.approvals(10)) == []
    begun = await store.settle("r", "yes", 10, entry("r", 1))
    assert begun is not None
    assert begun.verdict is None
    await store.prune(NOW)
    assert await store.approval("q") is None


async def test_calls_at_once_share_one_request(store: GuardStore) -> None:
    made = await asyncio.gather(*(store.ask(asking(f"q{n}"), entry(f"q{n}")) for n in range(20)))
    assert len({each.id for each in made}) == 1
    assert len(await store.links()) == 1


async def test_calls_at_once_make_one_chain(store: GuardStore) -> None:
    await asyncio.gather(*(store.append(entry(str(n))) for n in range(50)))
    links = await store.links()
    last = await store.last()
    assert last is not None
    assert verify(links).last == last.hash
    assert await store.links(48, 1) == links[48:49]


async def test_a_chain_shows_each_change(store: GuardStore) -> None:
    for number in range(4):
        await store.append(entry("a", number))
    links = list(await store.links())
    head = signed(3, links[2].hash, 5, KEYS)
    assert verify(links, head, KEYS).entries == 4
    for broken in (links[1:], links[:1] + links[2:], [links[1], links[0], *links[2:]]):
        with pytest.raises(Broken, match="entry"):
            verify(broken)
    with pytest.raises(Broken, match="cut off"):
        verify(links[:2], head, KEYS)
    rewritten = [links[0]]
    for number in (2, 3):
        rewritten.append(linked(rewritten[-1].hash, number, entry("x")))
    with pytest.raises(Broken, match="rewritten"):
        verify(rewritten, head, KEYS)
    with pytest.raises(Broken, match="signed the head"):
        verify(links, head, Keyring([Key("a", bytes(range(1, 33)))]))


async def test_a_torn_line_at_the_end_of_an_export_is_said(store: GuardStore) -> None:
    for number in range(3):
        await store.append(entry("a", number))
    text = "".join(export(await store.links()))
    assert check_export(text).torn == 0
    assert (check_export(text[:-9]).entries, check_export(text[:-9]).torn > 0) == (2, True)
    with pytest.raises(Broken, match="line 1"):
        check_export("x\n" + text)


WORKER = """
import asyncio, sys
from agentic_kernel_guard.stores import SQLiteGuardStore

async def main():
    store = SQLiteGuardStore(sys.argv[1])
    print("ready", flush=True)
    sys.stdin.readline()
    for n in range(int(sys.argv[3])):
        await store.append('{"action":"%s","n":%d}' % (sys.argv[2], n))
        print(n, flush=True)
    await store.close()

asyncio.run(main())
"""


def worker(path: Path, name: str, entries: int) -> subprocess.Popen[str]:
    """A process that appends when it reads a line; it has said that it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(path), name, str(entries)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


async def test_processes_append_to_one_chain_also_if_one_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "guard.db"
    lives, dies = worker(path, "lives", 100), worker(path, "dies", 100_000)
    for process in (dies, lives):
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    assert dies.stdout is not None
    said = [int(dies.stdout.readline()) for _ in range(20)]
    dies.kill()
    said += [int(line) for line in dies.stdout.read().split("\n")[:-1]]
    dies.communicate()
    lives.communicate()
    assert lives.returncode == 0
    store = SQLiteGuardStore(path)
    links = await store.links(0, 200_000)
    await store.close()
    verify(links)
    numbers = [link.entry["n"] for link in links if link.entry["action"] == "dies"]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) >= len(said)
    assert sum(link.entry["action"] == "lives" for link in links) == 100


async def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("x" * 5_000)
    for name, sql in (
        ("newer", "PRAGMA user_version = 9"), ("other", "CREATE TABLE notes (text TEXT)"),
    ):  # fmt: skip
        with closing(sqlite3.connect(tmp_path / name)) as connection, connection:
            connection.execute(sql)
    for name, why in (
        ("text", "not a database"), ("newer", "version 9, and this release reads up to 2; upgrade"),
        ("other", "another program; name another file"), ("no/folder", "unable to open"),
    ):  # fmt: skip
        store = SQLiteGuardStore(tmp_path / name)
        with pytest.raises(StoreFailed, match=why):
            await store.last()
        await store.close()
    with closing(sqlite3.connect(tmp_path / "other")) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("notes",)]
    closed = SQLiteGuardStore(tmp_path / "closed")
    await closed.close()
    with pytest.raises(StoreFailed, match="closed"):
        await closed.last()


async def test_a_new_file_is_opened_by_several_at_once(tmp_path: Path) -> None:
    for number in range(10):
        stores = [SQLiteGuardStore(tmp_path / f"{number}.db") for _ in range(4)]
        await asyncio.gather(*(store.append(entry("a")) for store in stores))
        assert verify(await stores[0].links()).entries == 4
        for store in stores:
            await store.close()


async def test_no_column_of_the_chain_can_be_changed_unseen(tmp_path: Path) -> None:
    file = tmp_path / "guard.db"
    made = SQLiteGuardStore(file)
    for number in range(3):
        await made.append(f'{{"action":"a{number}","kind":"began"}}')
    await made.close()
    with closing(sqlite3.connect(file)) as db, db:
        columns = [row[1] for row in db.execute("PRAGMA table_info(guard_chain)")]
    for column in columns:
        with closing(sqlite3.connect(file)) as db, db:
            (before,) = db.execute(f"SELECT {column} FROM guard_chain WHERE seq = 2").fetchone()
            db.execute(f"UPDATE guard_chain SET {column} = '77' WHERE seq = 2")
        changed = SQLiteGuardStore(file)
        links = await changed.links()
        await changed.close()
        with pytest.raises(Broken):
            verify(links)
        with closing(sqlite3.connect(file)) as db, db:
            db.execute(f"UPDATE guard_chain SET {column} = ? WHERE {column} = '77'", (before,))


async def test_an_action_is_found_by_its_body_alone(store: GuardStore) -> None:
    for entry in ('{"action":"a1","kind":"b"}', '{"action":"a12","kind":"b"}', '{"action":"a1"}'):
        await store.append(entry)
    assert [link.seq for link in await store.of_action("a1")] == [1, 3]
    assert await store.of_action("a") == []


async def test_an_action_is_looked_up_in_an_index(tmp_path: Path) -> None:
    made = SQLiteGuardStore(tmp_path / "guard.db")
    with made.reading() as run:
        asked = f"SELECT seq FROM guard_chain WHERE {made.ACTION} = ? ORDER BY seq"
        plan = run(f"EXPLAIN QUERY PLAN {asked}", "a")
    await made.close()
    assert "guard_chain_of" in plan[0][3]


async def test_a_line_of_an_export_has_nothing_besides(tmp_path: Path) -> None:
    made = SQLiteGuardStore(tmp_path / "guard.db")
    await made.append('{"action":"a"}')
    (line,) = export(await made.links())
    await made.close()
    check_export(line)
    for forged in (
        line.replace('{"seq"', '{"x":1,"seq"'),
        line.replace('{"seq"', '{"body":"","seq"'),
    ):
        assert forged != line
        with pytest.raises(Broken, match="line 1"):
            check_export(forged)


FIRST_TABLES = """
CREATE TABLE guard_chain
  (seq BIGINT PRIMARY KEY, action TEXT NOT NULL, body TEXT NOT NULL, hash TEXT NOT NULL);
CREATE INDEX guard_chain_action ON guard_chain (action, seq);
CREATE TABLE guard_actions (id TEXT PRIMARY KEY, print TEXT NOT NULL, result TEXT);
CREATE TABLE guard_spent (token TEXT PRIMARY KEY, uses BIGINT NOT NULL, until BIGINT NOT NULL);
CREATE TABLE guard_revoked (token TEXT PRIMARY KEY, until BIGINT NOT NULL);
CREATE TABLE guard_counted
  (counter TEXT NOT NULL, action TEXT NOT NULL, at BIGINT NOT NULL, PRIMARY KEY (counter, action));
CREATE TABLE guard_kept (handle TEXT PRIMARY KEY, owner TEXT NOT NULL, tenant TEXT NOT NULL,
  body TEXT NOT NULL, until BIGINT NOT NULL)
"""
"""The tables of the first version, as commit 41589a0 made them."""


def first_version() -> list[str]:
    """Statements that make a store of the first version, with two actions and their marks."""
    made: list[Link] = []
    for name in ("a", "b"):
        made.append(linked(made[-1].hash if made else START, len(made) + 1, entry(name)))
    return [
        *FIRST_TABLES.split(";"),
        *(
            f"INSERT INTO guard_chain VALUES ({each.seq}, '{each.entry['action']}', "
            f"'{each.body}', '{each.hash}')"
            for each in made
        ),
        "INSERT INTO guard_actions VALUES ('a', 'p', 'done')",
        f"INSERT INTO guard_spent VALUES ('t', 1, {NOW})",
        f"INSERT INTO guard_counted VALUES ('c', 'a', {NOW})",
    ]


async def holds_the_first_version(store: GuardStore) -> None:
    assert verify(await store.links()).entries == 2
    assert [link.seq for link in await store.of_action("b")] == [2]
    assert await store.recorded("a") == ("p", "done")
    assert await states(store, begin("b", tokens=(("t", 1),))) == ["used_up"]
    await store.prune(NOW + SKEW)
    assert await store.count("c", 0) == 1
    await store.append(entry("c"), Seen("run", "mail", "one", NOW))
    assert verify(await store.links()).entries == 3
    await store.close()


async def test_a_file_of_the_first_version_is_brought_to_this_one(tmp_path: Path) -> None:
    file = tmp_path / "guard.db"
    with closing(sqlite3.connect(file)) as db, db:
        for sql in (*first_version(), "PRAGMA user_version = 1"):
            db.execute(sql)
    await holds_the_first_version(SQLiteGuardStore(file))
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (2,)
        names = {row[1] for row in db.execute("PRAGMA table_info(guard_chain)")}
    assert names == {"seq", "body", "hash"}


def modes(folder: Path) -> dict[str, int]:
    return {each.name: stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()}


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777], ids=oct)
async def test_a_new_file_is_its_owners_alone(tmp_path: Path, umask: int) -> None:
    path = tmp_path / "guard.db"
    before = os.umask(umask)
    try:
        store = SQLiteGuardStore(path)
        await store.append(entry("a"))
    finally:
        os.umask(before)
    found = modes(tmp_path)
    await store.close()
    assert found == {"guard.db": 0o600, "guard.db-wal": 0o600, "guard.db-shm": 0o600}


async def test_a_file_that_others_may_read_is_used_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "guard.db"
    path.touch()
    path.chmod(0o640)
    store = SQLiteGuardStore(path)
    await store.append(entry("a"))
    await store.close()
    (said,) = (record.getMessage() for record in caplog.records)
    assert f"{path}: other users" in said
    assert f"chmod 600 {path} {path}-wal {path}-shm" in said
    assert stat.S_IMODE(path.stat().st_mode) == 0o640

"""Several processes on one memory's folder, and processes that are killed while they write."""

from __future__ import annotations

import asyncio
import random
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from agentic_kernel_engine.seams import Item, Query, Remembered, Scope
from agentic_kernel_file import FileMemory

from .memory_worker import GARBAGE, HERE
from .processes import line_of, worker

SHARE = 40


async def test_of_processes_that_say_the_same_one_is_told_that_it_is_new(tmp_path: Path) -> None:
    """And one at a time takes the place of an item, while the log is compacted again and again."""
    memory = FileMemory(tmp_path / "memory")
    await memory.propose(Item("first", HERE, "as it was", "seat"))
    with ExitStack() as stack:
        workers = [
            stack.enter_context(
                worker("memory_worker.py", memory.folder, "chain", name, f"{SHARE}")
            )
            for name in "abc"
        ]
        told = [int(await asyncio.to_thread(line_of, each)) for each in workers]
    assert sum(told) == SHARE
    chain = [await memory.explain(HERE, "first")]
    while not chain[-1].live:
        chain.append(await memory.explain(HERE, chain[-1].successor))
    ids = [each.id for each in chain]
    assert [each.predecessor for each in chain[1:]] == ids[:-1]
    assert sorted(ids) == sorted(
        ["first", *(f"{name}/{n}" for name in "abc" for n in range(SHARE))]
    )
    live = await memory.recall(Query(HERE, limit=1_000))
    assert [hit.item.id for hit in live if hit.item.key] == ids[-1:]
    assert len(live) == SHARE + 1
    memory.close()


async def test_what_another_process_remembers_is_found_at_once(tmp_path: Path) -> None:
    """By a memory that has been open before, without closing it; also after a compaction."""
    here, there = FileMemory(tmp_path / "memory"), FileMemory(tmp_path / "memory")
    for n in range(5):
        await here.propose(Item(f"{n}", HERE, f"text {n}"))
        assert (await there.recall(Query(HERE, limit=1)))[0].item.id == f"{n}"
        await there.tombstone(HERE, f"{n}", "asked for")
        assert (await here.explain(HERE, f"{n}")).forgotten == "asked for"
        await (here, there)[n % 2].compact()
        assert await here.export(HERE) == await there.export(HERE)
    here.close()
    there.close()


async def kill_a_writer(folder: Path, name: str, lines: int) -> list[list[str]]:
    """Kill a writing process after so many lines; returns all that it said."""
    said = []
    with worker("memory_worker.py", folder, "write", name) as process:
        for _ in range(lines):
            said.append((await asyncio.to_thread(line_of, process)).split())
        process.kill()
        process.wait()
        assert process.stdout is not None
        said += [line.split() for line in process.stdout if line.endswith("\n")]
    return said


async def check(folder: Path, said: list[list[str]]) -> None:
    """Every acknowledged change is there; one under way is there as a whole, or not at all."""
    memory = FileMemory(folder)
    known = {
        each["id"]: await memory.explain(HERE, each["id"])
        for each in (await memory.export(HERE))["items"]
    }
    acknowledged: set[str] = set()
    for what, *ids in said:
        if what in ("proposed", "superseded"):
            acknowledged.add(ids[-1])
            assert ids[-1] in known, f"{ids[-1]} was acknowledged and is lost"
        if what == "superseded":
            assert known[ids[0]].successor == ids[1]
            assert known[ids[1]].predecessor == ids[0]
        if what == "forgotten":
            assert known[ids[0]].forgotten == "asked for"
            assert known[ids[0]].text == ""
    tried = {ids[0] for what, *ids in said if what == "tries"}
    may_be_gone = {ids[0] for what, *ids in said if what == "forgets"}
    mine = {id: each for id, each in known.items() if id in tried}
    assert acknowledged <= set(mine)
    for id, each in mine.items():
        _whole(id, each, known, may_be_gone)
    live = {hit.item.id for hit in await memory.recall(Query(HERE, limit=1_000))}
    assert live == {id for id, each in known.items() if each.live}
    # The folder goes on: the next item is remembered too.
    assert await memory.propose(Item(f"after/{len(known)}", HERE, "afterwards"))
    memory.close()


def _whole(id: str, each: Remembered, known: dict[str, Remembered], may_be_gone: set[str]) -> None:
    if each.forgotten:
        assert id in may_be_gone
    else:
        assert each.text == f"text of {id} " + "x" * 300
    if each.predecessor:
        assert known[each.predecessor].successor == id


@pytest.mark.parametrize(
    "trials", [6, pytest.param(150, marks=pytest.mark.torture)], ids=["some", "many"]
)
async def test_what_was_acknowledged_is_found_after_the_writer_was_killed(
    tmp_path: Path, trials: int
) -> None:
    """By SIGKILL at any moment; the log is compacted meanwhile."""
    dice = random.Random(trials)
    for n in range(trials):
        folder = tmp_path / f"{n // 3}"  # some writers begin in what a killed one left
        await check(folder, await kill_a_writer(folder, f"w{n}", dice.randrange(1, 120)))


async def test_a_killed_writer_hides_nothing_from_a_reader_that_is_open(tmp_path: Path) -> None:
    reader = FileMemory(tmp_path / "memory", garbage=GARBAGE)
    await reader.propose(Item("before", Scope("other"), "a text"))
    said = await kill_a_writer(reader.folder, "w", 60)
    for what, *ids in said:
        if what == "proposed":
            assert (await reader.explain(HERE, ids[0])).id == ids[0]
    assert await reader.propose(Item("after", HERE, "afterwards"))
    reader.close()


FORKED = """
import asyncio, os, sys
from agentic_kernel_file import FileMemory
from agentic_kernel_engine.seams import Item, Scope

memory = FileMemory(sys.argv[1])
asyncio.run(memory.propose(Item("parent", Scope(), "a text")))
child = os.fork()
if child == 0:
    async def work():
        assert (await memory.explain(Scope(), "parent")).live
        assert await memory.propose(Item("child", Scope(), "a text"))
    asyncio.run(asyncio.wait_for(work(), 30))
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert asyncio.run(memory.propose(Item("again", Scope(), "a text")))
assert asyncio.run(memory.explain(Scope(), "child")).live
print("done")
"""


async def test_a_forked_child_goes_on_with_the_memory(tmp_path: Path) -> None:
    """Although it has none of its parent's threads."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "ignore", "-c", FORKED, str(tmp_path / "memory"),
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await process.communicate()
    assert out.decode().split() == ["done"]

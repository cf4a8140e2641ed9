"""Several processes, threads and event loops on one folder; and processes that die or stop."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import threading
from pathlib import Path

import pytest

from agentic_kernel_engine import Conflict, HostGone, StoreError
from agentic_kernel_file import FileStore, Sizes

from .disks import UnsyncedFiles
from .processes import line_of, worker
from .records import all_events, events, running, step

SHARE = 60


@pytest.mark.rule("C2")
async def test_four_processes_lose_no_commit_while_the_log_is_compacted(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "state", sizes=Sizes(segment=1 << 13, tail=1 << 14))
    await store.insert(running("shared"))
    with (
        worker("worker.py", store.folder, "count", "shared", "a", str(SHARE)) as a,
        worker("worker.py", store.folder, "count", "shared", "b", str(SHARE)) as b,
        worker("worker.py", store.folder, "count", "shared", "c", str(SHARE)) as c,
        worker("worker.py", store.folder, "count", "shared", "d", str(SHARE)) as d,
    ):
        for process in (a, b, c, d):
            assert await asyncio.to_thread(line_of, process) == "done"
    record = await store.load("shared")
    expected = {(name, n) for name in "abcd" for n in range(SHARE)}
    assert len(record.inbox) == len(expected)
    assert {(entry["by"], entry["n"]) for entry in record.inbox} == expected
    texts = [text.decode() for _, text in await store.events("shared")]
    assert texts == [f"{entry['by']}:{entry['n']}" for entry in record.inbox]
    assert record.version == 1 + len(expected)
    store.close()


async def kill_a_writer(folder: Path, name: str, after_lines: int) -> dict[str, int]:
    """Kill a writing process after so many acknowledgements; returns what it acknowledged."""
    acknowledged: dict[str, int] = {}
    with worker("worker.py", folder, "write", name) as process:
        for _ in range(after_lines):
            line = await asyncio.to_thread(line_of, process)
            task_id, version = line.rsplit(" ", 1)
            acknowledged[task_id] = int(version)
        process.send_signal(signal.SIGKILL)
        rest, _ = process.communicate()
    for line in rest.splitlines(keepends=True):
        if line.endswith("\n"):  # else it was cut off by the kill
            task_id, version = line.rsplit(" ", 1)
            acknowledged[task_id] = int(version)
    return acknowledged


async def check_survivors(store: FileStore, acknowledged: dict[str, int]) -> None:
    """Everything acknowledged is there, and all that is there reads and can be written on."""
    for task_id, version in acknowledged.items():
        try:
            await _go_on(store, task_id)
        except Conflict:
            # The last commit was written and not answered when its process died: it is now seen.
            await _go_on(store, task_id)
        record = await store.load(task_id)
        assert record.version > version
        assert record.step == record.version - 1
        found = await store.events(task_id, limit=100_000)
        assert [place for place, _ in found] == [
            (n, index) for n in range(1, record.version + 1) for index in range(2)
        ]
        assert all(text == b"%d:%d" % place for place, text in found)


async def _go_on(store: FileStore, task_id: str) -> None:
    after = step(await store.load(task_id))
    texts = [b"%d:%d" % (after.version, index) for index in range(2)]
    await store.commit(await store.load(task_id), after, texts)


async def _kills(folder: Path, count: int, seed: int) -> None:
    dice = random.Random(seed)
    store = FileStore(folder, sizes=Sizes(segment=1 << 13, tail=1 << 14))
    for n in range(count):
        name = f"writer-{n}"
        acknowledged = await kill_a_writer(folder, name, dice.randrange(1, 200))
        assert not await store.alive(f"{name}:1")
        await check_survivors(store, acknowledged)
        fresh = FileStore(folder)
        for task_id in acknowledged:
            assert await fresh.load(task_id) == await store.load(task_id)
        fresh.close()
    assert {record.owner and record.owner[:6] for record in await store.find()} == {"writer"}
    store.close()


@pytest.mark.rule("C6")
async def test_a_killed_writer_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    await _kills(tmp_path / "state", 8, seed=1)


@pytest.mark.torture
async def test_many_killed_writers_lose_nothing_that_they_acknowledged(tmp_path: Path) -> None:
    await _kills(tmp_path / "state", 200, seed=2)


@pytest.mark.rule("R14")
async def test_a_stopped_owner_keeps_its_task_and_a_dead_one_does_not(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "state")
    await store.insert(running("held"))
    await store.join("heir")
    with worker("worker.py", store.folder, "hold", "owner", "held") as process:
        assert await asyncio.to_thread(line_of, process) == "owner:2"
        process.send_signal(signal.SIGSTOP)
        assert await store.alive("owner:2")
        assert await store.claim("held", "heir") is None
        assert await store.find(claimable=True) == []
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()
        assert not await store.alive("owner:2")
        assert [record.task.id for record in await store.find(claimable=True)] == ["held"]
        claimed = await store.claim("held", "heir")
    assert claimed is not None
    assert (claimed.owner, claimed.attempts) == ("heir:3", 2)
    store.close()


async def test_a_host_that_left_or_died_does_not_come_back(tmp_path: Path) -> None:
    store, other = FileStore(tmp_path / "state"), FileStore(tmp_path / "state")
    await store.join("h")
    await store.join("h")
    with pytest.raises(StoreError, match="fresh random") as in_use:
        await other.join("h")
    assert not isinstance(in_use.value, HostGone)
    await store.leave("h")
    assert not await other.alive("h:1")
    for late in (store, other):
        with pytest.raises(HostGone, match="fresh random") as gone:
            await late.join("h")
        assert gone.value.host == "h"
    store.close()
    other.close()


async def test_two_objects_in_one_process_are_two_parties(tmp_path: Path) -> None:
    stores = [FileStore(tmp_path / "state") for _ in range(2)]
    await stores[0].insert(running("a"))

    async def add(store: FileStore) -> None:
        for _ in range(50):
            while True:
                before = await store.load("a")
                try:
                    await store.commit(before, step(before), [b"x"])
                except Conflict:
                    continue
                break

    await asyncio.gather(*(add(store) for store in stores))
    assert (await stores[0].load("a")).version == 101
    assert await stores[0].load("a") == await stores[1].load("a")
    for store in stores:
        store.close()


class HeldFiles(UnsyncedFiles):
    """A disk whose syncs wait."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.released = threading.Event()

    def sync_data(self, fd: int) -> None:
        self.reached.set()
        self.released.wait()


async def test_a_segment_begun_by_another_during_a_sync_is_noticed(tmp_path: Path) -> None:
    files = HeldFiles()
    files.released.set()
    slow = FileStore(tmp_path / "state", files=files)
    other = FileStore(tmp_path / "state", files=UnsyncedFiles(), sizes=Sizes(segment=1))
    record = running("a")
    await slow.insert(record, events(record))
    files.reached.clear()
    files.released.clear()
    writing = asyncio.create_task(slow.commit(record, step(record), events(step(record))))
    await asyncio.to_thread(files.reached.wait)
    await other.insert(running("b"))
    assert (await other.load("a")).version == 2  # published by the one who did not wait
    files.released.set()
    await writing
    record = await slow.load("a")
    await slow.commit(record, step(record), events(step(record)))
    for store in (slow, other, FileStore(tmp_path / "state")):
        assert await store.load("a") == step(record)
        assert await store.events("a") == all_events(3)
        store.close()


async def test_several_changes_of_a_task_in_one_batch_are_read_in_their_order(
    tmp_path: Path,
) -> None:
    files = HeldFiles()
    files.released.set()
    store = FileStore(tmp_path / "state", files=files)
    other = FileStore(tmp_path / "state", files=UnsyncedFiles())
    await store.insert(running("before"))
    assert len(await other.find()) == 1
    files.reached.clear()
    files.released.clear()
    first = asyncio.create_task(store.insert(running("held")))
    assert await asyncio.to_thread(files.reached.wait, 30)
    # Nothing is written now, so that these three are one batch.
    record = running("a", owner="h:1")
    second, third = step(record), step(step(record))
    together = asyncio.gather(
        store.insert(record, events(record)),
        store.commit(record, second, events(second)),
        store.commit(second, third, events(third)),
    )
    await asyncio.sleep(0)
    files.released.set()
    await asyncio.gather(first, together)
    assert await other.load("a") == third
    assert await other.events("a") == all_events(3)
    assert [record.task.id for record in await other.find(owner="h")] == ["a"]
    store.close()
    other.close()


async def test_one_object_serves_many_threads_and_event_loops(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "state")
    failures: list[BaseException] = []

    async def steps(name: str) -> None:
        record = running(name)
        await store.insert(record)
        for _ in range(50):
            await store.commit(record, step(record), [b"x"])
            record = step(record)
            assert await store.load(name) == record

    def loop(name: str) -> None:
        try:
            asyncio.run(steps(name))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=loop, args=(f"task {n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert not failures
    assert [record.version for record in await store.find()] == [51] * 4
    store.close()


FORKED = """
import asyncio, os, sys
from agentic_kernel_file import FileStore
sys.path.insert(0, sys.argv[2])
from records import running, step

store = FileStore(sys.argv[1])
ready, go = os.pipe(), os.pipe()

async def parent():
    await store.join("parent")
    await store.insert(running("a", owner="parent:1"))

asyncio.run(parent())
child = os.fork()
if child == 0:
    async def work():
        record = await store.load("a")
        assert await store.alive("parent:1")
        await store.commit(record, step(record))
        os.write(ready[1], b"x")
        os.read(go[0], 1)               # by now the parent is dead
        while await store.alive("parent:1"):
            await asyncio.sleep(0.01)   # until the system has released its lock
        await store.join("child")
        claimed = await store.claim("a", "child")
        print("claimed", claimed.owner, flush=True)
    os.close(go[1])
    asyncio.run(asyncio.wait_for(work(), 30))
    os._exit(0)
os.read(ready[0], 1)
os.kill(os.getpid(), 9)
"""


async def test_a_forked_child_does_not_keep_its_parents_host_alive(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "ignore", "-c", FORKED, str(tmp_path / "state"),
        str(Path(__file__).parent),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    out, _ = await process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert out.decode().split() == ["claimed", "child:3"]


async def test_an_interpreter_exits_in_the_middle_of_a_write(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys; sys.path.insert(0, sys.argv[2])\n"
        "from agentic_kernel_file import FileStore\n"
        "from records import running\n"
        "async def main():\n"
        "    store = FileStore(sys.argv[1])\n"
        "    await store.join('h')\n"
        "    asyncio.get_running_loop().create_task(store.insert(running('a')))\n"
        "    await asyncio.sleep(0)\n"
        "    print('leaving', flush=True)\n"
        "    sys.exit(3)\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, str(tmp_path / "state"), str(Path(__file__).parent),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    out, _ = await asyncio.wait_for(process.communicate(), 30)
    assert (process.returncode, out) == (3, b"leaving\n")
    store = FileStore(tmp_path / "state")
    assert not await store.alive("h:1")
    assert {record.task.id for record in await store.find()} <= {"a"}
    store.close()

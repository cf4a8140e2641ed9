"""A memory in a folder: what it finds, what its log holds, and what becomes of its folder."""

from __future__ import annotations

import asyncio
import logging
import shutil
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_engine import StoreError
from agentic_kernel_engine.seams import Item, Query, Scope, UnknownItem
from agentic_kernel_engine.seams.memories import BadVector, HashingEmbedder
from agentic_kernel_file import (
    Damaged,
    FileMemory,
    Files,
    FileStore,
    FolderGone,
    ForeignFolder,
    ReadOnly,
    SchemaTooNew,
    StoreBusy,
)
from agentic_kernel_file import manifest as manifests

from .disks import UnsyncedFiles
from .records import running
from .test_folder import ReadOnlyFiles

HERE = Scope("acme", "ann", "monday")
TEA = Item("tea", HERE, "Ann likes green tea")
COFFEE = Item("coffee", HERE, "Ann likes black coffee")


class Compass:
    """An embedder that knows two directions and their contraries, and counts the texts.

    Args:
        more: How many numbers more than needed a vector has.
    """

    def __init__(self, more: int = 0) -> None:
        self.asked: list[str] = []
        self._more = [0.0] * more

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.asked += texts
        return [
            [text.count("north") - text.count("south"), text.count("west"), *self._more]
            for text in texts
        ]


class CountingSyncs(Files):
    """A disk that counts its syncs, and holds one if it is told to."""

    def __init__(self) -> None:
        self.syncs = 0
        self.go = threading.Event()
        self.go.set()

    def sync_data(self, fd: int) -> None:
        self.syncs += 1
        assert self.go.wait(30)


def stored(folder: Path) -> bytes:
    """All bytes of all files."""
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file())


def size(folder: Path) -> int:
    """Bytes of all files, without the zeros that were allocated ahead."""
    total = 0
    for path in folder.glob("log-*"):
        with suppress(FileNotFoundError):  # A compaction may remove it meanwhile.
            total += len(path.read_bytes().rstrip(b"\0"))
    return total


async def test_an_item_is_found_by_its_vector_and_its_words(tmp_path: Path) -> None:
    """As in Postgres: three quarters the one, one quarter the other, without a vector the words."""
    words = FileMemory(tmp_path / "memory")
    both = FileMemory(tmp_path / "memory", embedder=Compass())
    await words.propose(Item("old", HERE, "north"))
    await both.propose(Item("new", HERE, "north wind"))
    await both.propose(Item("other", HERE, "south"))
    hits = await both.recall(Query(HERE, "north"))
    assert [(hit.item.id, hit.score, hit.reason) for hit in hits] == [
        ("new", 1.0, "cosine 1.000, has 1 of 1 words"),
        ("old", 0.25, "has 1 of 1 words"),
    ]
    hits = await both.recall(Query(HERE, "south", min_score=-1))
    assert [(hit.item.id, hit.score) for hit in hits] == [
        ("other", 1.0), ("old", 0.0), ("new", -0.75)
    ]  # fmt: skip
    assert [hit.score for hit in await both.recall(Query(HERE, "…"))] == [0.0, 0.0, 0.0]
    assert {hit.score for hit in await words.recall(Query(HERE, "…"))} == {1.0}
    assert [hit.score for hit in await words.recall(Query(HERE, "a north wind"))] == [
        pytest.approx(2 / 3), pytest.approx(1 / 3), 0.0
    ]  # fmt: skip


async def test_vectors_are_read_back_and_not_made_again(tmp_path: Path) -> None:
    """Also after a compaction, and by a process that has no embedder."""
    first = FileMemory(tmp_path / "memory", embedder=Compass())
    await first.propose(Item("a", HERE, "north"))
    await first.propose(Item("b", HERE, "west"))
    before = await first.recall(Query(HERE, "north west", min_score=-1))
    first.close()
    plain = FileMemory(tmp_path / "memory")
    await plain.propose(Item("c", HERE, "nothing"))
    await plain.compact()
    plain.close()
    embedder = Compass()
    again = FileMemory(tmp_path / "memory", embedder=embedder)
    hits = await again.recall(Query(HERE, "north west", min_score=-1))
    assert embedder.asked == ["north west"]
    assert [hit for hit in hits if hit.item.id != "c"] == before
    assert not await again.propose(Item("a", HERE, "north"))
    assert embedder.asked == ["north west"], "a known item was embedded again"


async def test_an_embedder_of_another_length_is_refused(tmp_path: Path) -> None:
    one = FileMemory(tmp_path / "memory", embedder=Compass())
    other = FileMemory(tmp_path / "memory", embedder=Compass(more=1))
    await one.propose(Item("a", HERE, "north"))
    old = await one.export(HERE)
    for call in (
        other.propose(Item("b", HERE, "south")),
        other.supersede("a", Item("b", HERE, "south")),
        other.recall(Query(HERE, "south")),
        other.restore(HERE, {"scope": {}, "version": 1, "items": [{"id": "b", "text": "b"}]}),
    ):
        with pytest.raises(BadVector, match="3 numbers and those of this memory have 2"):
            await call
    assert await one.export(HERE) == old
    assert (await FileMemory(tmp_path / "memory").export(HERE)) == old


async def test_a_forgotten_text_is_gone_from_the_disk_after_a_compaction(tmp_path: Path) -> None:
    memory = FileMemory(tmp_path / "memory", embedder=HashingEmbedder())
    await memory.propose(TEA)
    await memory.propose(COFFEE)
    await memory.tombstone(HERE, TEA.id, "asked for")
    assert b"green tea" in stored(memory.folder)
    exported = await memory.export(HERE)
    await memory.compact()
    assert b"green tea" not in stored(memory.folder)
    assert b"black coffee" in stored(memory.folder)
    assert await memory.export(HERE) == exported
    assert await FileMemory(memory.folder).export(HERE) == exported
    await memory.compact()
    assert len(list(memory.folder.glob("log-*"))) == 2


async def test_the_folder_does_not_grow_with_what_no_item_needs(tmp_path: Path) -> None:
    """A subject that is remembered anew ten thousand times over."""
    memory = FileMemory(tmp_path / "memory", files=UnsyncedFiles(), garbage=1 << 14)
    sizes = []
    for n in range(40):
        items = [{"id": f"{n}/{k}", "text": "x" * 1_000} for k in range(10)]
        await memory.restore(HERE, {"scope": {}, "version": 1, "items": items})
        for k in range(10):
            await memory.tombstone(HERE, f"{n}/{k}", "it is over")
        sizes.append(size(memory.folder))
    assert max(sizes) < 6 * (1 << 14) + 40 * 10 * 200
    assert max(sizes[20:]) < 3 * max(sizes[:20]), "it grows on and on"
    assert len((await memory.export(HERE))["items"]) == 400


async def test_calls_that_wait_at_the_same_time_share_a_sync(tmp_path: Path) -> None:
    files = CountingSyncs()
    memory = FileMemory(tmp_path / "memory", files=files)
    await memory.propose(TEA)
    files.go.clear()
    files.syncs = 0
    calls = [
        asyncio.create_task(memory.propose(Item(f"{n}", HERE, f"text {n}"))) for n in range(100)
    ]
    await asyncio.sleep(0.05)
    assert not any(call.done() for call in calls), "a call returned before it was durable"
    files.go.set()
    assert await asyncio.gather(*calls) == [True] * 100
    assert files.syncs <= 3


async def test_a_call_that_changes_nothing_writes_nothing(tmp_path: Path) -> None:
    memory = FileMemory(tmp_path / "memory")
    for call in (memory.recall(Query(HERE)), memory.export(HERE), memory.compact()):
        await call
    with pytest.raises(UnknownItem):
        await memory.supersede("nobody", TEA)
    with pytest.raises(UnknownItem):
        await memory.tombstone(HERE, "nobody", "a reason")
    assert await memory.restore(HERE, {"scope": {}, "version": 1, "items": []}) == 0
    assert not memory.folder.exists()
    await memory.propose(TEA)
    await memory.tombstone(HERE, TEA.id, "a reason")
    exported, before = await memory.export(HERE), stored(memory.folder)
    assert not await memory.propose(TEA)
    assert not await memory.tombstone(HERE, TEA.id, "another reason")
    assert await memory.restore(HERE, exported) == 0
    assert stored(memory.folder) == before


@pytest.mark.parametrize("name", ["log-000001", "agentic-kernel.json"])
async def test_a_damaged_log_is_refused_with_its_place(name: str, tmp_path: Path) -> None:
    """A byte that changed in what was acknowledged; nothing is cut off, and nothing is written."""
    memory = FileMemory(tmp_path / "memory")
    for n in range(20):
        await memory.propose(Item(f"{n}", HERE, f"text {n}"))
    memory.close()
    await asyncio.sleep(0)
    path = memory.folder / name
    data = bytearray(path.read_bytes())
    data[len(data.rstrip(b"\0")) // 2] ^= 1
    path.write_bytes(data)
    for call in ("export", "propose"):
        again = FileMemory(memory.folder)
        with pytest.raises(Damaged, match=f"{name}.*restore the folder from a copy"):
            await (again.export(HERE) if call == "export" else again.propose(TEA))
    assert path.read_bytes() == data


async def test_a_torn_end_is_cut_off(tmp_path: Path) -> None:
    """The remains, after a power failure, of a write that was not acknowledged."""
    memory = FileMemory(tmp_path / "memory")
    await memory.propose(TEA)
    path = memory.folder / "log-000001"
    end = len(path.read_bytes().rstrip(b"\0"))
    with path.open("r+b") as file:
        file.seek(end)
        file.write(b"\x40\0\0\0\x11\x22\x33\x44torn")
    again = FileMemory(memory.folder)
    assert await again.propose(COFFEE)
    third = FileMemory(memory.folder)
    assert [each["id"] for each in (await third.export(HERE))["items"]] == ["tea", "coffee"]


async def test_a_folder_of_others_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("mine")
    store = FileStore(tmp_path / "state")
    await store.insert(running("a"))
    store.close()
    memory = FileMemory(tmp_path / "memory")
    await memory.propose(TEA)
    for folder, said in ((tmp_path / "notes", "mine.txt"), (tmp_path / "state", "a FileStore")):
        before = sorted(path.name for path in folder.iterdir()), stored(folder)
        with pytest.raises(ForeignFolder, match=said):
            await FileMemory(folder).propose(TEA)
        with pytest.raises(ForeignFolder, match=said):
            await FileMemory(folder).recall(Query(HERE))
        assert before == (sorted(path.name for path in folder.iterdir()), stored(folder))
    with pytest.raises(ForeignFolder, match="a FileMemory"):
        await FileStore(memory.folder).insert(running("a"))
    assert await memory.recall(Query(HERE))


async def test_a_folder_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    memory = FileMemory(tmp_path / "memory")
    await memory.propose(TEA)
    path = memory.folder / manifests.NAME
    newer = manifests.decode(path.read_bytes(), "", format=manifests.MEMORY).raised(99)
    path.write_bytes(newer.encode())
    with pytest.raises(SchemaTooNew, match="upgrade agentic-kernel-file"):
        await FileMemory(memory.folder).export(HERE)


async def test_a_folder_that_is_gone_is_not_written_to(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The call says so, and the next one begins where the path leads to then."""
    memory = FileMemory(tmp_path / "memory")
    await memory.propose(TEA)
    shutil.move(memory.folder, tmp_path / "elsewhere")
    before = stored(tmp_path / "elsewhere")
    with pytest.raises(FolderGone, match="was removed or renamed"):
        await memory.propose(COFFEE)
    assert stored(tmp_path / "elsewhere") == before
    assert await memory.propose(COFFEE)
    assert [hit.item for hit in await memory.recall(Query(HERE))] == [COFFEE]
    shutil.rmtree(memory.folder)
    shutil.move(tmp_path / "elsewhere", memory.folder)
    with caplog.at_level(logging.ERROR):
        assert [hit.item for hit in await memory.recall(Query(HERE))] == [TEA]
    assert "was replaced by another folder" in caplog.text


async def test_a_folder_that_is_locked_or_read_only_says_so(tmp_path: Path) -> None:
    memory = FileMemory(tmp_path / "memory", lock_timeout=0.05)
    await memory.propose(TEA)
    other = FileMemory(memory.folder)
    await other.export(HERE)
    opened: Any = other._open
    with opened.folder.lock:
        with pytest.raises(StoreBusy):
            await memory.propose(COFFEE)
        assert await memory.recall(Query(HERE)), "a reader waited for a lock"
    assert await memory.propose(COFFEE)


async def test_a_read_only_folder_can_be_read(tmp_path: Path) -> None:
    memory = FileMemory(tmp_path / "memory")
    await memory.propose(TEA)
    again = FileMemory(memory.folder, files=ReadOnlyFiles())
    assert await again.recall(Query(HERE))
    with pytest.raises(ReadOnly, match="permissions"):
        await again.propose(COFFEE)
    assert await memory.propose(COFFEE)
    assert len(await again.recall(Query(HERE))) == 2


async def test_a_symbolic_link_in_the_folder_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"mine")
    memory = FileMemory(tmp_path / "memory")
    await memory.propose(TEA)
    memory.close()
    log = memory.folder / "log-000001"
    log.unlink()
    log.symlink_to(outside)
    with pytest.raises(StoreError, match="symbolic link"):
        await FileMemory(memory.folder).propose(COFFEE)
    assert outside.read_bytes() == b"mine"


def test_an_argument_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("folder", {"folder": ""}),
        ("folder", {"folder": "a\0b"}),
        ("folder", {"folder": 7}),
        ("embedder", {"embedder": "a model"}),
        ("lock_timeout", {"lock_timeout": -1}),
        ("garbage", {"garbage": 0}),
        ("garbage", {"garbage": True}),
        ("files", {"files": "files"}),
    ]
    for name, given in wrong:
        with pytest.raises(InvalidValue, match=name):
            FileMemory(**{"folder": tmp_path, **given})


async def test_one_memory_serves_several_event_loops_and_is_opened_again(tmp_path: Path) -> None:
    memory = FileMemory(tmp_path / "memory")
    told: list[bool] = []
    for _ in range(3):
        thread = threading.Thread(target=lambda: told.append(asyncio.run(memory.propose(TEA))))
        thread.start()
        await asyncio.to_thread(thread.join)
        memory.close()
    assert told == [True, False, False]

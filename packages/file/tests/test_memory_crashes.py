"""A crash at any operation of a memory loses nothing that was acknowledged; a full disk neither."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel import KernelError
from agentic_kernel_engine import StoreError, UnknownOutcome
from agentic_kernel_engine.seams import Item, Scope
from agentic_kernel_engine.seams.memories import InMemoryMemory
from agentic_kernel_file import FileMemory

from .disks import FailingFiles, RecordingFiles, UnsyncedFiles, crash_states

# The disk is played by the tests: it is the same under every interpreter.
pytestmark = pytest.mark.slow

HERE = Scope("acme", "ann", "monday")
Call = tuple[str, Callable[[FileMemory], Awaitable[object]]]


def item(id: str) -> Item:
    return Item(id, HERE, f"text of {id} " + "x" * 50)


EXPORTED = {
    "scope": {},
    "version": 1,
    "items": [{"id": f"r{n}", "text": f"r{n}"} for n in range(3)],
}
CALLS: list[Call] = [
    ("propose", lambda memory: memory.propose(item("a"))),
    ("propose", lambda memory: memory.propose(item("b"))),
    ("supersede", lambda memory: memory.supersede("a", item("c"))),
    ("tombstone", lambda memory: memory.tombstone(HERE, "b", "asked for")),
    ("restore", lambda memory: memory.restore(HERE, EXPORTED)),
    ("tombstone", lambda memory: memory.tombstone(HERE, "c", "asked for")),
    ("compact", lambda memory: memory.compact()),
    ("propose", lambda memory: memory.propose(item("d"))),
    ("compact", lambda memory: memory.compact()),
    ("supersede", lambda memory: memory.supersede("d", item("e"))),
]


async def states() -> list[Any]:
    """The items that a memory knows before the first call and after each."""
    plain: Any = InMemoryMemory()
    found = [(await plain.export(HERE))["items"]]
    for name, call in CALLS:
        if name != "compact":
            await call(plain)
        found.append((await plain.export(HERE))["items"])
    return found


class Crashes:
    """All calls on a recorded disk, to be looked at after a crash anywhere in them."""

    def __init__(self, folder: Path, files: RecordingFiles) -> None:
        self._folder = folder
        self.files = files

    async def work(self) -> None:
        place = self._folder / "memory"
        place.mkdir()
        memory = FileMemory(place, files=self.files, garbage=1 << 30)
        for number, (name, call) in enumerate(CALLS):
            self.files.note("begun", number, name)
            await call(memory)
            self.files.note("acknowledged", number, name)
        memory.close()

    async def look(self) -> set[str]:
        """Check every state; returns the calls during which there was one."""
        expected, looked = await states(), set()
        for place, way, state in crash_states(self.files.trace):
            notes = [rest for what, *rest in self.files.trace[: place + 1] if what == "note"]
            done = sum(note[0] == "acknowledged" for note in notes)
            begun = sum(note[0] == "begun" for note in notes)
            crashed = self._folder / f"{place}-{way}"
            _write_out(crashed, state)
            memory = FileMemory(crashed, files=UnsyncedFiles())
            found = (await memory.export(HERE))["items"]
            assert found in (expected[done], expected[begun]), f"{place} {way}"
            assert await memory.propose(item("afterwards"))
            again = FileMemory(crashed, files=UnsyncedFiles())
            assert [each["id"] for each in (await again.export(HERE))["items"]] == [
                *(each["id"] for each in found), "afterwards"
            ]  # fmt: skip
            looked.add(notes[-1][2] if begun > done else "between")
            memory.close()
            again.close()
        return looked


def _write_out(folder: Path, state: dict[str, bytes]) -> None:
    folder.mkdir()
    for path, content in state.items():
        if path.endswith("/"):
            (folder / path).mkdir()
        else:
            (folder / path).write_bytes(content)


async def test_no_crash_loses_what_was_acknowledged(tmp_path: Path) -> None:
    crashes = Crashes(tmp_path, RecordingFiles(tmp_path / "memory"))
    await crashes.work()
    done: set[tuple[str, str]] = {(each[0], str(each[1])[:5]) for each in crashes.files.trace}
    assert done >= {("create", "log-0"), ("remove", "log-0"), ("sync folder", "")}
    assert await crashes.look() >= {"propose", "supersede", "tombstone", "restore", "compact"}


class NoDataSync(RecordingFiles):
    def sync_data(self, fd: int) -> None:
        pass


class NoFolderSync(RecordingFiles):
    def sync(self, fd: int) -> None:
        if fd in self.opened:
            super().sync(fd)


@pytest.mark.parametrize("disk", [NoDataSync, NoFolderSync])
async def test_the_enumeration_notices_a_missing_sync(
    tmp_path: Path, disk: type[RecordingFiles]
) -> None:
    crashes = Crashes(tmp_path, disk(tmp_path / "memory"))
    await crashes.work()
    with pytest.raises((AssertionError, KernelError)):
        await crashes.look()


@pytest.mark.parametrize(
    ("error", "stays"),
    [(errno.EIO, False), (errno.ENOSPC, True)],
    ids=["EIO once", "ENOSPC from then on"],
)
@pytest.mark.parametrize("number", range(len(CALLS)), ids=lambda n: f"{n} {CALLS[n][0]}")
async def test_a_failing_disk_leaves_the_state_before(
    tmp_path: Path, number: int, error: int, stays: bool
) -> None:
    """A call that fails with a definite error has changed nothing, and can be made again."""
    expected, failed = await states(), False
    for at in range(80):
        files = FailingFiles()
        memory = FileMemory(tmp_path / f"{at}", files=files, garbage=1 << 30)
        for _, call in CALLS[:number]:
            await call(memory)
        files.arm(at, error, stays=stays)
        refused: StoreError | None = None
        try:
            await CALLS[number][1](memory)
        except StoreError as raised:
            refused = raised
        hit = bool(files.failed)
        files.heal()
        fresh = FileMemory(tmp_path / f"{at}", files=UnsyncedFiles())
        found = (await fresh.export(HERE))["items"]
        if refused is None:
            assert found == expected[number + 1]
        elif isinstance(refused, UnknownOutcome):
            assert found in (expected[number], expected[number + 1])
        else:
            assert found == expected[number]
            assert str(tmp_path) in str(refused)
        assert (await memory.export(HERE))["items"] == found
        if found == expected[number]:
            await CALLS[number][1](memory)
            assert (await fresh.export(HERE))["items"] == expected[number + 1]
        failed |= refused is not None
        memory.close()
        fresh.close()
        if not hit:
            break
    else:
        raise AssertionError("the call has more operations than were failed")
    assert failed

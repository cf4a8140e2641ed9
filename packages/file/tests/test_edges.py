"""The store checks arguments by name, and no internal type comes out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_file import FileStore, Sizes
from agentic_kernel_file.entry import folder_of

from .records import running, step

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("folder", ["", "a\0b", "a\ud800b", 7, None, b"state", object()])
def test_a_folder_that_is_no_path_is_refused(folder: Any) -> None:
    with pytest.raises(InvalidValue) as raised:
        FileStore(folder)
    assert raised.value.path == "folder"


@pytest.mark.parametrize("url", ["file://server/srv/tasks", "file:tasks", "file://server"])
def test_a_url_that_names_no_folder_of_this_machine_is_refused(url: str) -> None:
    with pytest.raises(InvalidValue, match="three slashes"):
        folder_of(url)


@pytest.mark.parametrize("url", ["file:///srv/my%20tasks", "file://localhost/srv/my%20tasks"])
def test_a_url_names_a_folder(url: str) -> None:
    assert folder_of(url) == Path("/srv/my tasks")


@pytest.mark.parametrize("seconds", [NAN, INF, -1, -INF, "5", None, True, 10**400])
def test_a_lock_timeout_that_is_no_time_is_refused(tmp_path: Path, seconds: Any) -> None:
    with pytest.raises(InvalidValue) as raised:
        FileStore(tmp_path, lock_timeout=seconds)
    assert raised.value.path == "lock_timeout"


@pytest.mark.parametrize("size", [0, -1, 1.5, "1", None, True, NAN])
@pytest.mark.parametrize("name", ["segment", "tail", "apart"])
def test_a_size_that_is_none_is_refused(name: str, size: Any) -> None:
    with pytest.raises(InvalidValue) as raised:
        Sizes(**{name: size})
    assert raised.value.path == f"sizes.{name}"


def test_files_and_sizes_of_another_type_are_refused(tmp_path: Path) -> None:
    for wrong in ({"files": "x"}, {"sizes": (1, 2)}):
        with pytest.raises(InvalidValue):
            FileStore(tmp_path, **wrong)


Call = Callable[[FileStore], Awaitable[object]]
CALLS: list[Call] = [
    lambda store: store.find(after=5),  # type: ignore[arg-type]
    lambda store: store.find(limit=10**30),
    lambda store: store.find(limit=-1),
    lambda store: store.find(limit=True),
    lambda store: store.find(due=datetime(2030, 1, 1)),
    lambda store: store.find(newest=True, after="a"),
    lambda store: store.find(kinds="loop"),
    lambda store: store.find(labels={"a": 1}),  # type: ignore[dict-item]
    lambda store: store.events("a", after=5),  # type: ignore[arg-type]
    lambda store: store.events("a", after=(1, "x")),  # type: ignore[arg-type]
    lambda store: store.events("a", limit=-1),
    lambda store: store.prune(datetime(2030, 1, 1)),
    lambda store: store.prune("2030"),  # type: ignore[arg-type]
    lambda store: store.prune(datetime.max, limit=1),
    lambda store: store.load(5),  # type: ignore[arg-type]
    lambda store: store.load_many([5]),  # type: ignore[list-item]
    lambda store: store.join(5),  # type: ignore[arg-type]
    lambda store: store.leave(None),  # type: ignore[arg-type]
    lambda store: store.alive(5),  # type: ignore[arg-type]
    lambda store: store.claim("a", 5),  # type: ignore[arg-type]
    lambda store: store.unreadable(after=5),  # type: ignore[arg-type]
    lambda store: store.unreadable(limit=-1),
    lambda store: store.bury("a", "1"),  # type: ignore[arg-type]
    lambda store: store.bury("a", 1, at=datetime(2030, 1, 1)),
    lambda store: store.insert(None),  # type: ignore[arg-type]
    lambda store: store.insert(running("b"), b"text"),  # type: ignore[arg-type]
    lambda store: store.insert(running("b"), ["text"]),  # type: ignore[list-item]
    lambda store: store.insert(running("b", owner="h\ud800:1")),
    lambda store: store.insert(running("b", parent="p\0")),
    lambda store: store.insert(running("b").changed(version=-1)),
    lambda store: store.insert(running("b").changed(version=1 << 70)),
    lambda store: store.insert(running("b").changed(state="text")),
    lambda store: store.insert(running("b").changed(realm="\ud800")),
    lambda store: store.commit(running("a"), None),  # type: ignore[arg-type]
    lambda store: store.commit(running("a"), step(running("a")), [7]),  # type: ignore[list-item]
    lambda store: store.commit(running("a"), step(running("a")), [b"1", bytearray(b"2")]),  # type: ignore[list-item]
    lambda store: store.commit(running("a"), step(running("a")).changed(inbox=({"x": object()},))),
]


@pytest.mark.parametrize("call", CALLS, ids=range(len(CALLS)))
async def test_a_wrong_argument_is_refused_by_name(tmp_path: Path, call: Call) -> None:
    store = FileStore(tmp_path / "state")
    await store.insert(running("a"))
    with pytest.raises(InvalidValue):
        await call(store)
    assert [record.task.id for record in await store.find()] == ["a"]
    assert await store.load("a") == running("a")
    await store.commit(running("a"), step(running("a")))
    store.close()

"""A record that cannot be read hides no other Task; it is named once, and can be buried."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agentic_kernel import Dispatch, Task, TaskNotFound, apply
from agentic_kernel_cli import rendering
from agentic_kernel_cli.control import kill, left_behind, prune
from agentic_kernel_cli.place import find_task, unreadable
from agentic_kernel_engine import Host, Record, Unreadable
from agentic_kernel_engine.stored import encode_record
from agentic_kernel_file import FileStore

from .terminals import Terminals

DAMAGED, NEWER = {"st": "asleep\x1b[2J"}, {"i": {"schema": 99}}


def a_record(name: str) -> Record:
    task = Task.new(summary=name, instructions="", runtime_kind="local", id=name)
    return Record(apply(task, Dispatch(), task.created_at), 1)


@pytest_asyncio.fixture
async def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three Tasks that read well, between two that do not."""
    store = FileStore(tmp_path / "state")
    spoiled: dict[str, dict[str, Any]] = {"damaged": DAMAGED, "newer-one": NEWER}
    for name in ("a-good", "damaged", "good-one", "newer-one", "z-good"):
        change = spoiled.get(name, {})
        with monkeypatch.context() as patch:
            patch.setattr(
                "agentic_kernel_file.frames.encode_record",
                lambda record, change=change: json.dumps(
                    {**json.loads(encode_record(record)), **change}
                ).encode(),
            )
            await store.insert(a_record(name), [b"{}"])
    store.close()
    return tmp_path / "state"


async def test_every_other_task_is_found_and_what_is_bad_can_be_buried(folder: Path) -> None:
    store = FileStore(folder)
    host = Host(store=store)
    good = ["a-good", "good-one", "z-good"]
    assert [task.id for task in await host.find()] == good
    assert [record.task.id for record in await left_behind(host)] == good
    assert [(each.task_id, each.newer) for each in await unreadable(host)] == [
        ("damaged", False),
        ("newer-one", True),
    ]
    for given in ("damaged", "damage", "newer-", "newer-one"):
        with pytest.raises(Unreadable):
            await find_task(host, given)
    assert (await find_task(host, "good-o")).task.id == "good-one"
    with pytest.raises(TaskNotFound):
        await kill(host, "nobody", force=True)
    with pytest.raises(Unreadable, match="with force"):
        await kill(host, "newer-one", force=False)
    for name, force in (("damage", False), ("newer-one", True)):
        task, told = await kill(host, name, force=force)
        assert (task.status, told.partition(":")[0]) == ("cancelled", "buried")
        assert await store.events(task.id) == [((1, 0), b"{}")]
    assert await unreadable(host) == []
    store.close()


@pytest.mark.slow
def test_list_says_once_what_it_cannot_read_and_show_says_what_to_do(
    folder: Path, terminals: Terminals
) -> None:
    assert terminals.state == folder
    listed = terminals.call("list")
    assert [line.split("\t")[0] for line in listed.out.splitlines()] == [
        "z-good",
        "good-one",
        "a-good",
    ]
    assert listed.err.count("\n") == 1
    assert listed.err.startswith("2 Tasks cannot be read: damaged, newer-one; ")
    lines = terminals.call("--json", "list").lines
    bad = [(line["id"], line["newer"]) for line in lines if line["kind"] == "unreadable"]
    assert bad == [("damaged", False), ("newer-one", True)]
    refused = terminals.call("show", "damaged", code=1)
    assert "kill the Task to bury it" in refused.err
    assert "\x1b" not in refused.err
    assert "force" in terminals.call("kill", "newer-one", code=1).err
    assert terminals.call("kill", "newer-one", "--force").out.startswith("newer-one: buried")
    assert terminals.call("prune", "--older-than", "0s", "--yes").out == "removed 1 Task\n"
    assert terminals.call("list").err.startswith("1 Task cannot be read: damaged; ")


async def test_prune_goes_past_what_cannot_be_read(folder: Path) -> None:
    store = FileStore(folder)
    host = Host(store=store)
    await kill(host, "a-good", force=False)
    assert await prune(host, timedelta(seconds=-60)) == 1
    assert len(await unreadable(host)) == 2
    await host.close()
    store.close()


def test_only_the_first_of_very_many_are_named() -> None:
    (line,) = rendering.unreadable_lines([Unreadable(f"t{n}\n", 1) for n in range(1_000)])
    assert line.startswith("1000 Tasks cannot be read: t0\\n, t1\\n, ")
    assert " and 980 more; " in line
    assert len(line) < 1_000

"""A command says for which children it waits although no process runs them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel import Dispatch, Kill, Mutation, Task, apply
from agentic_kernel_cli import children, control
from agentic_kernel_cli.place import Folder
from agentic_kernel_cli.stop import Stop
from agentic_kernel_cli.streaming import JsonScreen, TextScreen
from agentic_kernel_engine import Host, MemoryStore, Record, StoreError

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LOOKS = 5


class Watched(MemoryStore):
    """Counts the looks at the children of ``it``, and refuses the first one."""

    looks = 0

    def __init__(self) -> None:
        super().__init__()
        self.enough = asyncio.Event()

    async def find(self, **filters: Any) -> Sequence[Record]:
        if filters.get("parent") == "it" and filters.get("claimable"):
            self.looks += 1
            if self.looks == 1:
                raise StoreError("busy")
            if self.looks == 3:  # A Host has taken it after the second look.
                await self.claim("brief", "alive", [b'{"type": "task.claimed"}'])
            if self.looks > LOOKS:
                self.enough.set()
        return await super().find(**filters)

    async def keep(self, name: str, parent: str, owner: str | None, *then: Mutation) -> None:
        task = Task.new(id=name, summary="", instructions="", runtime_kind="clerk", at=NOW)
        for mutation in (Dispatch(), *then):
            task = apply(task, mutation, NOW)
        await self.insert(Record(task, parent=parent, owner=owner))


@pytest.mark.parametrize("kind", [TextScreen, JsonScreen])
async def test_a_child_that_stays_without_a_process_is_told_once(
    kind: type[TextScreen | JsonScreen],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(children, "EACH", 0)
    store = Watched()
    await store.join("alive")
    await store.keep("runs", "it", "alive:1")
    await store.keep("brief", "it", None)
    await store.keep("ended", "it", None, Kill())
    await store.keep("deep", "runs", None)

    def closed() -> None:
        raise AssertionError("the output is open")

    screen = JsonScreen(closed) if kind is JsonScreen else TextScreen(Folder(Path()), closed)
    minding = asyncio.ensure_future(children.mind_children(Host(store=store), ["it"], screen))
    await asyncio.wait_for(store.enough.wait(), 10)
    minding.cancel()
    with suppress(asyncio.CancelledError):
        await minding
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "runs waits for its child deep, which no process runs; a Host that serves clerk has to be "
        "running, with claims=True\n"
    )


@pytest.mark.parametrize("kind", [TextScreen, JsonScreen])
async def test_watch_tells_of_a_child_that_no_process_runs(
    kind: type[TextScreen | JsonScreen],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And of no child below a Task that no process runs, because that Task does not wait."""
    monkeypatch.setattr(children, "EACH", 0)
    store, stop = Watched(), Stop("left")
    await store.join("alive")
    await store.keep("it", "above", "alive:1")
    await store.keep("left", "it", None)
    await store.keep("below", "left", None)

    def closed() -> None:
        raise AssertionError("the output is open")

    async def remedy(task: Task) -> str:
        raise AssertionError("a process runs it")

    screen = JsonScreen(closed) if kind is JsonScreen else TextScreen(Folder(Path()), closed)
    host = Host(store=store)
    it = await host.get("it")
    watching = asyncio.ensure_future(control.watch(host, it, screen, stop, remedy))
    await asyncio.wait_for(store.enough.wait(), 10)
    stop.wish(130)
    assert await asyncio.wait_for(watching, 10) == 130
    told = [line for line in capsys.readouterr().err.splitlines() if "child" in line]
    assert told == [
        "it waits for its child left, which no process runs; a Host that serves clerk has to be "
        "running, with claims=True"
    ]

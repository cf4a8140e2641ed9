"""A process of release 0.1.0 on a Postgres schema that this version raises under it."""

from __future__ import annotations

import asyncio
import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel import Dispatch, Task, TaskStatus, apply
from agentic_kernel_engine import Record
from agentic_kernel_postgres import PostgresStore

from .postgres_server import schema as schema
from .postgres_server import server as server
from .released import beside, old_python, told

__all__ = ["old_python"]

pytestmark = [pytest.mark.torture, pytest.mark.rule("durable")]

WORKER = str(Path(__file__).with_name("released_store_worker.py"))


async def asked(process: subprocess.Popen[str], verb: str, name: str = "-") -> Any:
    """The answer of the release's process to one order."""
    assert process.stdin is not None
    assert process.stdout is not None
    print(verb, name, file=process.stdin, flush=True)
    return json.loads(await asyncio.to_thread(process.stdout.readline))


def record(name: str, **others: Any) -> Record:
    """A running Task of this version."""
    task = Task.new(id=name, summary="s", instructions="i", runtime_kind="k")
    return Record(apply(task, Dispatch(), datetime.now(UTC)), **others)


async def test_a_running_process_of_the_release_writes_no_more_once_the_schema_is_raised(
    old_python: Path, server: str, schema: str
) -> None:
    """Until then both write; then its Tasks are taken over, and it cannot open it anew."""
    with beside(old_python, WORKER, server, schema) as theirs:
        assert await asked(theirs, "join", "old") == "ok"
        assert await asked(theirs, "insert", "before") == "ok"
        async with PostgresStore(server, schema=schema) as store:
            await store.join("new")
            assert [each.task.id for each in await store.find(kinds=["k"])] == ["before"]
            await store.insert(record("plain"))
            assert await asked(theirs, "load", "plain") == "ok"
            assert await asked(theirs, "step", "before") == "ok"
            assert await asked(theirs, "insert", "late") == "ok"
            assert await store.claim("late", "new") is None, "its host is alive"

            await store.insert(record("newer", realm="acme"))
            newest = await store.find(newest=True)
            assert {each.task.id for each in newest} == {"before", "plain", "late", "newer"}
            for verb, name in (
                ("insert", "after"), ("step", "before"), ("pause", "before"), ("end", "before"),
                ("claim", "plain"), ("prune", "-"),
            ):  # fmt: skip
                said = await asked(theirs, verb, name)
                assert "upgrade agentic-kernel-postgres" in said, f"{verb}: {said}"
            claimed = await store.claim("late", "new")
            assert claimed is not None
            assert claimed.owner == f"new:{claimed.version}"
            assert (await store.load("before")).version == 2
            assert len(await store.find(status=TaskStatus.RUNNING)) == 4
    said = told(old_python, WORKER, server, schema, "once")
    assert "SchemaTooNew" in said
    assert "upgrade agentic-kernel-postgres" in said

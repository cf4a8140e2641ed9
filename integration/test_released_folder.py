"""A folder whose schema was raised: release 0.1.0 refuses it, and one that has it open as well."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from agentic_kernel import Dispatch, Task, apply
from agentic_kernel_engine import Record
from agentic_kernel_file import FileStore

from .released import beside, old_python, told

__all__ = ["old_python"]

pytestmark = [pytest.mark.torture, pytest.mark.rule("durable")]

PROGRAM = """
import asyncio, sys
from agentic_kernel import Dispatch, Task, apply
from agentic_kernel_engine import Record
from agentic_kernel_file import FileStore

async def main():
    store = FileStore(sys.argv[1])
    for line in sys.stdin:
        verb, name = line.split()
        try:
            if verb == "insert":
                task = Task.new(id=name, summary="", instructions="", runtime_kind="test")
                await store.insert(Record(apply(task, Dispatch(), task.created_at)))
            else:
                await store.load(name)
            print("done", flush=True)
        except Exception as error:
            print(type(error).__name__, error, flush=True)

asyncio.run(main())
"""
WRITES = {
    "realm": {"realm": "acme"},
    "terms": {"terms": b"{}"},
    "form": {"state": b"1", "form": "loop/3"},
    "a large state": {"state": b'"%s"' % (b"x" * 100_000)},
}


def _record(name: str) -> Record:
    task = Task.new(id=name, summary="", instructions="", runtime_kind="test")
    return Record(apply(task, Dispatch(), task.created_at))


async def _asked(process: subprocess.Popen[str], *words: str) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    print(*words, file=process.stdin, flush=True)
    return (await asyncio.to_thread(process.stdout.readline)).strip()


@pytest.mark.parametrize("fields", WRITES.values(), ids=WRITES)
async def test_a_raised_folder_is_refused_by_the_release_even_if_it_has_it_open(
    tmp_path: Path, old_python: Path, fields: dict[str, object]
) -> None:
    folder = tmp_path / "state"
    store = FileStore(folder)
    with beside(old_python, "-c", PROGRAM, str(folder)) as running:
        assert await _asked(running, "insert", "theirs") == "done"
        await store.insert(_record("ours"))
        assert await _asked(running, "load", "ours") == "done"
        assert await _asked(running, "insert", "more") == "done"
        raised = _record("raised").changed(**fields)
        await store.insert(raised)
        for verb, name in (("insert", "lost"), ("load", "raised"), ("insert", "lost")):
            answer = await _asked(running, verb, name)
            assert answer.startswith("SchemaTooNew")
            assert "upgrade agentic-kernel-file" in answer
    fresh = (
        "import asyncio, sys\nfrom agentic_kernel_file import FileStore, SchemaTooNew\n"
        "try: asyncio.run(FileStore(sys.argv[1]).find())\n"
        "except SchemaTooNew as error: print(error)"
    )
    said = await asyncio.to_thread(told, old_python, "-c", fresh, str(folder))
    assert "upgrade agentic-kernel-file" in said
    assert [record.task.id for record in await store.find()] == ["more", "ours", "raised", "theirs"]
    assert await store.load("raised") == raised
    await store.insert(_record("further"))
    store.close()

"""This version goes on with a state that release 0.1.0 wrote, and shares plain Tasks with it."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel import TaskStatus
from agentic_kernel_engine import Host
from agentic_kernel_engine.seams import InMemoryApprovals

from .postgres_server import schema as schema
from .postgres_server import server as server
from .released import NotReleased, _archive, beside, old_python, released, told
from .released_worker import ANSWER, CRASHED, LEFT, host, opened, task

__all__ = ["old_python"]

pytestmark = [pytest.mark.torture, pytest.mark.rule("durable")]

WORKER = str(Path(__file__).with_name("released_worker.py"))
PATIENCE = 60.0


@pytest.fixture(params=["file", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where the state is, in the words of the worker."""
    if request.param == "file":
        yield str(tmp_path / "state")
        return
    server = request.getfixturevalue("server")
    yield f"{server}|{request.getfixturevalue('schema')}"


async def asked(process: subprocess.Popen[str], *words: str) -> Any:
    """The answer of the release's process to one order."""
    assert process.stdin is not None
    assert process.stdout is not None
    print(*words, file=process.stdin, flush=True)
    return json.loads(await asyncio.to_thread(process.stdout.readline))


def test_the_environment_holds_the_release_and_nothing_of_this_version(old_python: Path) -> None:
    program = (
        "import importlib.metadata as m, agentic_kernel_engine as e\n"
        "print(m.version('agentic-kernel-engine'), e.__file__)"
    )
    version, file = told(old_python, "-c", program).split()
    assert version == "0.1.0"
    assert Path(file).is_relative_to(old_python.parents[1])


def test_a_second_call_finds_the_environment(old_python: Path) -> None:
    made = old_python.parents[1].stat().st_ino
    assert released(old_python.parents[2]) == old_python
    assert old_python.parents[1].stat().st_ino == made


def test_a_folder_without_the_history_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(NotReleased, match="git fetch --unshallow"):
        _archive(tmp_path)


async def test_a_state_of_the_release_is_read_and_goes_on_to_its_end(
    old_python: Path, place: str
) -> None:
    await asyncio.to_thread(told, old_python, WORKER, place, "write", code=CRASHED)
    async with opened(place) as store:
        approvals = InMemoryApprovals()
        async with Host(store=store, approvals=approvals) as desk:
            found = {each.id: each for each in await desk.find()}
            assert {name: each.status.value for name, each in found.items()} == LEFT
            assert found["done"].result == ANSWER
            shown = [event async for event in desk.stream("done")]
            assert (shown[0].type, shown[-1].type) == ("task.dispatched", "task.completed")
            request = await approvals.next()
            assert (request.task_id, request.action["arguments"]) == ("asked", {"amount": 40})
            await desk.approve("asked", request.digest, by="ann")
        async with host(store) as ours, asyncio.timeout(PATIENCE):
            ended = {name: await ours.wait(name) for name in LEFT}
    after = {**LEFT, "asked": "success", "crashed": "success"}
    assert {name: each.status.value for name, each in ended.items()} == after
    assert ended["asked"].result == ended["crashed"].result == ANSWER


async def test_both_versions_share_plain_tasks(old_python: Path, place: str) -> None:
    """Until a Task needs something that the release does not know, both may run on one state."""
    success = [TaskStatus.SUCCESS.value, ANSWER]
    names = [f"{who}-{n}" for who in ("ours", "theirs") for n in range(3)]
    with beside(old_python, WORKER, place, "share") as theirs:
        async with opened(place) as store, host(store) as ours:
            for n in range(3):
                assert await asked(theirs, "run", f"theirs-{n}") == success
                assert (await ours.get(f"theirs-{n}")).status is TaskStatus.SUCCESS
                await ours.run(task(f"ours-{n}", "look"))
                assert await asked(theirs, "show", f"ours-{n}") == success
            assert [each.id for each in await ours.find()] == names
    assert json.loads(told(old_python, WORKER, place, "read")) == dict.fromkeys(names, success)

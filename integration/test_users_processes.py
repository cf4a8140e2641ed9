"""A service for three users, one Host in each of two processes, killed and taken over (R19)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentic_kernel import TaskStatus
from agentic_kernel_engine import Store
from agentic_kernel_file import FileStore
from agentic_kernel_postgres import PostgresStore

from .postgres_server import schema as schema
from .postgres_server import server as server
from .users_worker import STEPS

USERS = ("ann", "bob", "cid")
TASKS = 3


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


def start(
    processes: list[subprocess.Popen[str]], place: str, log: Path, users: str, tasks: int = 0
) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "integration.users_worker", place, str(log), users, str(tasks)]
    processes.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
    stdout = processes[-1].stdout
    assert stdout is not None
    assert stdout.readline() == "ready\n"
    return processes[-1]


def lines(log: Path) -> list[list[str]]:
    return [line.split() for line in log.read_text().splitlines()] if log.exists() else []


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for other processes, which only the store and the log tell of."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.02)


def judge(log: Path) -> Counter[str]:
    """Every call was made for the Task's own user, with that user's scopes."""
    steps: Counter[str] = Counter()
    for task_id, _, who, scopes in lines(log):
        name = task_id.partition("-")[0]
        assert (who, scopes) == (f"{name}@{name}-inc", f"{name}'s")
        steps[task_id] += 1
    return steps


async def statuses(store: Store) -> dict[str, TaskStatus]:
    return {record.task.id: record.task.status for record in await store.find()}


@pytest.mark.rule("R19")
@pytest.mark.parametrize("medium", ["files", pytest.param("postgres", marks=pytest.mark.torture)])
def test_each_call_is_made_for_the_tasks_own_user(
    medium: str, tmp_path: Path, request: pytest.FixtureRequest,
    processes: list[subprocess.Popen[str]],
) -> None:  # fmt: skip
    place, log = str(tmp_path / "state"), tmp_path / "calls"
    if medium == "postgres":
        server, schema = request.getfixturevalue("server"), request.getfixturevalue("schema")
        place = f"{server}#{schema}"

    def found() -> dict[str, TaskStatus]:
        async def look() -> dict[str, TaskStatus]:
            if medium == "files":
                return await statuses(FileStore(place))
            async with PostgresStore(server, schema=schema) as store:
                return await statuses(store)

        return asyncio.run(look())

    # The second process may act for two of the users; the Tasks of the third wait for somebody.
    second = start(processes, place, log, "bob,cid")
    first = start(processes, place, log, ",".join(USERS), TASKS)
    until(lambda: len(lines(log)) > 15)
    first.kill()
    until(lambda: list(found().values()).count(TaskStatus.SUCCESS) == 2 * TASKS)
    left = found()
    assert {left[f"ann-{number}"] for number in range(TASKS)} == {TaskStatus.RUNNING}
    calls_of_ann = sum(line[0].startswith("ann-") for line in lines(log))
    time.sleep(0.5)  # Several looks of the second process, in which it must take nothing.
    assert sum(line[0].startswith("ann-") for line in lines(log)) == calls_of_ann
    second.kill()
    start(processes, place, log, "ann")
    until(lambda: set(found().values()) == {TaskStatus.SUCCESS})
    steps = judge(log)
    assert len(steps) == len(USERS) * TASKS
    # A call that the kill cut may have been made a second time, by the same key.
    assert all(STEPS <= count <= STEPS + 2 for count in steps.values()), steps

"""R20 with two processes: one runs the real local model, the other watches and kills its Task."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from agentic_kernel import TaskStatus
from agentic_kernel_engine import Event, Host
from agentic_kernel_engine.events import RUN_DELTA
from agentic_kernel_engine.texts import Texts
from agentic_kernel_engine.values import decode

from .postgres_server import schema as schema
from .postgres_server import server as server
from .streaming_worker import opened
from .test_sqlite_processes import ROOT

pytestmark = pytest.mark.slow

PATIENCE = 60.0
ENOUGH = 60
"""Characters of an answer after which the watcher acts; an answer has far more."""


@pytest.fixture(params=["file", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """The words by which a process opens the store."""
    if request.param == "file":
        return ["file", str(tmp_path / "state")]
    names = ("server", "schema")
    return ["postgres", *(request.getfixturevalue(name) for name in names)]


@pytest_asyncio.fixture
async def host(place: list[str]) -> AsyncIterator[Host]:
    """A Host of this process, which runs nothing."""
    async with AsyncExitStack() as stack:
        store = await opened(stack, *place)
        yield await stack.enter_async_context(Host(store=store))


@contextmanager
def worker(place: list[str], *words: str) -> Iterator[subprocess.Popen[str]]:
    """A process that runs a Task; it is killed when the block ends."""
    process = subprocess.Popen(
        [sys.executable, "-m", "integration.streaming_worker", *place, *words],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


async def seen(host: Host, task_id: str) -> str:
    """The text that another process has said so far, once there is enough of it in two flushes."""
    texts = Texts()
    flushes = 0
    async with asyncio.timeout(PATIENCE):
        async for event in host.stream(task_id):
            texts.take(event)
            flushes += event.type == RUN_DELTA
            if flushes > 1 and len(texts.text()) >= ENOUGH:
                return texts.text()
    raise AssertionError(f"the stream ended after {texts.text()!r}")


async def said(host: Host, task_id: str) -> tuple[list[Event], str]:
    """The events with text of a Task, and the text."""
    events = (await host.outcome(task_id)).events
    return [event for event in events if event.type == RUN_DELTA], Texts(events).text()


@pytest.mark.rule("R20", "R11")
async def test_another_process_streams_an_answer_and_its_kill_keeps_it(
    place: list[str], host: Host
) -> None:
    with worker(place, "run", "story"):
        text = await seen(host, "story")
        record = await host.record("story")
        assert record.task.status is TaskStatus.RUNNING
        state = None if record.state is None else decode(record.state)
        assert not state or "said" not in state, "a pause has kept the text, and not a flush"
        killed = (await host.kill("story")).snapshot
    kept = killed.metadata["local/partial_output"]
    assert kept.startswith(text)
    deltas, joined = await said(host, "story")
    assert joined == kept
    assert len(deltas) > 1
    assert deltas[0].data["at"] == 0


@pytest.mark.rule("R20")
async def test_the_text_of_a_killed_process_stays_and_its_heir_goes_on_from_it(
    place: list[str], host: Host
) -> None:
    with worker(place, "run", "story") as victim:
        text = await seen(host, "story")
        victim.kill()
        victim.wait()
    deltas, kept = await said(host, "story")
    assert kept.startswith(text)
    with worker(place, "recover", "story"):
        assert (await host.record("story")).attempts == 2
        async with asyncio.timeout(PATIENCE):
            texts = 0
            async for event in host.stream("story"):
                texts += event.type == RUN_DELTA
                if texts == len(deltas) + 2:
                    break
        assert (await host.kill("story")).changed
    later, now = await said(host, "story")
    anew = later[len(deltas) :]
    assert [event.data.get("at") for event in later].count(0) == 1
    assert anew[0].data["at"] == len(kept)
    assert now == kept + "".join(event.data["text"] for event in anew)

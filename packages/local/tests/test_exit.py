"""Leaving the process in the middle of an answer: no abort, no hang, whichever way it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

pytestmark = pytest.mark.slow

SCRIPT = """
import asyncio, sys
from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import drain_on_signals
from agentic_kernel_local import LocalRuntime

class Told:
    def __init__(self):
        self.flowing = asyncio.Event()

    def observe(self, task_id, event):
        if event.type == "run.delta" and not self.flowing.is_set():
            self.flowing.set()
            print("flowing", flush=True)

async def main(way):
    told = Told()
    options = dict(slots=1, context_tokens=1024, max_tokens=900, observer=told)
    task = Task.new(summary="", runtime_kind="local", id="t",
                    instructions="Count from 1 to 400, one number per line.")
    if way == "drained":
        async with LocalRuntime(**options) as runtime:
            async with drain_on_signals(runtime, pause=True):
                await runtime.dispatch(task)
                await runtime.wait("t", TaskStatus.PAUSED)
                print((await runtime.get("t")).status, flush=True)
        return
    runtime = LocalRuntime(**options)
    await runtime.dispatch(task)
    await told.flowing.wait()
    if way == "interrupted":
        async with runtime:
            await runtime.wait("t")
    if way == "unclosed":
        await runtime.wait("t")
    if way == "exited":
        sys.exit(7)

asyncio.run(main(sys.argv[1]))
"""
ABANDON = """
import asyncio, atexit
# Registered before the engine's, so that it runs after it.
atexit.register(lambda: print(heard[1]._reader._tokens, flush=True))
from agentic_kernel_local.engine import Engine, EngineOptions, Request
from agentic_kernel_local.generation import Piece
from agentic_kernel_local.model import find_model

heard = []

async def main():
    engine = await Engine.open(EngineOptions(find_model(), slots=1, context_tokens=1024))
    wish = {"role": "user", "content": "Write a story about a lighthouse keeper and a storm."}
    held = engine.generate(Request([wish], 900))
    heard.append(held)
    items = await held.__aenter__()
    async for item in items:
        if isinstance(item, Piece):
            break
    heard.extend(engine._running)

loop = asyncio.new_event_loop()
loop.run_until_complete(main())
"""
FIRST = """
import sys
from agentic_kernel_local import LocalRuntime

runtime = LocalRuntime(slots=1, context_tokens=1024, max_tokens=8)
print(runtime.run_sync("Say hi.").task.status)
"""
DEADLINE = 60.0


@contextmanager
def process(script: str, way: str = "") -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(
        [sys.executable, "-c", script, way],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        child.stderr.close()


def wait_until_it_flows(child: subprocess.Popen[str]) -> None:
    assert child.stdout is not None
    for line in child.stdout:
        if line == "flowing\n":
            return
    raise AssertionError(child.communicate()[1])


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    ("way", "number", "code"),
    [
        ("interrupted", signal.SIGINT, -signal.SIGINT),
        pytest.param("unclosed", signal.SIGINT, -signal.SIGINT, marks=pytest.mark.torture),
        ("unclosed", signal.SIGTERM, -signal.SIGTERM),
        pytest.param("drained", signal.SIGINT, 0, marks=pytest.mark.torture),
        ("drained", signal.SIGTERM, 0),
    ],
)
def test_a_signal_in_the_middle_of_an_answer_ends_the_process_as_it_should(
    way: str, number: signal.Signals, code: int
) -> None:
    with process(SCRIPT, way) as child:
        wait_until_it_flows(child)
        child.send_signal(number)
        output, errors = child.communicate(timeout=DEADLINE)
        assert child.returncode == code, errors
        if way == "drained":
            assert output.splitlines()[-1] == "paused"


@pytest.mark.parametrize(("way", "code"), [("exited", 7), ("returned", 0)])
def test_the_program_may_end_without_closing_anything(way: str, code: int) -> None:
    with process(SCRIPT, way) as child:
        _, errors = child.communicate(timeout=DEADLINE)
        assert child.returncode == code, errors
        assert errors == "", "llama.cpp is quiet"


def test_a_generation_that_was_left_running_is_stopped_at_exit() -> None:
    with process(ABANDON) as child:
        output, errors = child.communicate(timeout=DEADLINE)
        assert child.returncode == 0, errors
        assert 0 < int(output) < 100


@pytest.mark.parametrize(
    ("last", "code"),
    [
        ("", 0),
        pytest.param("sys.exit(7)", 7, marks=pytest.mark.torture),
        pytest.param("raise SystemExit", 0, marks=pytest.mark.torture),
    ],
)
def test_a_program_of_run_sync_ends_in_silence(last: str, code: int) -> None:
    with process(FIRST + last) as child:
        output, errors = child.communicate(timeout=DEADLINE)
        assert (child.returncode, output, errors) == (code, "failure\n", "")

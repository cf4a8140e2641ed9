"""The event loop of `run_sync` in several threads."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from agentic_kernel_engine import HostClosed, MemoryStore
from agentic_kernel_engine.loop import Context, FinalAnswer, Plan, ToolCall
from agentic_kernel_engine.providers import ProviderRuntime

THREADS = 4
PATIENCE = 20.0


class Gated:
    """A planner that answers a Task with its text, as soon as its gate is open."""

    impl = "gated"

    def __init__(self) -> None:
        self.together = threading.Semaphore(0)
        """Released once for each call that has begun."""
        self.gates: dict[str, threading.Event] = {}
        self.over = False
        """True at the end of the test: all gates are open."""
        self.closing = False

    async def plan(self, context: Context) -> AsyncIterator[Plan]:
        text = context.task.instructions
        if text == "close" and not self.closing:
            self.closing = True
            yield Plan((ToolCall("close", {}),))
            return
        self.together.release()
        gate = self.gates.setdefault(text, threading.Event())
        while not (gate.is_set() or self.over):
            await asyncio.sleep(0.002)
        yield Plan((FinalAnswer(text),))

    async def close(self) -> None:
        pass

    def begun(self, calls: int) -> None:
        """Wait until so many further calls have begun."""
        for _ in range(calls):
            assert self.together.acquire(timeout=PATIENCE)

    def open(self, text: str) -> None:
        self.gates.setdefault(text, threading.Event()).set()


@pytest.fixture
def planner() -> Gated:
    return Gated()


@pytest.fixture
def ready(planner: Gated) -> Iterator[ProviderRuntime]:
    given: Any = {"store": MemoryStore(), "grace": 0.1}
    made = ProviderRuntime(planner, "gated", (), given.pop("store"), given)
    yield made
    made.close_sync()


@pytest.fixture
def pool(planner: Gated) -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(THREADS) as made:
        yield made
        planner.over = True


@pytest.mark.parametrize("again", [False, True], ids=["first", "later"])
def test_calls_of_several_threads_run_at_the_same_time(
    planner: Gated, ready: ProviderRuntime, pool: ThreadPoolExecutor, again: bool
) -> None:
    if again:
        planner.open("before")
        assert ready.run_sync("before").unwrap() == "before"
        planner.begun(1)
    texts = [f"text {number}" for number in range(THREADS)]
    calls = [pool.submit(ready.run_sync, text) for text in texts]
    planner.begun(THREADS)
    for text in texts:
        planner.open(text)
    assert [each.result(PATIENCE).unwrap() for each in calls] == texts


def test_a_call_goes_on_after_the_call_whose_thread_ran_the_loop(
    planner: Gated, ready: ProviderRuntime, pool: ThreadPoolExecutor
) -> None:
    first = pool.submit(ready.run_sync, "first")
    planner.begun(1)
    second = pool.submit(ready.run_sync, "second")
    third = pool.submit(ready.run_sync, "third")
    planner.begun(2)
    planner.open("third")
    assert third.result(PATIENCE).unwrap() == "third"
    assert not first.done()
    planner.open("first")
    assert first.result(PATIENCE).unwrap() == "first"
    assert not second.done()
    planner.open("second")
    assert second.result(PATIENCE).unwrap() == "second"


def test_an_error_comes_in_the_thread_of_its_call(
    planner: Gated, ready: ProviderRuntime, pool: ThreadPoolExecutor
) -> None:
    first = pool.submit(ready.run_sync, "first")
    planner.begun(1)
    number: Any = 7
    wrong = pool.submit(ready.run_sync, number)
    with pytest.raises(ValueError, match="is 7"):
        wrong.result(PATIENCE)
    planner.open("first")
    assert first.result(PATIENCE).unwrap() == "first"


def test_closing_in_another_thread_ends_each_call(
    planner: Gated, ready: ProviderRuntime, pool: ThreadPoolExecutor
) -> None:
    calls = [pool.submit(ready.run_sync, text) for text in ("first", "second")]
    planner.begun(2)
    ready.close_sync()
    for each in calls:
        with pytest.raises(HostClosed):
            each.result(PATIENCE)
    with pytest.raises(HostClosed):
        ready.run_sync("third")


def test_a_tool_does_not_close_its_own_runtime(planner: Gated) -> None:
    said: list[str] = []
    ready = ProviderRuntime(planner, "gated", (), None, {})

    @ready.tool(effect="none")
    def close() -> str:
        """Close the runtime."""
        try:
            ready.close_sync()
        except RuntimeError as error:
            said.append(str(error))
        return "tried"

    planner.open("close")
    assert ready.run_sync("close").unwrap() == "close"
    ready.close_sync()
    assert "close it outside" in said[0]


INTERRUPTED = """
    import asyncio, signal, sys, threading

    from agentic_kernel_engine.loop import FinalAnswer, Plan
    from agentic_kernel_engine.providers import ProviderRuntime

    # A parent that runs in the background leaves it ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    begun = {"main": threading.Event(), "aside": threading.Event()}
    late = threading.Event()

    class Slow:
        impl = "slow"

        async def plan(self, context):
            begun[context.task.instructions].set()
            while not late.is_set():
                await asyncio.sleep(0.002)
            yield Plan((FinalAnswer("answered"),))

        async def close(self):
            print("closed")

    ready = ProviderRuntime(Slow(), "slow", (), None, {"grace": 0.1})

    def beside():
        if sys.argv[1] == "runs":
            begun["main"].wait(10)
        print(ready.run_sync("aside").unwrap())

    def interrupt():
        begun["main"].wait(10), begun["aside"].wait(10)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    thread = threading.Thread(target=beside)
    thread.start()
    threading.Thread(target=interrupt).start()
    if sys.argv[1] == "waits":
        begun["aside"].wait(10)
    try:
        ready.run_sync("main")
    except KeyboardInterrupt:
        print("interrupted")
    late.set()
    thread.join()
"""


@pytest.mark.parametrize("main", ["runs", "waits"])
def test_an_interrupt_ends_the_call_of_the_main_thread_alone(main: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-X", "dev", "-c", textwrap.dedent(INTERRUPTED), main],
        capture_output=True, text=True, check=False, timeout=15,
    )  # fmt: skip
    assert ended.stdout.split() == ["interrupted", "answered", "closed"]
    assert (ended.returncode, ended.stderr) == (0, "")

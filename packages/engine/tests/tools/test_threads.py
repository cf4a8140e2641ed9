"""Threads of tools: those that hang stop no other, and are bounded, counted and named."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_engine.plans.action import FinalAnswer, ToolCall
from agentic_kernel_engine.plans.observation import HANDLER_ERROR, NO_THREAD, TIMEOUT
from agentic_kernel_engine.tools.threads import SHARED, ToolThreads
from agentic_kernel_engine.tools.tool import Tool, ToolContext, tool

from ..scripting import Runner
from .calling import ANYTHING, call, context


class Hanging:
    """Functions that hang until they are let go."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.begun = threading.Semaphore(0)
        self.returned = threading.Semaphore(0)

    def hang(self, arguments: dict[str, Any]) -> Any:
        self.begun.release()
        self.go_on.wait(60)
        self.returned.release()

    def tool(self, name: str = "hang", **declared: Any) -> Tool:
        return Tool(name, self.hang, input_schema=ANYTHING, **declared)

    async def wait_until_begun(self, count: int) -> None:
        for _ in range(count):
            await asyncio.to_thread(self.begun.acquire, timeout=60)


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    made = Hanging()
    yield made
    made.go_on.set()


class Talking(Hanging):
    """Hanging functions that report before and after."""

    def talk(self, arguments: dict[str, Any], told: ToolContext) -> None:
        told.progress("before")
        self.hang(arguments)
        told.progress("after")
        self.said.release()

    def __init__(self) -> None:
        super().__init__()
        self.said = threading.Semaphore(0)

    async def go_on_and_wait(self) -> None:
        self.go_on.set()
        await asyncio.to_thread(self.said.acquire, timeout=60)
        await asyncio.sleep(0)  # The event loop hears of the report.


@pytest.mark.parametrize("ended", ["in a later step", "in the same step", "after the run"])
async def test_an_abandoned_tool_is_not_heard_any_more(
    runner: Runner, ended: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def go_on(arguments: dict[str, Any]) -> None:
        await talking.go_on_and_wait()

    talking = Talking()
    talk = Tool("talk", talking.talk, input_schema=ANYTHING, timeout=0.25, concurrent=False)
    after = Tool("after", go_on, input_schema=ANYTHING, concurrent=False)
    calls: list[Any] = [ToolCall("talk"), ToolCall("after")]
    script = {"in a later step": calls, "in the same step": [calls]}.get(ended, calls[:1])
    task = await runner.run(*script, FinalAnswer("done"), tools=[talk, after])
    if ended == "after the run":
        await talking.go_on_and_wait()
    assert task.result == "done"
    events = await runner.events(task)
    reports = [event.data["report"] for event in events if event.type == "tool.progress"]
    assert reports == ["before"]
    assert [record for record in caplog.records if record.name == "asyncio"] == []


async def test_a_call_that_goes_on_reports_nothing_in_a_later_step(runner: Runner) -> None:
    told: list[ToolContext] = []

    async def first(arguments: dict[str, Any], context: ToolContext) -> None:
        context.progress("now")
        told.append(context)

    async def second(arguments: dict[str, Any], context: ToolContext) -> None:
        told[0].progress("late")

    tools = [Tool(f.__name__, f, input_schema=ANYTHING) for f in (first, second)]
    script = (ToolCall("first"), ToolCall("second"), FinalAnswer("done"))
    task = await runner.run(*script, tools=tools)
    events = await runner.events(task)
    assert [e.data["report"] for e in events if e.type == "tool.progress"] == ["now"]


def on(threads: ToolThreads) -> ToolContext:
    told = context()
    told.threads = threads
    return told


@tool(effect="none")
def quick() -> str:
    """Return at once."""
    return "quick"


async def hung(target: Tool, threads: ToolThreads, hanging: Hanging, count: int) -> None:
    """Leave so many threads behind."""
    runs = [asyncio.create_task(call(target, told=on(threads))) for _ in range(count)]
    await hanging.wait_until_begun(count)
    for run in runs:
        run.cancel()
    await asyncio.gather(*runs, return_exceptions=True)


async def test_hung_tools_leave_the_executor_of_the_event_loop_alone(hanging: Hanging) -> None:
    """More of them than that executor ever has threads: 32, or fewer on a small machine."""
    threads = ToolThreads(40)
    runs = [asyncio.create_task(call(hanging.tool(), told=on(threads))) for _ in range(36)]
    await hanging.wait_until_begun(36)
    async with asyncio.timeout(60):
        found = await asyncio.get_running_loop().getaddrinfo("127.0.0.1", 80)
        assert found[0][4] == ("127.0.0.1", 80)
        assert await asyncio.to_thread(os.getpid) == os.getpid()
        assert (await call(quick, told=on(threads))).output == "quick"
    hanging.go_on.set()
    assert all(await asyncio.gather(*runs))


async def test_abandoned_threads_leave_as_much_room_as_before(hanging: Hanging) -> None:
    threads = ToolThreads(2, abandoned=8)
    await hung(hanging.tool(), threads, hanging, 2)
    await hung(hanging.tool(), threads, hanging, 2)
    assert threads.abandoned == 4
    both = threading.Barrier(2)

    @tool
    def meet() -> bool:
        return both.wait(60) >= 0

    met = await asyncio.gather(*(call(meet, told=on(threads)) for _ in range(2)))
    assert [each.output for each in met] == [True, True]


async def test_a_call_waits_for_a_thread_and_gets_the_one_that_takes_an_abandoned_ones_place(
    hanging: Hanging,
) -> None:
    threads = ToolThreads(1)
    first = asyncio.create_task(call(hanging.tool(), told=on(threads)))
    await hanging.wait_until_begun(1)
    second = asyncio.create_task(call(quick, told=on(threads)))
    await asyncio.sleep(0)
    assert not second.done()
    first.cancel()
    assert (await asyncio.wait_for(second, 60)).output == "quick"


async def test_at_the_bound_a_call_is_refused_at_once_until_a_thread_returns(
    hanging: Hanging,
) -> None:
    threads = ToolThreads(2, abandoned=2)
    await hung(hanging.tool(), threads, hanging, 2)
    refused = await call(quick, told=on(threads))
    assert refused.error == NO_THREAD
    assert "2 tool threads hang, and the limit is 2; the call was not begun" in refused.message
    assert "abandoned= of ToolThreads" in refused.message
    hanging.go_on.set()
    while threads.abandoned:
        await asyncio.sleep(0)
    assert (await call(quick, told=on(threads))).output == "quick"


async def test_a_call_that_found_no_thread_in_its_time_was_not_begun(hanging: Hanging) -> None:
    threads = ToolThreads(1)
    first = asyncio.create_task(call(hanging.tool(), told=on(threads)))
    await hanging.wait_until_begun(1)
    ran: list[int] = []
    late = Tool("late", lambda given: ran.append(1), input_schema=ANYTHING, timeout=0.01)
    observation = await call(late, told=on(threads))
    assert observation.error == TIMEOUT
    assert "no thread of 1 was free for it within 0.01 seconds" in observation.message
    assert "was not begun" in observation.message
    assert threads.abandoned == 0
    hanging.go_on.set()
    await first
    assert (await call(quick, told=on(threads))).ok
    assert ran == []


async def test_a_tool_that_hangs_is_named_once_in_the_log(
    hanging: Hanging, caplog: pytest.LogCaptureFixture
) -> None:
    threads = ToolThreads(4, abandoned=9)
    with caplog.at_level(logging.WARNING, "agentic_kernel_engine"):
        await hung(hanging.tool("first"), threads, hanging, 2)
        await hung(hanging.tool("second"), threads, hanging, 1)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert "'first' did not return" in said[0]
    assert "1 of at most 9" in said[0]
    assert "'second' did not return" in said[1]
    assert "3 of at most 9" in said[1]


async def test_a_timeout_abandons_the_thread_and_the_history_says_so(
    runner: Runner, hanging: Hanging
) -> None:
    threads = ToolThreads(1, abandoned=7)
    tools = [hanging.tool("stuck", timeout=1, effect="none"), quick]
    script = (ToolCall("stuck"), ToolCall("quick"), FinalAnswer("done"))
    done = await runner.run(*script, tools=tools, threads=threads)
    assert done.result == "done"
    events = await runner.events(done)
    (said,) = [event.data for event in events if event.type == "tool.abandoned"]
    assert said == {"tool": "stuck", "index": 0, "abandoned": 1, "limit": 7}
    observed = [e.data["observations"][0] for e in events if e.type == "step.observed"]
    assert [each.get("error", "") for each in observed] == [TIMEOUT, "", ""]
    assert threads.abandoned == 1


async def test_no_more_functions_run_at_once_than_the_limit() -> None:
    threads, lock = ToolThreads(3), threading.Lock()
    running = most = 0
    full = threading.Barrier(3)

    @tool
    def count() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        full.wait(60)
        with lock:
            running -= 1

    await asyncio.gather(*(call(count, told=on(threads)) for _ in range(12)))
    assert most == 3


async def test_a_thread_sees_the_context_variables_of_its_call() -> None:
    variable = contextvars.ContextVar("variable", default="")
    variable.set("mine")
    seen = Tool("look", lambda given: variable.get(), input_schema=ANYTHING)
    assert (await call(seen)).output == "mine"


class Odd(BaseException):
    pass


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), StopIteration("x"), SystemExit(3), GeneratorExit(), Odd("odd")]
)
async def test_whatever_is_raised_in_a_thread_is_the_failure_of_the_tool(
    error: BaseException,
) -> None:
    def handler(given: dict[str, Any]) -> Any:
        raise error

    observation = await call(Tool("odd", handler, input_schema=ANYTHING))
    assert observation.error == HANDLER_ERROR
    assert type(error).__name__ in observation.message


@pytest.mark.parametrize("bound", [0, -1, True, 1.5, "3", None, 5_000, float("nan")], ids=repr)
@pytest.mark.parametrize("name", ["limit", "abandoned"])
def test_a_bound_that_is_none_is_refused(name: str, bound: Any) -> None:
    with pytest.raises(InvalidValue, match=f"{name}: is"):
        ToolThreads(**{name: bound})


PROGRAM = """
import asyncio, threading
from agentic_kernel_engine.tools.threads import SHARED
begun = threading.Event()
def hang():
    begun.set()
    threading.Event().wait()
async def main():
    run = asyncio.create_task(SHARED.run("hang", hang))
    await asyncio.to_thread(begun.wait)
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    print(SHARED.abandoned)
asyncio.run(main())
"""


def test_the_interpreter_does_not_wait_for_a_thread_that_hangs() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "1\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_process_begins_with_threads_of_its_own() -> None:
    program = """
import asyncio, os
from agentic_kernel_engine.tools.threads import SHARED
assert asyncio.run(SHARED.run("one", lambda: 1)) == 1
child = os.fork()
if not child:
    os._exit(0 if asyncio.run(SHARED.run("two", lambda: 2)) == 2 else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    command = [sys.executable, "-W", "ignore", "-c", program]
    subprocess.run(command, timeout=60, check=True)


def test_all_tools_share_the_threads_of_the_process_unless_told_otherwise() -> None:
    assert context().threads is SHARED
    assert (SHARED.limit, SHARED.most_abandoned) == (32, 64)

"""For each seam of the Loop a scenario that works because of it, and fails when it is taken out.

Memory, compaction, sessions, capabilities, delegation and approvals have files of their own.
"""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel import Task, TaskStatus
from agentic_kernel.ids import new_id
from agentic_kernel_engine import (
    ConsoleObserver,
    Host,
    Limits,
    Loop,
    MemoryStore,
    Outcome,
    StopReason,
    tool,
)
from agentic_kernel_engine.loop import (
    Context,
    Delegate,
    FinalAnswer,
    PlannerError,
    Thought,
    ToolCall,
    Turn,
)
from agentic_kernel_engine.seams import (
    BasicPolicy,
    ParallelScheduler,
    PermissionPolicy,
    RuleBasedPlanner,
    ScriptedPlanner,
    SequentialScheduler,
    Streamed,
    Tool,
    Tools,
)
from agentic_kernel_engine.seams.middlewares import (
    Cache,
    Fallback,
    Guardrail,
    Recorder,
    Replayer,
    Retry,
    ToolTimeout,
    Truncation,
)
from agentic_kernel_file import FileStore


def new_task(instructions: str = "go") -> Task:
    return Task.new(summary="Scenario", instructions=instructions, runtime_kind="loop")


async def outcome(loop: Loop, task: Task | None = None, **options: Any) -> Outcome:
    """What a Task comes to on a Host of its own."""
    async with Host(loop, **options) as host:
        done = await host.run(task or new_task())
        return await host.outcome(done.id)


def last_output(context: Context) -> Any:
    turn = context.transcript[-1]
    return turn.observations[-1].output if isinstance(turn, Turn) else None


@tool(effect="none")
def draw(urn: int) -> str:
    """Draw from an urn; only the third holds the prize."""
    return "prize" if urn == 3 else "nothing"


def search(context: Context) -> ToolCall | FinalAnswer:
    found = last_output(context)
    return FinalAnswer(found) if found == "prize" else ToolCall("draw", {"urn": context.step + 1})


@pytest.mark.parametrize(
    ("planner", "found"),
    [
        (RuleBasedPlanner(search), True),
        (ScriptedPlanner(ToolCall("draw", {"urn": 1}), FinalAnswer("nothing")), False),
    ],
    ids=["it looks at what it found", "it does not"],
)
async def test_planner(planner: Any, found: bool) -> None:
    done = await outcome(Loop(planner, [draw]))
    assert (done.answer == "prize") is found


@pytest.mark.parametrize("policy", [BasicPolicy(deny=["destructive"]), None])
async def test_policy(policy: BasicPolicy | None, tmp_path: Path) -> None:
    """What the planner wants is not what is done."""
    kept = tmp_path / "kept.txt"
    kept.write_text("precious")

    @tool(effect="destructive")
    def remove(name: str) -> None:
        """Remove a file."""
        (tmp_path / Path(name).name).unlink()

    planner = ScriptedPlanner(ToolCall("remove", {"name": "kept.txt"}), FinalAnswer("done"))
    done = await outcome(Loop(planner, [remove], policy))
    assert done.reason is StopReason.FINAL
    assert kept.exists() is (policy is not None)


@pytest.mark.parametrize("policy", [PermissionPolicy(), None])
async def test_what_a_policy_makes_visible(policy: PermissionPolicy | None) -> None:
    """A planner that uses whatever it sees is not tempted by what it does not."""

    @tool(effect="write", scopes=["payroll"])
    def raise_salaries() -> str:
        """Raise all salaries."""
        return "raised"

    def tempted(context: Context) -> Any:
        if context.step == 0 and context.tools:
            return ToolCall(context.tools[0].name)
        return FinalAnswer(context.step)

    done = await outcome(Loop(RuleBasedPlanner(tempted), [raise_salaries], policy))
    assert done.answer == (0 if policy else 1)


class Unlocking:
    """A registry whose second tool is there once the first was used."""

    def __init__(self) -> None:
        self.open = False

        @tool(effect="none")
        def unlock() -> None:
            """Unlock the safe."""
            self.open = True

        @tool(effect="none")
        def look_inside() -> str:
            """Look into the safe."""
            return "gold"

        self.all = (unlock, look_inside)

    def tools(self) -> Sequence[Tool]:
        return self.all[: 1 + self.open]

    def find(self, name: str) -> Tool | None:
        return next((each for each in self.tools() if each.name == name), None)


@pytest.mark.parametrize("registry", [Unlocking(), Tools(Unlocking().all[0])])
async def test_tool_registry(registry: Any) -> None:
    """What may be called can change from step to step."""
    planner = ScriptedPlanner(
        ToolCall("unlock"),
        ToolCall("look_inside"),
        lambda context: FinalAnswer(last_output(context)),
    )
    done = await outcome(Loop(planner, registry))
    assert done.answer == ("gold" if isinstance(registry, Unlocking) else None)


@pytest.mark.parametrize("scheduler", [ParallelScheduler(), SequentialScheduler()])
async def test_tool_scheduler(scheduler: Any) -> None:
    """Two calls that need each other at the same time."""
    met = asyncio.Barrier(2)

    @tool(effect="none", timeout=0.5)
    async def meet(who: str) -> str:
        """Wait for the other one."""
        await met.wait()
        return who

    both = [ToolCall("meet", {"who": "ann"}), ToolCall("meet", {"who": "bob"})]
    planner = ScriptedPlanner(
        both,
        lambda context: FinalAnswer([each.output for each in context.transcript[-1].observations]),
    )
    done = await outcome(Loop(planner, [meet], scheduler=scheduler))
    assert (done.answer == ["ann", "bob"]) is isinstance(scheduler, ParallelScheduler)


class Flaky:
    """A provider that fails a few times before it answers."""

    def __init__(self, failures: int, answer: Any = "an answer") -> None:
        self.failures = failures
        self.calls = 0
        self.answer = answer

    async def plan(self, context: Context) -> FinalAnswer:
        self.calls += 1
        if self.calls <= self.failures:
            raise PlannerError("acme/overloaded", "try again")
        return FinalAnswer(self.answer)


@pytest.mark.parametrize("middleware", [[Retry(["acme/overloaded"], first=0.001)], []])
async def test_retry(middleware: list[Any]) -> None:
    done = await outcome(Loop(Flaky(2), middleware=middleware))
    assert done.reason is (StopReason.FINAL if middleware else StopReason.ERROR)


@pytest.mark.parametrize("middleware", [[Fallback(ScriptedPlanner(FinalAnswer("another")))], []])
async def test_fallback(middleware: list[Any]) -> None:
    done = await outcome(Loop(Flaky(1_000), middleware=middleware))
    assert done.answer == ("another" if middleware else None)


@pytest.mark.parametrize("middleware", [[Cache()], []])
async def test_cache(middleware: list[Any]) -> None:
    """The same question is answered once."""
    planner = Flaky(0)
    loop = Loop(planner, middleware=middleware)
    for _ in range(3):
        assert (await outcome(loop)).answer == "an answer"
    assert planner.calls == (1 if middleware else 3)


@pytest.mark.parametrize("middleware", [[ToolTimeout(0.05)], []])
async def test_tool_timeout(middleware: list[Any]) -> None:
    """A tool that never comes back does not hold up the run for ever."""

    @tool(effect="none")
    async def hang() -> None:
        """Hang."""
        await asyncio.Event().wait()

    planner = ScriptedPlanner(ToolCall("hang"), FinalAnswer("went on"))
    running = outcome(Loop(planner, [hang], middleware=middleware), grace=0.0)
    if middleware:
        assert (await running).answer == "went on"
    else:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(running, 0.5)


@pytest.mark.parametrize("middleware", [[Truncation(100)], []])
async def test_truncation(middleware: list[Any]) -> None:
    """A model whose context is short can still read what a tool said."""

    @tool(effect="none")
    def read() -> str:
        """Read a long text."""
        return "x" * 50_000

    def answer(context: Context) -> FinalAnswer:
        if len(last_output(context)) > 8_000:
            raise PlannerError("acme/context_length", "too long")
        return FinalAnswer("read")

    done = await outcome(
        Loop(ScriptedPlanner(ToolCall("read"), answer), [read], middleware=middleware)
    )
    assert done.reason is (StopReason.FINAL if middleware else StopReason.ERROR)


def no_secrets(text: str, place: str) -> str | None:
    return "a secret would leave the house" if "hunter2" in text else None


@pytest.mark.parametrize("middleware", [[Guardrail(no_secrets)], []])
async def test_guardrail(middleware: list[Any]) -> None:
    done = await outcome(Loop(ScriptedPlanner(FinalAnswer("it is hunter2")), middleware=middleware))
    assert done.reason is (StopReason.GUARDRAIL if middleware else StopReason.FINAL)
    assert (done.answer is None) is bool(middleware)


@pytest.mark.parametrize("recorded", [True, False])
async def test_recorder_and_replayer(recorded: bool) -> None:
    """A run is repeated without its model and without its tools."""
    thrown: list[int] = []

    @tool(effect="write")
    def throw() -> int:
        """Throw a die that shows another number each time."""
        thrown.append(len(thrown) + 1)
        return thrown[-1]

    planner = ScriptedPlanner(ToolCall("throw"), lambda context: FinalAnswer(last_output(context)))
    recorder, task = Recorder(planner), new_task()
    assert (await outcome(Loop(recorder, [throw], middleware=[recorder]), task)).answer == 1
    if recorded:
        replayer = Replayer(recorder.take(task.id))
        again = await outcome(Loop(replayer, [throw], middleware=[replayer]))
    else:
        again = await outcome(Loop(planner, [throw]))
    assert again.answer == (1 if recorded else 2)
    assert len(thrown) == (1 if recorded else 2)


@pytest.mark.parametrize("observed", [True, False])
async def test_observer(observed: bool) -> None:
    """Text is seen piece by piece, and not only when the Task is done."""
    screen, shown = io.StringIO(), list[str]()

    async def piece() -> None:
        shown.append(screen.getvalue())

    said = Streamed("The answer ", "is ", "42.", plan=FinalAnswer(42), pause=piece)
    observer = ConsoleObserver(screen) if observed else None
    assert (await outcome(Loop(ScriptedPlanner(said)), observer=observer)).answer == 42
    assert shown[-1].endswith("The answer is ") is observed


@pytest.mark.parametrize("injected", [True, False])
async def test_clock(injected: bool) -> None:
    """A limit of an hour is tested in no time."""
    now = [0.0]

    def wait_an_hour(context: Context) -> Thought:
        now[0] += 3_600
        return Thought(f"still thinking {context.step}")

    clock = (lambda: now[0]) if injected else time.monotonic
    planner = ScriptedPlanner(wait_an_hour, FinalAnswer("too late"))
    done = await outcome(Loop(planner, limits=Limits(max_seconds=3_600), clock=clock))
    assert done.reason is (StopReason.TIMEOUT if injected else StopReason.FINAL)


@pytest.mark.parametrize("injected", [True, False])
async def test_ids(injected: bool) -> None:
    """A script can name the child that it spawns two lines above."""
    numbers = count(1)
    ids = (lambda: f"child-{next(numbers)}") if injected else new_id

    script = [
        Delegate("spawn", instructions="work"),
        Delegate("join", child="child-1"),
        lambda context: FinalAnswer(last_output(context)),
    ]

    def work(context: Context) -> Any:
        if context.task.instructions == "work":
            return FinalAnswer("worked")
        said = script[context.step]
        return said(context) if callable(said) else said

    done = await outcome(Loop(RuleBasedPlanner(work), ids=ids))
    assert done.answer == ({"child": "child-1", "result": "worked"} if injected else None)


@pytest.mark.parametrize("durable", [True, False])
async def test_store(durable: bool, tmp_path: Path) -> None:
    """A Task goes on in another Host, which has nothing but the store."""
    planner = ScriptedPlanner(Thought("one"), lambda context: FinalAnswer(len(context.transcript)))

    def store() -> Any:
        return FileStore(tmp_path / "state") if durable else MemoryStore()

    task = new_task()
    async with Host(Loop(planner, should_cancel=lambda: True), store()) as first:
        await first.dispatch(task)
        await first.wait(task.id, TaskStatus.PAUSED)
    async with Host(Loop(planner), store()) as second:
        if not durable:
            assert await second.get_many([task.id]) == {}
            return
        await second.resume(task.id)
        assert (await second.wait(task.id)).result == 2

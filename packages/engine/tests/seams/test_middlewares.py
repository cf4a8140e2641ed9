"""Middlewares that come with the engine: each in a run that goes otherwise without it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentic_kernel import InvalidValue, Task, TaskStatus
from agentic_kernel_engine.loop.replay import replay
from agentic_kernel_engine.plans.action import AskUser, FinalAnswer, Thought, ToolCall
from agentic_kernel_engine.plans.ending import PlannerError
from agentic_kernel_engine.plans.limits import Limits, Spent, remaining
from agentic_kernel_engine.plans.plan import Plan, Usage
from agentic_kernel_engine.principal import NOBODY, Principal
from agentic_kernel_engine.seams.middlewares import (
    Cache,
    Fallback,
    Guardrail,
    Retry,
    ToolTimeout,
    Truncation,
)
from agentic_kernel_engine.seams.planner import Context
from agentic_kernel_engine.seams.planners import ScriptedPlanner, Streamed
from agentic_kernel_engine.tools.tool import tool

from ..scripting import Runner, World, last_turn, new_task

USED = Usage(10, 5, cost=0.5)


class Flaky:
    """A planner that fails so many times before it answers as a script does."""

    def __init__(self, failures: int, *script: Any, metadata: Any = None) -> None:
        self.calls = 0
        self._failures = failures
        self._metadata = metadata
        self._script: Any = ScriptedPlanner(*script)

    async def plan(self, context: Context) -> Any:
        self.calls += 1
        if self.calls <= self._failures:
            raise PlannerError("test/busy", "busy", self._metadata)
        return await self._script.plan(context)


def reason(task: Task) -> Any:
    return task.metadata["engine/stop_reason"]


def code(task: Task) -> str:
    assert task.failure is not None, task
    return task.failure.code


async def outputs(runner: Runner, task: Task) -> list[dict[str, Any]]:
    steps = [e.data["observations"] for e in await runner.events(task) if e.type == "step.observed"]
    return [observation for step in steps for observation in step]


# Retry


def quick(times: int = 3, codes: tuple[str, ...] = ("test/busy",)) -> Retry:
    return Retry(codes, times=times, first=0, longest=0)


async def test_retry_gets_over_a_failure_that_passes(runner: Runner) -> None:
    def planner() -> Flaky:
        return Flaky(2, FinalAnswer("done"))

    done = await runner.run(planner=planner(), middleware=[quick()])
    assert done.result == "done"
    failed = [e.data for e in await runner.events(done) if e.type == "plan.failed"]
    assert [(each["code"], each["then"]) for each in failed] == [("test/busy", "retry")] * 2
    assert code(await runner.run(planner=planner())) == "test/busy"


@pytest.mark.parametrize(
    ("middleware", "calls"), [(quick(times=2), 3), (quick(codes=("test/other",)), 1)]
)
async def test_retry_is_bounded_and_knows_its_codes(
    runner: Runner, middleware: Retry, calls: int
) -> None:
    planner = Flaky(99, FinalAnswer("done"))
    assert code(await runner.run(planner=planner, middleware=[middleware])) == "test/busy"
    assert planner.calls == calls


async def test_each_call_has_its_own_retries(runner: Runner) -> None:
    class EveryOther(Flaky):
        async def plan(self, context: Context) -> Any:
            if context.failures < 2:
                raise PlannerError("test/busy", "busy")
            return await super().plan(context)

    planner = EveryOther(0, Thought("a"), Thought("b"), FinalAnswer("done"))
    assert (await runner.run(planner=planner, middleware=[quick(times=2)])).result == "done"


async def test_nothing_is_tried_again_when_the_time_is_up(runner: Runner) -> None:
    now = [0.0]

    class Slow(Flaky):
        async def plan(self, context: Context) -> Any:
            now[0] += 10
            return await super().plan(context)

    planner = Slow(2, FinalAnswer("done"))
    options = {"middleware": [quick()], "clock": lambda: now[0]}
    done = await runner.run(planner=planner, limits=Limits(max_seconds=15), **options)
    assert (reason(done), planner.calls) == ("timeout", 2)


def a_context(failures: int) -> Context:
    left = remaining(Limits(), Spent(), 0.0)
    return Context(new_task(), 0, (), (), (), left, NOBODY, {}, (), (), None, "", failures=failures)


async def test_waits_double_and_half_of_them_is_drawn() -> None:
    async def waits(drawn: float, **metadata: Any) -> list[float | None]:
        retry = Retry(["c"], times=6, first=1, longest=8, jitter=lambda: drawn)
        error = PlannerError("c", "busy", metadata)
        each = [await retry.on_error(a_context(n), error) for n in range(1, 8)]
        return [None if recovery is None else recovery.delay for recovery in each]

    assert await waits(1) == [1, 2, 4, 8, 8, 8, None]
    assert await waits(0) == [0.5, 1, 2, 4, 4, 4, None]
    assert await waits(0, retry_after_ms=3_000) == [3, 3, 3, 4, 4, 4, None]
    assert await waits(0, retry_after_ms=8_001) == [None] * 7
    for junk in ("soon", True, -5, float("nan"), None):
        assert await waits(1, retry_after_ms=junk) == await waits(1)


# Fallback


async def test_fallback_answers_where_the_planner_failed(runner: Runner) -> None:
    other = ScriptedPlanner(Streamed("he", "re", plan=Plan((FinalAnswer("other"),), usage=USED)))
    done = await runner.run(planner=Flaky(9), middleware=[quick(times=1), Fallback(other)])
    assert done.result == "other"
    events = await runner.events(done)
    assert [e.data["then"] for e in events if e.type == "plan.failed"] == ["retry", "fallback"]
    assert replay(events).spent.usage == USED
    assert code(await runner.run(planner=Flaky(9), middleware=[quick(times=1)])) == "test/busy"


async def test_the_first_planner_that_can_answers(runner: Runner) -> None:
    class Mute:
        async def plan(self, context: Context) -> Any:
            return None

    good = ScriptedPlanner(FinalAnswer("good"))
    planners = (Flaky(9), Mute(), good)
    done = await runner.run(planner=Flaky(9), middleware=[Fallback(*planners)])
    assert done.result == "good"
    done = await runner.run(planner=Flaky(9), middleware=[Fallback(*planners[:2])])
    assert code(done) == "test/busy"
    done = await runner.run(planner=Flaky(9), middleware=[Fallback(good, codes=["test/other"])])
    assert code(done) == "test/busy"


async def test_fallback_leaves_a_planner_alone_that_could_pass_a_cap(runner: Runner) -> None:
    dear = ScriptedPlanner(FinalAnswer("dear"), worst=Usage(output_tokens=11, cost=1.0))
    cheap = ScriptedPlanner(FinalAnswer("cheap"), worst=Usage(output_tokens=10, cost=1.0))
    for limits in (Limits(max_output_tokens=10), Limits(max_total_tokens=10)):
        middleware = [Fallback(dear, cheap)]
        done = await runner.run(planner=Flaky(9), limits=limits, middleware=middleware)
        assert done.result == "cheap"
    done = await runner.run(
        planner=Flaky(9), limits=Limits(max_cost=0.5), middleware=[Fallback(dear, cheap)]
    )
    assert code(done) == "test/busy"


# Cache


class Counting:
    """A planner that adds, then answers with what came of it; every call has its price."""

    def __init__(self) -> None:
        self.calls = 0

    async def plan(self, context: Context) -> Any:
        self.calls += 1
        if len(context.transcript) == 1:
            return Plan((ToolCall("add", {"a": 1, "b": 2}, id=f"id-{self.calls}"),), usage=USED)
        return Plan((FinalAnswer(last_turn(context).observations[0].output),), usage=USED)


@pytest.mark.parametrize(("cached", "calls"), [(True, 2), (False, 4)])
async def test_a_cache_answers_the_same_question(
    runner: Runner, world: World, cached: bool, calls: int
) -> None:
    planner = Counting()
    middleware = [Cache()] if cached else []
    first = await runner.run(planner=planner, middleware=middleware)
    second = await runner.run(planner=planner, middleware=middleware)
    assert (first.result, second.result, planner.calls) == (3, 3, calls)
    assert world.done == ["add 1 2"] * 2, "a tool's effect is never cached"
    spent = [replay(await runner.events(each)).spent for each in (first, second)]
    assert spent[0].usage == Usage(20, 10, cost=1.0)
    assert spent[1].usage == (Usage() if cached else spent[0].usage)
    assert spent[1].iterations == 2, "an answer is an answer"


async def test_a_cache_keeps_principals_apart(runner: Runner) -> None:
    planner, cache = Counting(), Cache()
    for name, tenant in (("ann", "a"), ("ann", "b"), ("bob", "a"), ("ann", "a")):
        await runner.run(planner=planner, middleware=[cache], principal=Principal(name, tenant))
    assert planner.calls == 6


async def test_a_cache_keeps_what_was_used_last(runner: Runner) -> None:
    class Echo:
        def __init__(self) -> None:
            self.asked: list[str] = []

        async def plan(self, context: Context) -> Any:
            self.asked.append(context.task.instructions)
            return FinalAnswer(context.task.instructions)

    planner = Echo()
    async with runner.host(planner=planner, middleware=[Cache(2)]) as host:
        for text in "abacab":
            done = await host.run(new_task(instructions=text))
            assert done.result == text
    # c drives out b, not a.
    assert planner.asked == ["a", "b", "c", "b"]


# ToolTimeout, Truncation


async def test_a_tool_without_a_timeout_gets_one(runner: Runner) -> None:
    began, release = asyncio.Event(), asyncio.Event()

    @tool(effect="none")
    async def hang() -> str:
        began.set()
        await release.wait()
        return "released"

    @tool(effect="none", timeout=60)
    async def patient() -> str:
        for _ in range(50):
            await asyncio.sleep(0.001)
        return "came back"

    script = ([ToolCall("hang"), ToolCall("patient")], FinalAnswer("done"))
    tools, timeout = [hang, patient], ToolTimeout(0.02)
    for _ in range(2):
        done = await runner.run(*script, tools=tools, middleware=[timeout])
        hung, came, _ = await outputs(runner, done)
        assert (hung["error"], came["output"]) == ("timeout", "came back")
    assert hang.timeout is None, "the tool itself is as it was"
    began.clear()
    async with runner.host(*script, tools=tools) as host:
        task = new_task()
        await host.dispatch(task)
        await began.wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(host.wait(task.id), 0.1)
        release.set()
        await host.wait(task.id)
    assert (await outputs(runner, task))[0]["output"] == "released"


@pytest.mark.parametrize(
    ("output", "cut"),
    [
        ("x" * 10, "x" * 10),
        ("ü" * 1_011, "ü" * 10 + "\n[cut: 1,001 of 1,011 characters are missing]"),
        ([1, 2, 3], [1, 2, 3]),
        ({"key": ["long", 1]}, '{"key":["l\n[cut: 8 of 18 characters are missing]'),
        (None, None),
    ],
)
async def test_a_long_output_is_cut(runner: Runner, output: Any, cut: Any) -> None:
    async def say() -> Any:
        return output

    async def said(**options: Any) -> Any:
        done = await runner.run(ToolCall("say"), FinalAnswer(1), tools=[say], **options)
        assert done.status is TaskStatus.SUCCESS
        return (await outputs(runner, done))[0].get("output")

    assert await said(middleware=[Truncation(10)]) == cut
    assert await said() == output


# Guardrail


def no_secrets(text: str, place: str) -> str | None:
    return f"a secret in {place}" if "secret" in text else None


async def no_secrets_later(text: str, place: str) -> str | None:
    await asyncio.sleep(0)
    return no_secrets(text, place)


@pytest.mark.parametrize("check", [no_secrets, no_secrets_later])
@pytest.mark.parametrize(
    ("said", "place"),
    [
        (Plan((FinalAnswer("fine"),), text="a secret"), "text"),
        (Plan((FinalAnswer("fine"),), reasoning="a secret"), "text"),
        (Plan((Thought("a secret"), FinalAnswer("fine"))), "text"),
        (Plan((AskUser("a secret?"),)), "text"),
        (FinalAnswer("a secret"), "answer"),
        (FinalAnswer({"deep": ["a secret"]}), "answer"),
        (ToolCall("tell"), "tool"),
        (ToolCall("tell", {"fail": True}), "tool"),
    ],
)
async def test_a_guardrail_ends_the_run(runner: Runner, said: Any, place: str, check: Any) -> None:
    async def tell(fail: bool = False) -> list[str]:
        if fail:
            raise ValueError("a secret")
        return ["a secret"]

    async def end(**options: Any) -> Task:
        async with runner.host(said, FinalAnswer("went on"), tools=[tell], **options) as host:
            task = new_task()
            await host.dispatch(task)
            return await host.wait(task.id, TaskStatus.PAUSED)

    done = await end(middleware=[Guardrail(check)])
    assert (code(done), reason(done)) == ("engine/guardrail", "guardrail")
    assert done.failure is not None
    assert done.failure.message == f"a secret in {place}"
    assert reason(await end()) in ("final", "interrupt")


async def test_a_check_that_raises_lets_nothing_pass(runner: Runner) -> None:
    def check(text: str, place: str) -> str | None:
        raise OSError("no classifier")

    done = await runner.run(FinalAnswer("fine"), middleware=[Guardrail(check)])
    assert code(done) == "engine/middleware_failed"


async def test_an_answer_that_trips_is_not_carried_out(runner: Runner, world: World) -> None:
    said = Plan((ToolCall("write", {"text": "a"}),), text="a secret", usage=USED)
    done = await runner.run(said, middleware=[Guardrail(no_secrets)])
    assert (reason(done), world.done) == ("guardrail", [])
    assert replay(await runner.events(done)).spent.usage == USED


@pytest.mark.parametrize(
    ("kind", "given", "options", "what"),
    [
        (Retry, ["busy"], {}, "codes"),
        (Retry, [["c"]], {"times": 0}, "times"),
        (Retry, [["c"]], {"first": 2, "longest": 1}, "first, longest"),
        (Fallback, [], {}, "planners"),
        (Fallback, [Counting()], {"codes": "busy"}, "codes"),
        (Cache, [0], {}, "size"),
        (ToolTimeout, [0], {}, "seconds"),
        (ToolTimeout, [float("nan")], {}, "a number"),
        (Truncation, [0], {}, "length"),
    ],
    ids=lambda each: each.__name__ if isinstance(each, type) else str(each)[:20],
)
def test_what_makes_no_sense_is_refused(
    kind: Any, given: list[Any], options: dict[str, Any], what: str
) -> None:
    with pytest.raises(InvalidValue, match=what):
        kind(*given, **options)

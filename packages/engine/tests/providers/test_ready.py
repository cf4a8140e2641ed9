"""A text in place of a Task: typed results, text as it comes, tools, and no event loop."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pydantic
import pytest

from agentic_kernel import CannotStart, InvalidValue, Task, TaskNotFound, TaskStatus
from agentic_kernel_engine import (
    Done,
    Host,
    Limits,
    MemoryStore,
    TaskFailed,
    WrongEventLoop,
    tool,
)
from agentic_kernel_engine.loop import Context, Delta, FinalAnswer, Plan, PlannerError, ToolCall
from agentic_kernel_engine.providers import ProviderRuntime, own_loop
from agentic_kernel_engine.seams.middlewares import Retry


class Stream(tuple[Delta | Plan | Exception, ...]):
    """The parts of one call's answer."""


class Scripted:
    """A planner that gives one answer after the other: a final answer, or a whole `Stream`."""

    impl = "scripted"

    def __init__(self, *steps: Any) -> None:
        self.steps = list(steps)
        self.contexts: list[Context] = []

    async def plan(self, context: Context) -> AsyncIterator[Delta | Plan]:
        self.contexts.append(context)
        step = self.steps.pop(0)
        for part in step if isinstance(step, Stream) else [Plan((FinalAnswer(step),))]:
            if isinstance(part, Exception):
                raise part
            yield part

    async def close(self) -> None:
        pass

    def told(self, call: int) -> str:
        """Everything that the planner was told before a call."""
        return repr(self.contexts[call].transcript)


def runtime(*steps: Any, store: MemoryStore | None = None, **options: Any) -> ProviderRuntime:
    given: Any = options
    return ProviderRuntime(Scripted(*steps), "scripted", (), store, given)


def planner(made: ProviderRuntime) -> Scripted:
    assert isinstance(made.planner, Scripted)
    return made.planner


class Positive(pydantic.BaseModel):
    """A rule that no JSON Schema says."""

    x: int

    @pydantic.field_validator("x")
    @classmethod
    def not_negative(cls, x: int) -> int:
        if x < 0:
            raise ValueError("x is below zero")
        return x


@dataclass
class Leg:
    place: str
    nights: int = 1


@dataclass
class Trip:
    legs: list[Leg]


class Point(TypedDict):
    x: int
    label: NotRequired[str]


async def test_a_text_runs_as_a_task_of_the_runtimes_kind() -> None:
    async with runtime({"any": ["json"]}) as ready:
        done = await ready.run("Why is the sky blue?\nBe short.")
        assert isinstance(done, Done)
        assert done.unwrap() == done.result == {"any": ["json"]}
        assert done.task == await ready.get(done.task.id)
        assert (done.task.runtime_kind, done.task.summary) == ("scripted", "Why is the sky blue?")
        assert done.task.instructions == "Why is the sky blue?\nBe short."


async def test_a_task_gives_a_task() -> None:
    async with runtime("yes") as ready:
        ended = await ready.run(ready.task("x", id="mine"))
        assert isinstance(ended, Task)
        assert (ended.id, ended.result) == ("mine", "yes")


@pytest.mark.parametrize(
    ("wanted", "wrong", "right", "value"),
    [
        (Positive, {"x": -1}, {"x": 1}, Positive(x=1)),
        (Trip, {"legs": [{"nights": 2}]}, {"legs": [{"place": "Oslo"}]}, Trip([Leg("Oslo")])),
        (Point, {"x": "1"}, {"x": 1, "label": "a"}, {"x": 1, "label": "a"}),
        (list[Leg], {}, [{"place": "Bonn", "nights": 3}], [Leg("Bonn", 3)]),
        (int, "one", 1, 1),
    ],
)
@pytest.mark.parametrize("where", ["run", "runtime"])
async def test_an_answer_of_another_type_goes_back_to_the_model_with_the_reason(
    wanted: Any, wrong: Any, right: Any, value: Any, where: str
) -> None:
    at_runtime = {"output_type": wanted} if where == "runtime" else {}
    at_run = {"output_type": wanted} if where == "run" else {}
    async with runtime(wrong, right, **at_runtime) as ready:
        done: Done[Any] = await ready.run("Say it.", **at_run)
        assert done.unwrap() == value
        assert type(done.unwrap()) is type(value)
        assert done.task.result == right  # What is stored is JSON.
        asked = planner(ready).contexts[0].output_schema
        assert asked is not None
        assert "type" in asked  # At the root, where servers look for it.
        assert "schema_validation_failed" in planner(ready).told(1)


def test_the_objects_of_a_type_have_no_other_fields_unless_the_type_says_so() -> None:
    """So that servers can hold a model to the schema while it writes."""

    class Open(pydantic.BaseModel, extra="allow"):
        parts: list[Positive]
        seats: dict[str, int]

    schema = runtime().task("x", output_type=Open).metadata["engine/output_schema"]
    assert schema["additionalProperties"] is True
    assert schema["properties"]["seats"]["additionalProperties"] == {"type": "integer"}
    assert schema["$defs"]["Positive"]["additionalProperties"] is False


async def test_a_reason_of_the_types_own_is_told() -> None:
    async with runtime({"x": -7}, {"x": 7}) as ready:
        await ready.run("Say it.", output_type=Positive)
        assert "x is below zero" in planner(ready).told(1)


async def test_wrong_answers_end_at_the_limit() -> None:
    async with runtime(*[{"x": -1}] * 3, limits=Limits(max_iterations=3)) as ready:
        done = await ready.run("Say it.", output_type=Positive)
        assert done.result is None
        assert done.task.status is TaskStatus.FAILURE
        with pytest.raises(TaskFailed) as raised:
            done.unwrap()
        assert done.task.failure is not None
        assert (raised.value.code, raised.value.message) == (
            done.task.failure.code, done.task.failure.message,
        )  # fmt: skip


async def test_the_type_of_a_run_replaces_that_of_the_runtime() -> None:
    async with runtime("text", {"x": 1}, output_type=Positive) as ready:
        assert (await ready.run("Say it.", output_type=str)).unwrap() == "text"
        assert planner(ready).contexts[0].output_schema is None
        assert (await ready.run("Say it.")).unwrap() == Positive(x=1)


async def test_a_task_carries_its_schema_to_the_process_that_takes_it_up() -> None:
    store = MemoryStore()
    async with runtime({"legs": 3}, store=store) as first:
        task = first.task("Say it.", output_type=Trip, id="t")
        await first.step(task)
        await first.wait("t", TaskStatus.PAUSED)
    async with runtime({"legs": "x"}, {"legs": []}, store=store) as second:
        await second.resume("t")
        assert (await second.wait("t")).result == {"legs": []}
        assert "schema_validation_failed" in planner(second).told(1)


@pytest.mark.parametrize("schema", [3, {"type": 7}, {"$ref": "https://example.com/x"}])
async def test_a_task_whose_schema_is_not_accepted_leaves_no_trace(schema: Any) -> None:
    async with runtime("x") as ready:
        task = ready.task("x", id="t", metadata={"engine/output_schema": schema})
        with pytest.raises(CannotStart):
            await ready.run(task)
        with pytest.raises(TaskNotFound):
            await ready.get("t")


@pytest.mark.parametrize("wrong", [object, 3, "int", type("Own", (), {})])
def test_a_type_without_a_json_form_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidValue, match="output_type"):
        runtime().task("x", output_type=wrong)
    with pytest.raises(InvalidValue, match="output_type"):
        runtime(output_type=wrong)


def test_a_schema_and_a_type_are_not_both_taken() -> None:
    with pytest.raises(InvalidValue, match="output_type"):
        runtime(output_type=int, output_schema={"type": "integer"})


@pytest.mark.parametrize(
    "given", [{"output_type": int}, {"agent_name": "a/b"}, {"metadata": {"a/b": 1}}]
)
async def test_options_of_a_text_are_refused_beside_a_task(given: dict[str, Any]) -> None:
    async with runtime() as ready:
        with pytest.raises(InvalidValue, match=next(iter(given))):
            await ready.run(ready.task("x"), **given)


@pytest.mark.parametrize("wrong", ["a\0b", "a\ud800b"])
async def test_a_text_that_no_store_keeps_is_refused_by_the_name_text(wrong: str) -> None:
    async with runtime("never") as made:
        with pytest.raises(InvalidValue, match=r"^text: holds"):
            await made.run(wrong)
        with pytest.raises(InvalidValue, match=r"^text: holds"):
            made.task(wrong)
        with pytest.raises(InvalidValue, match=r"^text: holds"):
            await anext(made.stream_text(wrong))


async def test_neither_a_text_nor_a_task_is_refused() -> None:
    async with runtime() as ready:
        with pytest.raises(InvalidValue, match="give a Task, or its text"):
            await ready.run(7)  # type: ignore[call-overload]


async def test_a_killed_and_a_paused_task_have_no_result() -> None:
    async with runtime({}) as ready:
        task = ready.task("x", output_type=int, id="t")
        await ready.step(task)
        paused = await ready.wait("t", TaskStatus.PAUSED)
        with pytest.raises(TaskFailed, match="paused"):
            Done(paused, None).unwrap()
        await ready.kill("t")
        with pytest.raises(TaskFailed, match="killed"):
            Done(await ready.get("t"), None).unwrap()


# Text as it comes


def deltas_of(*texts: str) -> list[Delta]:
    return [*map(Delta, texts)]


def deltas(*texts: str) -> Stream:
    return Stream([*map(Delta, texts), Plan((FinalAnswer("".join(texts)),))])


async def test_text_comes_piece_by_piece() -> None:
    async with runtime(deltas("Hel", "lo")) as ready:
        assert [piece async for piece in ready.stream_text("x")] == ["Hel", "lo"]


async def test_an_answer_without_pieces_comes_whole() -> None:
    async with runtime("Hello") as ready:
        assert [piece async for piece in ready.stream_text("x")] == ["Hello"]


@pytest.mark.parametrize(
    ("first", "last", "shown"),
    [
        (deltas_of("I look."), [], "I look.It is."),
        (deltas_of("I ", "look."), deltas_of("It"), "I look.It is."),
        ([], [], "I look.It is."),
        (deltas_of("I"), deltas_of("It", " is."), "I look.It is."),
        (deltas_of("I look."), deltas_of("It was."), "I look.It was.\nIt is."),
        (deltas_of("I look."), deltas_of("It is.\n"), "I look.It is.\n"),
        (deltas_of("It is."), [], "It is.\nI look.It is."),
    ],
    ids=[
        "no piece of the answer",
        "not every piece of the answer",
        "no piece at all",
        "not every piece beside a call",
        "other pieces than the answer",
        "a blank more",
        "other pieces beside a call",
    ],
)
async def test_the_pieces_joined_are_the_stored_text_of_all_turns(
    first: list[Delta], last: list[Delta], shown: str
) -> None:
    call = Stream([*first, Plan((ToolCall("look", {}),), text="I look.")])
    async with runtime(call, Stream([*last, Plan((FinalAnswer("It is."),))])) as ready:

        @ready.tool
        def look() -> str:
            """Look."""
            return "seen"

        assert "".join([piece async for piece in ready.stream_text("x")]) == shown


async def test_an_equal_answer_of_a_later_turn_is_told_again() -> None:
    call = Stream([Delta("Yes."), Plan((ToolCall("look", {}),), text="Yes.")])
    async with runtime(call, "Yes.") as ready:

        @ready.tool
        def look() -> str:
            """Look."""
            return "seen"

        assert [piece async for piece in ready.stream_text("x")] == ["Yes.", "Yes."]


@pytest.mark.parametrize("answer", ["Yes.", 42, {"said": "yes"}])
async def test_the_json_of_an_answer_is_told_once(answer: Any) -> None:
    told = json.dumps(answer)
    steps = Stream([Delta(told), Plan((FinalAnswer(answer),))])
    async with runtime(steps, output_schema={}) as ready:
        assert [piece async for piece in ready.stream_text("x")] == [told]


@pytest.mark.parametrize(
    ("broken", "again", "shown"),
    [
        (["Hel"], ["H", "ello", "!"], "Hello!"),
        (["Hello wor"], ["Hello ", "world"], "Hello world"),
        (["Hello"], ["Bye", " now"], "Hello\nBye now"),
        (["Hello"], ["He", "y you"], "Hello\nHey you"),
        (["Hello"], ["Hel", "lo"], "Hello"),
        (["It is safe ", "to drink"], ["It is", " safe"], "It is safe to drink\nIt is safe"),
    ],
)
async def test_a_repeated_answer_is_not_said_twice(
    broken: list[str], again: list[str], shown: str
) -> None:
    lost = PlannerError("scripted/connection", "lost")
    at_once = Retry(["scripted/connection"], jitter=lambda: 0.0)
    steps = Stream([*map(Delta, broken), lost]), deltas(*again)
    async with runtime(*steps, middleware=[at_once]) as ready:
        assert "".join([piece async for piece in ready.stream_text("x")]) == shown


async def test_a_repeated_answer_without_text_ends_the_line() -> None:
    """The next text is no part of the answer that was lost."""
    lost = PlannerError("scripted/connection", "lost")
    at_once = Retry(["scripted/connection"], jitter=lambda: 0.0)
    call = Stream([Plan((ToolCall("look", {}),))])
    steps = Stream([Delta("I will say"), lost]), call, deltas("Hello")
    async with runtime(*steps, middleware=[at_once]) as ready:

        @ready.tool
        def look() -> str:
            """Look."""
            return "seen"

        assert "".join([piece async for piece in ready.stream_text("x")]) == "I will say\nHello"


async def test_the_failure_comes_after_the_text() -> None:
    lost = PlannerError("scripted/no_such_model", "there is no such model")
    async with runtime(Stream([Delta("Hel"), lost])) as ready:
        pieces = ready.stream_text("x")
        assert await anext(pieces) == "Hel"
        with pytest.raises(TaskFailed, match="no such model"):
            await anext(pieces)


# Tools


async def test_a_decorated_function_is_a_tool_and_stays_a_function() -> None:
    call = Stream([Plan((ToolCall("add", {"a": 1, "b": 2}),))])
    async with runtime(call, "3") as ready:

        @ready.tool
        def add(a: int, b: int) -> int:
            """Add two numbers."""
            return a + b

        @ready.tool(name="other", effect="read")
        def named() -> None:
            """Do no thing."""

        assert add(2, 2) == 4
        assert (await ready.run("Add.")).unwrap() == "3"
        assert [each.name for each in planner(ready).contexts[0].tools] == ["add", "other"]
        assert "output=3" in planner(ready).told(1)
        with pytest.raises(InvalidValue, match="add"):
            ready.tool(add)


async def test_a_tool_cannot_be_added_to_a_registry_of_the_users_own() -> None:
    class Mine:
        def tools(self) -> Sequence[Any]:
            return ()

        def find(self, name: str) -> None:
            return None

    ready = ProviderRuntime(Scripted(), "scripted", Mine(), None, {})
    with pytest.raises(InvalidValue, match="registry of your own"):
        ready.tool(tool(lambda: None, name="x"))


# Without an event loop


def test_texts_run_one_after_the_other_without_an_event_loop() -> None:
    ready = runtime("one", {"x": 2})
    try:
        assert ready.run_sync("x").unwrap() == "one"
        assert ready.run_sync("x", output_type=Positive).unwrap().x == 2
    finally:
        ready.close_sync()
    ready.close_sync()


async def test_a_running_event_loop_refuses_the_call() -> None:
    async with runtime("x") as ready:
        with pytest.raises(RuntimeError, match=r"await run\(\) instead"):
            ready.run_sync("x")


@pytest.mark.parametrize(
    ("last", "code", "said"),
    [
        ("", 0, ""),
        pytest.param("sys.exit(7)", 7, "", marks=pytest.mark.torture),
        pytest.param("sys.exit('over')", 1, "over\n", marks=pytest.mark.torture),
        ("raise ValueError('over')", 1, "ValueError: over\n"),
    ],
)
def test_the_end_of_the_process_closes_the_runtime(last: str, code: int, said: str) -> None:
    """Its planner, too, which uses a thread; and the interpreter finds no open resource."""
    # The runtime without a name is in a cycle. The collector may free it before the end, or not.
    program = """
        import asyncio, gc, sys
        gc.disable()
        from agentic_kernel_engine.loop import FinalAnswer, Plan
        from agentic_kernel_engine.providers import ProviderRuntime

        class Once:
            impl = "once"

            async def plan(self, context):
                yield Plan((FinalAnswer("done"),))

            async def close(self):
                await asyncio.to_thread(print, "closed")

        print(ProviderRuntime(Once(), "once", (), None, {}).run_sync("x").unwrap())
        kept = ProviderRuntime(Once(), "once", (), None, {})
        print(kept.run_sync("x").unwrap())
    """
    ended = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", textwrap.dedent(program) + last],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert ended.stdout.split() == ["done", "done", "closed", "closed"]
    assert ended.returncode == code
    assert ended.stderr.endswith(said)
    assert ended.stderr.count("Traceback") == ("ValueError" in said)
    assert said or not ended.stderr


def test_the_runtime_is_closed_before_what_its_call_left_to_the_end() -> None:
    """A runtime needs the server of its database until it has left the store."""
    program = """
        import atexit
        from agentic_kernel_engine.loop import FinalAnswer, Plan
        from agentic_kernel_engine.providers import ProviderRuntime

        class Once:
            impl = "once"

            async def plan(self, context):
                atexit.register(print, "stopped")
                yield Plan((FinalAnswer("done"),))

            async def close(self):
                print("closed")

        kept = ProviderRuntime(Once(), "once", (), None, {})
        kept.run_sync("x").unwrap()
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert ended.stdout.split() == ["closed", "stopped"]


class Even(pydantic.BaseModel):
    n: int

    @pydantic.field_validator("n")
    @classmethod
    def even(cls, n: int) -> int:
        if n % 2:
            raise ValueError("n must be even")
        return n


async def test_a_run_whose_answers_are_all_refused_says_so_and_why() -> None:
    async with runtime(*[{"n": 3}] * 5) as host:
        failure = (await host.run("Go on.", output_type=Even)).task.failure
    assert failure is not None
    assert failure.code == "engine/loop"
    assert failure.message.startswith("the model's final answer was refused: ")
    assert "n must be even" in failure.message
    assert "max_repeats 5" in failure.message
    assert "n must be even" in failure.metadata["answer_refused"]


async def test_only_a_refused_answer_is_told_as_one() -> None:
    call = Stream([Plan((ToolCall("none", {}),))])
    async with runtime({"n": 3}, call, limits=Limits(max_iterations=2)) as host:
        failure = (await host.run("Go on.", output_type=Even)).task.failure
    assert failure is not None
    assert failure.code == "engine/max_iterations"
    assert "refused" not in failure.message
    assert "answer_refused" not in failure.metadata


class Broken(pydantic.BaseModel):
    n: int
    how: str = "runtime"

    @pydantic.model_validator(mode="after")
    def broken(self) -> Broken:
        raise {"runtime": RuntimeError, "type": TypeError, "key": KeyError}[self.how]("my own bug")


@dataclass
class BrokenData:
    n: int
    how: str = ""

    def __post_init__(self) -> None:
        raise TypeError("my own bug")


@pytest.mark.parametrize(
    ("kind", "how", "error"),
    [
        (Broken, "runtime", "RuntimeError"),
        (Broken, "type", "TypeError"),
        (Broken, "key", "KeyError"),
        (BrokenData, "", "TypeError"),
    ],
)
async def test_a_bug_in_a_validator_is_its_authors_and_costs_one_call(
    kind: type[Any], how: str, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with runtime({"n": 1, "how": how}) as host:
        failure = (await host.run("Go on.", output_type=kind)).task.failure
    assert failure is not None
    assert failure.code == "engine/unhandled_error"
    assert failure.metadata["type"] == error
    assert "my own bug" in failure.message
    assert caplog.text.count("Traceback") == 1


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]
    bones: int


@pytest.mark.parametrize(
    "kind", [Cat | Dog, Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]]
)
async def test_a_union_of_models_is_a_type(kind: Any) -> None:
    wrong = {"kind": "dog", "bones": "many"}
    async with runtime(wrong, {"kind": "dog", "bones": 3}, {"kind": "cat", "lives": 9}) as host:
        assert (await host.run("Go on.", output_type=kind)).unwrap() == Dog(kind="dog", bones=3)
        assert "bones" in planner(host).told(1)
        assert (await host.run("Go on.", output_type=kind)).unwrap() == Cat(kind="cat", lives=9)
        several = list[kind]
        planner(host).steps.append([{"kind": "cat", "lives": 9}, {"kind": "dog", "bones": 3}])
        cat, dog = (await host.run("Go on.", output_type=several)).unwrap()
    assert (type(cat), type(dog)) == (Cat, Dog)


def test_a_runtime_of_run_sync_refuses_another_event_loop() -> None:
    ready = runtime("one", "two")
    try:
        assert ready.run_sync("x").unwrap() == "one"
        with pytest.raises(RuntimeError, match="make another runtime"):
            asyncio.run(ready.run("x"))
        assert ready.run_sync("x").unwrap() == "two"
    finally:
        ready.close_sync()


def test_a_temporary_runtime_is_let_go_in_silence() -> None:
    program = """
        import gc

        from agentic_kernel_engine.loop import FinalAnswer, Plan
        from agentic_kernel_engine.providers import ProviderRuntime

        class Once:
            impl = "once"

            async def plan(self, context):
                yield Plan((FinalAnswer("done"),))

            async def close(self):
                pass

        def ask():
            return ProviderRuntime(Once(), "once", (), None, {}).run_sync("x").unwrap()

        for often in range(300, 400, 2):  # The order in which Python collects a loop depends on it.
            gc.set_threshold(often, 2, 2)
            for _ in range(3):
                ask()
            gc.collect()
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert ended.stderr == ""


def test_only_tasks_of_the_library_are_let_go_in_silence() -> None:
    async def of_a_tool() -> None:
        await asyncio.Event().wait()

    async def looked() -> set[bool]:
        theirs, own = asyncio.create_task(of_a_tool()), asyncio.current_task()
        async with Host(store=MemoryStore()) as host:
            await host.find()
            others = asyncio.all_tasks() - {theirs, own}
            assert others
            assert not own_loop._is_ours(theirs)
            found = {own_loop._is_ours(each) for each in others}
        theirs.cancel()
        return found

    assert asyncio.run(looked()) == {True}


def test_a_runtime_closed_in_a_wrong_event_loop_keeps_its_client() -> None:
    class Held(Scripted):
        closed = 0

        async def close(self) -> None:
            self.closed += 1

    held = Held("yes", "yes")
    with asyncio.Runner() as runner:
        made = ProviderRuntime(held, "scripted", (), None, {})
        assert runner.run(made.run("Is it?")).result == "yes"
        with pytest.raises(WrongEventLoop):
            asyncio.run(made.close())
        assert held.closed == 0
        assert runner.run(made.run("Is it still?")).result == "yes"
        runner.run(made.close())
    assert held.closed == 1

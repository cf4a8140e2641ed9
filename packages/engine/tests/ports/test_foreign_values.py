"""Values and exceptions of foreign classes: bounded, typed refusals, and Tasks that end."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from agentic_kernel import InvalidValue, TaskNotFound, TaskStatus
from agentic_kernel_engine import (
    CompositeObserver,
    Event,
    Host,
    InMemoryObserver,
    Job,
    MemoryStore,
    edges,
)
from agentic_kernel_engine.loop import Loop, continued, replay
from agentic_kernel_engine.seams import (
    InMemoryCapabilities,
    Recovery,
    ScriptedPlanner,
    Tool,
    ToolThreads,
    WindowCompactor,
)
from agentic_kernel_engine.search import Search
from agentic_kernel_engine.tools.schema import compile_schema
from agentic_kernel_engine.values import check_id, check_text

from ..conftest import Acting, NewTask

READ_AT_MOST = 200_000


class Endless(Mapping[str, Any]):
    """A mapping without an end; it fails the test that reads too much of it."""

    def __init__(self) -> None:
        self.read = 0

    def __getitem__(self, key: str) -> Any:
        return 1

    def __iter__(self) -> Iterator[str]:
        for number in itertools.count():
            self.read += 1
            if self.read > READ_AT_MOST:
                raise SystemExit("read without bound")
            yield str(number)

    def __len__(self) -> int:
        return 0


class EndlessList(Sequence[Any]):
    """The same as a sequence, which says that it is short."""

    def __init__(self) -> None:
        self.read = 0

    def __getitem__(self, index: Any) -> Any:
        self.read += 1
        if self.read > READ_AT_MOST:
            raise SystemExit("read without bound")
        return 1

    def __len__(self) -> int:
        return 1


class Shouting:
    """Every look at it raises."""

    def __repr__(self) -> str:
        raise SystemExit("repr")

    __str__ = __repr__
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise SystemExit("eq")


class Text(str):
    """A string whose methods raise or lie."""

    def encode(self, *_: Any) -> bytes:
        raise RuntimeError("encode")

    def isascii(self) -> bool:
        return True

    def __contains__(self, _: object) -> bool:
        return False

    def __str__(self) -> str:
        return "another"

    def __len__(self) -> int:
        return 3


class Number(int):
    """A number that cannot be compared."""

    def __lt__(self, _: object) -> bool:
        raise RuntimeError("lt")

    __le__ = __gt__ = __ge__ = __lt__

    def __repr__(self) -> str:
        raise RuntimeError("repr")


def sharing(depth: int = 40) -> list[Any]:
    """A list whose repr would be 2 ** depth texts long."""
    made: list[Any] = [1]
    for _ in range(depth):
        made = [made, made]
    return made


def nested(depth: int) -> list[Any]:
    made: list[Any] = []
    for _ in range(depth):
        made = [made]
    return made


ODD: dict[str, Callable[[], Any]] = {
    "endless": Endless,
    "endless list": EndlessList,
    "shouting": Shouting,
    "sharing": sharing,
    "nested": lambda: nested(5_000),
    "number": lambda: 10**5_000,
    "huge range": lambda: range(10**12),
    "float": lambda: 1.5,
    "class": lambda: dict,
}

CONSTRUCTORS: dict[str, Callable[[Any], Any]] = {
    "Tool(name)": lambda odd: Tool(odd, print, input_schema={"type": "object"}),
    "Tool(effect)": lambda odd: Tool("a", print, input_schema={"type": "object"}, effect=odd),
    "Tool(scopes)": lambda odd: Tool("a", print, input_schema={"type": "object"}, scopes=odd),
    "Tool(idempotent)": lambda o: Tool("a", print, input_schema={"type": "object"}, idempotent=o),
    "Tool(input_schema)": lambda odd: Tool("a", print, input_schema=odd),
    "Tool(output_schema)": lambda odd: Tool(
        "a", print, input_schema={"type": "object"}, output_schema=odd
    ),
    "compile_schema": compile_schema,
    "ToolThreads(limit)": ToolThreads,
    "ToolThreads(abandoned)": lambda odd: ToolThreads(abandoned=odd),
    "Recovery": Recovery,
    "Loop(on_deny)": lambda odd: Loop(ScriptedPlanner(), on_deny=odd),
    "Loop(on_non_progress)": lambda odd: Loop(ScriptedPlanner(), on_non_progress=odd),
    "Loop(tools)": lambda odd: Loop(ScriptedPlanner(), odd),
    "Loop(middleware)": lambda odd: Loop(ScriptedPlanner(), middleware=odd),
    "Loop(seed_memory)": lambda odd: Loop(ScriptedPlanner(), seed_memory=odd),
    "Loop(output_schema)": lambda odd: Loop(ScriptedPlanner(), output_schema=odd),
    "WindowCompactor(max_entries)": WindowCompactor,
    "WindowCompactor(max_bytes)": lambda odd: WindowCompactor(max_bytes=odd),
    "WindowCompactor(keep)": lambda odd: WindowCompactor(keep=odd),
    "WindowCompactor(summary)": lambda odd: WindowCompactor(summary=odd),
    "InMemoryCapabilities(agents)": lambda odd: InMemoryCapabilities(odd, {}),
    "InMemoryCapabilities(provided)": lambda odd: InMemoryCapabilities([], odd),
    "InMemoryCapabilities(a repertoire)": lambda odd: InMemoryCapabilities([], {"a/b": odd}),
    "continued": lambda odd: continued(odd, "go on"),
    "replay": replay,
    "find(status)": lambda odd: Search.of(status=odd),
    "find(kinds)": lambda odd: Search.of(kinds=odd),
    "find(labels)": lambda odd: Search.of(labels=odd),
    "find(label)": lambda odd: Search.of(labels={"team": odd}),
    "find(limit)": lambda odd: Search.of(limit=odd),
    "find(newest)": lambda odd: Search.of(newest=odd),
    "find(after)": lambda odd: Search.of(after=odd),
}
FITS = {("WindowCompactor(max_bytes)", "number")}
"""A compactor may allow any number of bytes."""


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("where", CONSTRUCTORS)
def test_an_odd_argument_gets_a_short_typed_refusal(where: str, kind: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        CONSTRUCTORS[where](ODD[kind]())
    assert len(str(refused.value)) < 1_000


DOORS: dict[str, Callable[[Job, Any], Any]] = {
    "emit": lambda job, odd: job.emit(odd),
    "emit data": lambda job, odd: job.emit(Event("a.b", odd)),
    "emit type": lambda job, odd: job.emit({"type": odd}),
    "checkpoint": lambda job, odd: job.checkpoint(1, [odd]),
    "tell": lambda job, odd: job.tell("child", [odd]),
    "note": lambda job, odd: job.note(odd, 1),
}


@pytest.mark.parametrize("kind", ["endless", "endless list", "shouting", "sharing"])
@pytest.mark.parametrize("door", DOORS)
async def test_a_job_refuses_an_odd_value_and_its_task_ends(
    door: str, kind: str, new_task: NewTask, acting: type[Acting]
) -> None:
    async def act(job: Job) -> None:
        async def through() -> None:
            outcome = DOORS[door](job, ODD[kind]())
            if outcome is not None:
                await outcome

        with pytest.raises(InvalidValue) as refused:
            await through()
        assert len(str(refused.value)) < 1_000

    async with Host(acting(act)) as host:
        assert (await host.run(new_task())).status is TaskStatus.SUCCESS


async def test_a_decision_is_read_no_deeper_than_it_may_nest() -> None:
    """The refusal comes from the level behind the limit; the levels below it are not read."""
    read = 0

    class Level(Sequence[Any]):
        def __getitem__(self, index: Any) -> Any:
            nonlocal read
            if index:
                raise IndexError
            read += 1
            return Level()

        def __len__(self) -> int:
            return 1

    async with Host() as host:
        with pytest.raises(InvalidValue, match="nested deeper than 128 levels"):
            await host.post("it", {"type": "a/b", "deep": Level()})
    assert read < 200


class Raising(Exception):
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


class Leaving(Exception):
    def __getattribute__(self, name: str) -> Any:
        raise SystemExit(name)


class Untouchable(BaseException):
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


FAULTS = [Raising, Leaving, Untouchable]


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_task_ends_whatever_its_exception_says_of_itself(
    fault: type[BaseException], new_task: NewTask, acting: type[Acting]
) -> None:
    async def act(job: Job) -> None:
        raise fault

    async with Host(acting(act)) as host:
        ended = await host.run(new_task())
    assert ended.failure is not None
    assert ended.failure.code == "engine/unhandled_error"
    assert ended.failure.metadata["type"] == fault.__name__
    assert ended.failure.metadata["file"] == __file__


@pytest.mark.parametrize("fault", FAULTS)
async def test_an_observers_odd_exception_stays_with_it(
    fault: type[BaseException], new_task: NewTask, acting: type[Acting]
) -> None:
    class Observing:
        def observe(self, task_id: str, event: Event) -> None:
            raise fault

    async def act(job: Job) -> None:
        job.emit({"type": "a.b"})

    async with Host(acting(act), observer=Observing()) as host:
        assert (await host.run(new_task())).status is TaskStatus.SUCCESS


class Coroutine:
    async def observe(self, task_id: str, event: Event) -> None:
        raise AssertionError


class Callable_:
    async def __call__(self, task_id: str, event: Event) -> None:
        raise AssertionError


class Holding:
    observe = Callable_()


@pytest.mark.parametrize("observer", [Coroutine(), Holding()])
def test_an_observer_that_nothing_would_await_is_refused(observer: Any) -> None:
    with pytest.raises(InvalidValue, match=r"observer\.observe: is a coroutine function"):
        Host(observer=observer)
    with pytest.raises(InvalidValue, match=r"observers\[1\]\.observe: is a coroutine function"):
        CompositeObserver(InMemoryObserver(), observer)


def test_an_edge_hands_back_exact_types_and_calls_no_method_of_a_subclass() -> None:
    texts: list[Any] = [
        edges.text(Text("é"), "it"), edges.prose(Text("é"), "it"), check_id(Text("é"), "it"),
        Search.of(agent=Text("é")).agent, Search.of(after=Text("é")).after,
    ]  # fmt: skip
    assert [(type(text), text) for text in texts] == [(str, "é")] * len(texts)
    numbers: list[Any] = [edges.whole(Number(5), "it", 1), Search.of(limit=Number(5)).limit]
    assert [(type(number), number) for number in numbers] == [(int, 5)] * 2
    assert edges.seconds(Number(5), "it") == 5.0
    assert Search.of(status=Text("paused")).status is TaskStatus.PAUSED  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", ["nul\0", "\ud800"])
def test_a_subclass_of_str_hides_no_bad_text(bad: str) -> None:
    for check in (check_text, check_id):
        with pytest.raises(InvalidValue, match=r"NUL|surrogate"):
            check(Text(bad), "it")
    with pytest.raises(InvalidValue, match="characters"):
        check_id(Text("x" * 10_000), "it")
    with pytest.raises(InvalidValue, match="use a whole number"):
        edges.whole(Number(0), "it", 1)


async def test_the_error_about_a_long_id_is_short() -> None:
    store = MemoryStore()
    with pytest.raises(TaskNotFound) as missing:
        await store.load("x" * 10_000_000)
    assert len(str(missing.value)) < 200

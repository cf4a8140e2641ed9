"""Hostile code at every door of a Host: substrates, planners, tools, middleware and observers.

What they do is drawn from a seed: values, exceptions, deltas, events, moments and sizes, at each
call of `Job`. `play` runs a batch of such Tasks and says what of R21 and R22 did not hold: every
Task ends or pauses, no attempt is uncounted, every Task is listed, and what is stored is read by a
store that is opened anew.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any, Final, cast

from agentic_kernel import InvalidValue, KernelError, Task, TaskNotFound, TaskStatus
from agentic_kernel_engine import (
    Conflict,
    Event,
    Host,
    Job,
    Record,
    Store,
    StoreError,
    TaskFailed,
    UnknownOutcome,
)
from agentic_kernel_engine.codec import task_to_json
from agentic_kernel_engine.events import Checked
from agentic_kernel_engine.host.run import RunEnded
from agentic_kernel_engine.loop.loop import Loop
from agentic_kernel_engine.plans.action import AskUser, FinalAnswer, Schedule, Thought, ToolCall
from agentic_kernel_engine.plans.limits import Limits
from agentic_kernel_engine.plans.plan import Delta, Plan, Usage
from agentic_kernel_engine.tools.tool import tool

PATIENCE: Final = 120.0
"""Seconds after which a batch counts as stuck."""
ENTRIES: Final = 6
"""How often a program that goes on by itself is drawn anew; after that it ends."""
ATTEMPTS: Final = 3
SOON: Final = timedelta(minutes=1)
"""Three thousand readings of the batch's clock: longer than it takes to close its Host."""
EAST, WEST = timezone(timedelta(hours=14)), timezone(timedelta(hours=-14))
Opening = Callable[[], AbstractAsyncContextManager[Store]]
"""Opens the same store, each time anew."""


class Own(BaseException):
    """As some frameworks derive theirs."""


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


class Leaving(Exception):
    def __str__(self) -> str:
        raise SystemExit("no text")


class Numbered(Exception):
    def __str__(self) -> Any:
        return 7


class Unset(Exception):
    def __setattr__(self, name: str, value: Any) -> None:
        raise TypeError("nothing may be set")


class Items(dict[str, Any]):
    def items(self) -> Any:
        raise Own("no items")


class Wordy(str):
    def encode(self, *_: Any, **__: Any) -> Any:
        raise Own("no bytes")


class Nowhere(tzinfo):
    def utcoffset(self, _: Any) -> timedelta:
        raise ValueError("no offset")

    def tzname(self, _: Any) -> str:
        return "nowhere"

    def dst(self, _: Any) -> None:
        return None


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def _cyclic() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


VALUES: Final[list[Callable[[], Any]]] = [
    lambda: None, lambda: True, lambda: 0, lambda: 1.0, lambda: -(1 << 63), lambda: 1 << 63,
    lambda: 10**400, lambda: math.nan, lambda: math.inf, lambda: -0.0, lambda: "", lambda: "x",
    lambda: "\ud800", lambda: "a\0b", lambda: "\x1b[2J\u202e\u2028", lambda: "€" * 1_000,
    lambda: "\x01" * 5_000, list, dict, lambda: {"a": [1, {"b": None}]},
    lambda: {1: "a", "1": "b"}, lambda: {"\ud800": 1}, lambda: {"a\0": 1}, lambda: (1, (2,)),
    lambda: {1, 2}, lambda: b"bytes", lambda: object(), lambda: iter([1]), lambda: range(10**9),
    lambda: _deep(127), lambda: _deep(128), lambda: _deep(5_000), _cyclic,
    lambda: Items(a=1), lambda: [Items(a=1)], lambda: Wordy("€"), lambda: {"a": Wordy("€")},
    lambda: datetime.max, lambda: ValueError("a value"), lambda: type,
]  # fmt: skip
LARGE: Final[list[Callable[[], Any]]] = [
    lambda: "x" * 9_000_000, lambda: "€" * 2_500_000, lambda: ["x" * 1_000] * 7_000,
    lambda: "\x01" * 1_300_000,
]  # fmt: skip
FAULTS: Final[list[Callable[[], BaseException]]] = [
    lambda: ValueError("odd"), lambda: Own("odd"), lambda: SystemExit(3), GeneratorExit,
    asyncio.CancelledError, lambda: RunEnded("paused"), lambda: RunEnded("killed"),
    lambda: BaseExceptionGroup("g", [Own(), SystemExit()]), lambda: ExceptionGroup("g", [Mute()]),
    Mute, Leaving, Numbered, Unset, MemoryError, RecursionError, StopAsyncIteration, StopIteration,
    lambda: KeyError("\ud800"), lambda: ValueError("a\0b"), lambda: ValueError(object()),
    lambda: InvalidValue("x", "y"), lambda: StoreError("s"), lambda: Conflict("t"),
    lambda: UnknownOutcome("u"), lambda: TaskNotFound("t"), lambda: KernelError(), TimeoutError,
    lambda: TaskFailed("a/b", "c"), lambda: TaskFailed("", ""), lambda: TaskFailed("a/b", "\0"),
    lambda: TaskFailed(cast(Any, 7), cast(Any, None), cast(Any, [1])),
    lambda: TaskFailed("a/b", "c", {"x": object()}), lambda: TaskFailed("a/b", Wordy("€")),
    lambda: TaskFailed("a/b", "x" * 9_000_000), lambda: ValueError("x" * 9_000_000),
]  # fmt: skip
MOMENTS: Final[list[Any]] = [
    None, None, datetime(2029, 1, 1, tzinfo=UTC), datetime(2031, 1, 1, tzinfo=EAST),
    datetime.max.replace(tzinfo=WEST), datetime.min.replace(tzinfo=EAST),
    datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC), datetime.max, datetime.min,
    datetime(2, 1, 1, tzinfo=EAST), datetime(9998, 12, 31, tzinfo=WEST), "2030-01-01", 7,
    datetime(2030, 1, 1, tzinfo=Nowhere()), datetime(2029, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
]  # fmt: skip
PIECES: Final[list[Any]] = [
    "a", "€" * 1_000, "\ud800", "\0", 7, None, Wordy("€"), "x" * 100_000,
]  # fmt: skip
CONSUMED: Final[list[Any]] = [(), [1], 5, "x", {2}]
KEYS: Final[list[Any]] = [
    "acme/x", "acme/y", "hostile/z", "", "x", "/", "a/b/c", "\ud800/x", "a\0/b", 7, None,
    Wordy("acme/€"), "acme/" + "k" * 5_000,
]  # fmt: skip
TYPES: Final[list[Any]] = [
    "acme.said", "run.delta", "run.delta", "run.turn", "task.completed", "task.killed", "", 7, None,
    "\ud800", "a\0b", Wordy("€"), "t" * 5_000,
]  # fmt: skip


class Chance(random.Random):
    """What is drawn from the lists above."""

    def value(self) -> Any:
        return self.choice(LARGE if self.random() < 0.01 else VALUES)()

    def fault(self) -> BaseException:
        return self.choice(FAULTS)()

    def moment(self) -> Any:
        return self.choice(MOMENTS)

    def event(self) -> Any:
        kind = self.choice(TYPES)
        match self.randrange(4):
            case 0:
                return Event(kind, self.value(), self.moment())
            case 1:
                return Event("run.delta", {"text": self.value()}, self.moment())
            case 2:
                return {"type": kind, "x": self.value()}
            case _:
                return self.value()

    def events(self) -> Any:
        return [self.event() for _ in range(self.randrange(3))]


class Hostile:
    """A substrate that does, at every entry, a few things that no substrate should do."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.entries: Counter[str] = Counter()
        self.allowed: Counter[str] = Counter()
        """How many entries have a reason: a pause that is due, or a cancellation from outside."""
        self.tasks: list[str] = []

    async def execute(self, job: Job) -> Any:
        task_id = job.task.id
        self.entries[task_id] += 1
        entry = self.entries[task_id]
        chance = Chance(f"{self.seed}:{task_id}:{entry}")
        if entry > ENTRIES:
            return "enough"
        for _ in range(chance.randrange(1, 8)):
            try:
                await self._act(chance, job)
            except Exception:
                if chance.random() < 0.3:
                    raise
        if chance.random() < 0.5:
            raise chance.fault()
        return chance.value()

    async def _act(self, chance: Chance, job: Job) -> None:
        match chance.randrange(16):
            case 0 | 1:
                await job.commit(chance.value(), chance.events())
            case 2 | 3:
                await job.checkpoint(
                    chance.value(), chance.events(), if_paused={chance.choice(KEYS): chance.value()}
                )
            case 4:
                due = chance.moment()
                self.allowed[job.task.id] += 1
                await job.pause(chance.value(), chance.events(), chance.value(), due=due)
            case 5 | 6:
                job.note(chance.choice(KEYS), chance.value())
            case 7 | 8 | 9:
                for _ in range(chance.choice([1, 3, 200])):
                    job.emit(chance.event())
            case 10:
                job.report(
                    [Checked("acme.built", {"x": chance.choice(["a", "€", "\0", "\ud800"])})]
                )
            case 11:
                child = Task.new(
                    id=f"{job.task.id}-child-{chance.randrange(3)}", summary="", instructions="",
                    runtime_kind="hostile", metadata={"acme/n": 1},
                )  # fmt: skip
                self.allowed[child.id] += 1
                await job.spawn(child)
                self.tasks.append(child.id)
            case 12:
                await job.history(cast(Any, chance.choice([None, (0, 0), (1 << 70, -1), 5, "x"])))
            case 13:
                other: Any = chance.choice([*self.tasks, "nobody", 7, "\ud800", ""])
                calls: list[Callable[[Any], Any]] = [
                    job.read, job.cancel, lambda id: job.tell(id, [{"type": "acme/x"}]),
                    lambda id: job.tell(id, []), lambda id: job.tell(id, chance.value()),
                ]  # fmt: skip
                await chance.choice(calls)(other)
            case 14:
                await job.commit(None, consumed=cast(Any, chance.choice(CONSUMED)))
            case _:
                await asyncio.sleep(0)
        if chance.random() < 0.02:
            self.allowed[job.task.id] += 1
            root = asyncio.current_task()
            assert root is not None
            root.cancel()
            await asyncio.sleep(0)

    async def on_killed(self, task: Task, state: Any, events: Any) -> None:
        raise Chance(f"{self.seed}:{task.id}:on_killed").fault()


class Wicked:
    """A planner, its tools and its middleware; each may do anything at any call."""

    def __init__(self, seed: int, counts: Hostile) -> None:
        self.seed = seed
        self._counts = counts
        self._calls: Counter[str] = Counter()

        @tool(effect="none")
        async def act(a: int = 0) -> Any:
            """Do something."""
            return self._odd("tool")

        @tool(effect="write")
        def work(a: int = 0) -> Any:
            """Do something in a thread."""
            return self._odd("thread")

        self.loop = Loop(
            cast(Any, self), [act, work], limits=Limits(max_iterations=6, max_tool_calls=12),
            middleware=[Meddling(self)],
        )  # fmt: skip

    def chance(self, where: str) -> Chance:
        self._calls[where] += 1
        return Chance(f"{self.seed}:{where}:{self._calls[where]}")

    def _odd(self, where: str) -> Any:
        chance = self.chance(where)
        if chance.random() < 0.4:
            raise chance.fault()
        return chance.value()

    def plan(self, context: Any) -> Any:
        chance = self.chance(f"plan {context.task.id}")
        if chance.random() < 0.4:
            return self._stream(chance, context)
        return self._answer(chance, context)

    async def _stream(self, chance: Chance, context: Any) -> AsyncIterator[Any]:
        for _ in range(chance.randrange(4)):
            text = chance.choice(
                ["a", "€" * 1_000, "\ud800", "\0", 7, None, Wordy("€"), "x" * 100_000]
            )
            yield Delta(cast(Any, text), cast(Any, chance.choice(["", "", "reasoning", 7])))
        yield await self._answer(chance, context)

    async def _answer(self, chance: Chance, context: Any) -> Any:
        if chance.random() < 0.2:
            raise chance.fault()
        action = self._action(chance, context)
        match chance.randrange(5):
            case 0:
                return Plan((action,), text=cast(Any, chance.value()))
            case 1:
                return Plan((action, self._action(chance, context)), usage=Usage(cost=0.1))
            case 2:
                return [action, action]
            case 3:
                return chance.value()
            case _:
                return action

    def _action(self, chance: Chance, context: Any) -> Any:
        match chance.randrange(6):
            case 0 | 1:
                return ToolCall(chance.choice(["act", "work", "none", "\0"]), chance.value())
            case 2:
                return FinalAnswer(chance.value())
            case 3:
                self._counts.allowed[context.task.id] += 1
                due = chance.moment()
                due = (
                    due.isoformat() if isinstance(due, datetime) and chance.random() < 0.8 else due
                )
                return Schedule(cast(Any, due), cast(Any, chance.choice(["", "x", 7, "\ud800"])))
            case 4:
                return AskUser(cast(Any, chance.value()))
            case _:
                return Thought(cast(Any, chance.value()))


class Meddling:
    """Middleware that raises or answers nonsense now and then."""

    def __init__(self, of: Wicked) -> None:
        self._of = of

    async def _now_and_then(self, where: str) -> Any:
        chance = self._of.chance(where)
        if chance.random() < 0.05:
            raise chance.fault()
        return chance.value() if chance.random() < 0.05 else None

    async def on_run_start(self, state: Any) -> None:
        await self._now_and_then("start")

    async def on_run_end(self, state: Any, outcome: Any) -> None:
        await self._now_and_then("end")

    async def before_model(self, context: Any) -> None:
        await self._now_and_then("before")

    async def after_model(self, context: Any, plan: Any) -> Any:
        return await self._now_and_then("after")

    async def before_tool(self, invocation: Any) -> Any:
        return await self._now_and_then("before tool")

    async def after_tool(self, invocation: Any, observation: Any) -> Any:
        return await self._now_and_then("after tool")

    async def on_error(self, context: Any, error: Exception) -> Any:
        return await self._now_and_then("error")


class Both:
    """A substrate for both kinds of Tasks."""

    def __init__(self, seed: int) -> None:
        self.hostile = Hostile(seed)
        self.wicked = Wicked(seed, self.hostile)

    async def execute(self, job: Job) -> Any:
        if job.task.runtime_kind == "hostile":
            return await self.hostile.execute(job)
        self.hostile.entries[job.task.id] += 1
        return await self.wicked.loop.execute(job)

    async def on_killed(self, task: Task, state: Any, events: Any) -> None:
        await self.hostile.on_killed(task, state, events)


class Shouting:
    """An observer that raises whatever there is, but for ``KeyboardInterrupt``."""

    def __init__(self, seed: int) -> None:
        self._chance = Chance(f"{seed}:observer")

    def observe(self, task_id: str, event: Event) -> None:
        if self._chance.random() < 0.2:
            raise self._chance.fault()


async def play(seed: int, opening: Opening, tasks: int = 50) -> int:
    """One batch; returns how many Tasks there were, children included.

    Raises:
        AssertionError: A rule does not hold; the seed is said.
    """
    try:
        async with asyncio.timeout(PATIENCE):
            return await _play(seed, opening, tasks)
    except BaseException as broken:
        broken.add_note(f"seed {seed}")
        raise


async def _play(seed: int, opening: Opening, tasks: int) -> int:
    chance, both = Chance(f"{seed}:driver"), Both(seed)
    ticks = itertools.count()
    begin = datetime(2030, 1, 1, tzinfo=UTC)

    def clock() -> datetime:
        return begin + timedelta(milliseconds=20 * next(ticks))

    ids = [f"{seed}-{number}" for number in range(tasks)]
    both.hostile.tasks += ids
    async with opening() as store, Host(
        both, store, observer=Shouting(seed), clock=clock, interval=0.002, grace=0.0,
        max_attempts=ATTEMPTS, unwind_timeout=1.0,
    ) as host:  # fmt: skip
        for number, task_id in enumerate(ids):
            kind = "hostile" if number % 2 else "loop"
            await host.dispatch(
                Task.new(id=task_id, summary="", instructions="x", runtime_kind=kind)
            )
            if chance.random() < 0.3:
                await _meddle(chance, host, chance.choice(ids[: number + 1]), both)
        await _at_rest(host, store)
        for task_id, entries in both.hostile.entries.items():
            most = 1 + both.hostile.allowed[task_id] + ATTEMPTS
            assert entries <= most, f"{task_id} was entered {entries} times, not {most}"
    async with opening() as store, Host(store=store) as reader:
        known = set(ids)
        found = await _all(store)
        assert known <= found.keys(), f"not listed: {known - found.keys()}"
        assert not await store.unreadable()
        for task_id in found:
            await _read(reader, task_id)
        for task_id, record in found.items():
            if not record.task.status.terminal:
                assert (await reader.kill(task_id)).changed
        statuses = {record.task.status for record in (await _all(store)).values()}
        assert all(status.terminal for status in statuses), statuses
    return len(found)


async def _meddle(chance: Chance, host: Host, task_id: str, both: Both) -> None:
    """What a person does to a Task meanwhile."""
    both.hostile.allowed[task_id] += 1
    with suppress(KernelError, Own):
        match chance.randrange(4):
            case 0:
                await host.pause(task_id)
            case 1:
                await host.kill(task_id)
            case 2:
                await host.resume(task_id, "more")
            case _:
                await host.post(task_id, {"type": "acme/x", "y": chance.value()})


async def _at_rest(host: Host, store: Store) -> None:
    """Wait until every Task is terminal, or paused with no resume that comes soon.

    One look is not enough, because a Task may leave the pages that are still to be read for those
    that were. Two looks that find the same versions saw the store as it was between them.
    """
    before: Mapping[str, int] | None = None
    while True:
        soon = host._parts.clock() + SOON
        records = await _all(store)
        moving = any(
            record.task.status is TaskStatus.RUNNING
            or (record.due_at is not None and record.due_at <= soon)
            for record in records.values()
            if not record.task.status.terminal
        )
        found = {task_id: record.version for task_id, record in records.items()}
        if not moving and found == before:
            return
        before = None if moving else found
        await asyncio.sleep(0.002)


async def _all(store: Store) -> Mapping[str, Record]:
    found: dict[str, Record] = {}
    after: str | None = None
    while page := await store.find(after=after, limit=20):
        found.update({record.task.id: record for record in page})
        after = page[-1].task.id
    return found


async def _read(reader: Host, task_id: str) -> None:
    """Everything that is stored of a Task has a form for people in every zone."""
    outcome = await reader.outcome(task_id)
    task_to_json(outcome.task)
    record = await reader.record(task_id)
    moments: Collection[datetime | None] = [
        record.due_at, record.task.created_at, record.task.ended_at,
        *(event.at for event in outcome.events),
    ]  # fmt: skip
    for moment in moments:
        for zone in (EAST, WEST):
            if moment is not None:
                moment.astimezone(zone)
    if not record.task.status.terminal:
        assert record.task.status is TaskStatus.PAUSED, record.task.status
        assert record.owner is None
    if record.task.failure is not None:
        assert record.task.failure.code

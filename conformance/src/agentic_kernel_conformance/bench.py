"""Bench: what a stranger's runtime or store costs, in a row beside ours.

A factory of a runtime takes the `Store` to use, and returns the runtime with the `Work` that makes
its Tasks: the two fixtures of `RuntimeContract`. A factory of a store takes nothing. Ours is the
kit's scripted substrate in a Host on a `MemoryStore`; all are measured in turns within one run.
"""

from __future__ import annotations

import asyncio
import sys
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib import import_module
from inspect import isawaitable, signature
from typing import Any, Final, Protocol, runtime_checkable

from agentic_kernel import Query, Runtime, Task, TaskStatus
from agentic_kernel_engine import Host, MemoryStore, Store
from agentic_kernel_engine.events import from_stored

from .bench_row import Per, Row, pace
from .counted_store import CountedStore
from .mark import ADDRESS
from .mark_pacing import paced
from .processes import close
from .scripted import ScriptedSubstrate, ScriptedWork
from .work import OutputWork, System, Work, extra_of

PATIENCE: Final = 20.0
"""Seconds for one Task of the bench to reach a status."""
ROUNDS: Final = 20
"""Tasks of each kind that are timed, unless the caller says otherwise."""
MOST_ROUNDS: Final = 10_000
_LOOK: Final = 0.001
"""Seconds between two looks at a Task, for a runtime without a `wait`."""
_PORT: Final = tuple(name for name in vars(Store) if not name.startswith("_"))
_SEEN: Final = ("status", "started", "ended", "failed", "number of supplements")
"""The parts of a snapshot that are compared, as `_seen` gives them."""
_MOST: Final = 500
"""The most characters of a failure's message that are shown."""
_EVENTS: Final = 1_000
"""The most events of a Task that are compared."""

Trace = list[tuple[Any, ...]]
"""The observable facts about each Task of a scenario, without ids, times and texts."""
Make = Callable[[Store], Any]
"""Makes a runtime on a store, with its work; may be a coroutine function."""


class NotBenchable(Exception):
    """Error for a factory that cannot be measured; the message names it and the remedy."""


@runtime_checkable
class TurnsWork(Protocol):
    """Optional: a `Work` that knows the turns of a Task of ``pass_safe_points``.

    Without it the figures are per Task. The number of commits is no number of turns: a runtime that
    commits more often would have more turns, and its commits per turn would stay the same.
    """

    def turns(self, task: Task) -> int:
        """The number of turns of a Task that has ended."""
        ...


@runtime_checkable
class ModelWork(Protocol):
    """Optional: a `Work` that knows the time of the model in a Task of ``pass_safe_points``."""

    def model_seconds(self, task: Task) -> float:
        """Seconds that the model itself took for the Task; 0 if there is no model."""
        ...


@dataclass(slots=True)
class Contestant:
    """One runtime on one store, and what was read of it."""

    runtime: str
    store: str
    make: Make
    open: Callable[[], Store]
    same: int = 0
    differs: list[str] = field(default_factory=list)
    turns: list[float] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    kills: list[float] = field(default_factory=list)
    commits: float | None = None
    bytes: float | None = None
    pace: float = 0.0
    per: Per = "turn"
    reasons: list[str] = field(default_factory=list)

    def row(self) -> Row:
        """The row of what was read."""
        return Row(
            self.runtime, self.store, self.same, tuple(self.differs), tuple(self.turns),
            tuple(self.pauses), tuple(self.kills), self.commits, self.bytes, pace=self.pace,
            reasons=tuple(self.reasons), per=self.per,
        )  # fmt: skip


def loaded(path: str) -> Callable[..., Any]:
    """The callable that ``module:name`` names; the current folder is searched as well.

    Raises:
        NotBenchable: There is no such callable.
    """
    module, colon, name = path.partition(":")
    if not (module and colon and name):
        raise NotBenchable(f"{path!r} names no factory; give module:name, e.g. acme_bench:make")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise NotBenchable(
            f"{path}: {error}; give the module as Python imports it from this folder, or install it"
        ) from error
    except Exception as error:
        raise NotBenchable(
            f"{path}: its import raised {type(error).__name__}: {error}; mend the module"
        ) from error
    if not callable(found):
        raise NotBenchable(f"{path} is {type(found).__name__}, and must be callable")
    made: Callable[..., Any] = found
    return made


def ours(store: Store) -> tuple[System, Work]:
    """Our scripted substrate in a Host."""
    work = ScriptedWork()
    return Host(ScriptedSubstrate(work), store), work


async def bench(runtime: str | None, store: str | None, rounds: int = ROUNDS) -> list[Row]:
    """Measure ours on memory, and beside it the named runtime or store, or both together.

    A factory of a runtime finds the address of the marks in the environment, as a worker process of
    `SubstrateContract` does. Each mark is answered after 10 ms.

    Args:
        runtime: ``module:name`` of a factory that takes a store and returns a runtime and its work.
        store: ``module:name`` of a factory of a store.

    Raises:
        NotBenchable: A factory is missing, raises, or gives something else.
    """
    opened: Callable[[], Any] = MemoryStore if store is None else loaded(store)
    make: Make = ours if runtime is None else loaded(runtime)
    contestants = [Contestant("ours", "memory", ours, MemoryStore)]
    if store is not None:
        contestants.append(Contestant("ours", store, ours, opened))
    if runtime is not None:
        contestants.append(Contestant(runtime, store or "memory", make, opened))
    if runtime is not None:
        paced()  # As in a worker process: the address is known when the factory is called.
    wanted: dict[str, Trace] = {}
    for each in contestants:
        await _compare(each, wanted)
    for _ in range(rounds):
        for each in contestants:
            try:
                if each.commits is None:
                    await _count(each)
                await _time(each)
            except TimeoutError as error:
                raise NotBenchable(
                    f"{each.runtime} on {each.store}: a Task did not reach its status within "
                    f"{PATIENCE:g} s; let the Tasks of its Work do what `Work` says"
                ) from error
    return [each.row() for each in contestants]


async def _made(name: str, make: Callable[..., Any], *given: Store) -> Any:
    """The object that a factory makes; an error of the factory names the line that raised it."""
    try:
        signature(make).bind(*given)
    except ValueError:
        pass  # A callable of C without a signature.
    except TypeError as error:
        wanted = "one argument, the store" if given else "no argument"
        raise NotBenchable(
            f"{name} is called with {wanted}: {error}; name a function that takes {wanted}, "
            "e.g. make in tests/bench.py"
        ) from error
    try:
        made = make(*given)
        return await made if isawaitable(made) else made
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise NotBenchable(
            f"{name} raised {type(error).__name__}: {error} ({place.filename}:{place.lineno}); "
            "mend the factory"
        ) from error


@asynccontextmanager
async def _running(each: Contestant) -> AsyncIterator[tuple[System, Work, CountedStore]]:
    """The runtime on a new store, with its calls counted; both are closed at the end."""
    kept = await _made(each.store, each.open)
    lacks = [name for name in _PORT if not hasattr(kept, name)]
    if lacks or isinstance(kept, type):
        raise NotBenchable(
            f"{each.store} gave {type(kept).__name__}, which is no Store: it lacks "
            f"{', '.join(lacks[:5]) or 'an instance'}"
        )
    counted = CountedStore(kept)
    try:
        given = await _made(each.runtime, each.make, counted)
        match given:
            case (system, work) if isinstance(system, Runtime) and isinstance(system, Query):
                if not isinstance(work, Work):
                    raise NotBenchable(f"{each.runtime}: {type(work).__name__} is no Work")
            case _:
                raise NotBenchable(
                    f"{each.runtime} gave {type(given).__name__}; return a pair: a Runtime that "
                    "is also a Query, and its Work"
                )
        async with _entered(system):
            yield system, work, counted
    finally:
        await close(kept)


@asynccontextmanager
async def _entered(system: Any) -> AsyncIterator[None]:
    """Enter the runtime if it can be entered; close it at the end if it can be closed."""
    if hasattr(system, "__aenter__"):
        async with system:
            yield
        return
    try:
        yield
    finally:
        await close(system)


async def _until(system: System, task: Task, *statuses: TaskStatus) -> Task:
    """The Task, once it is in one of the statuses or terminal.

    Raises:
        TimeoutError: It took longer than `PATIENCE`.
    """
    async with asyncio.timeout(PATIENCE):
        wait = getattr(system, "wait", None)
        if wait is not None:
            found: Task = await wait(task.id, *statuses)
            return found
        while True:
            found = await system.get(task.id)
            if found.status in statuses or found.status.terminal:
                return found
            await asyncio.sleep(_LOOK)


async def _begun(system: System, work: Work) -> Task:
    """A Task that runs, and has said something if its work can tell."""
    task = work.run_until_stopped()
    await system.dispatch(task)
    await _until(system, task, TaskStatus.RUNNING)
    if isinstance(work, OutputWork):
        async with asyncio.timeout(PATIENCE):
            await work.until_output(task)
    return task


async def _ends(system: System, work: Work, made: Task) -> list[Task]:
    await system.dispatch(made)
    return [await _until(system, made)]


async def _paused(system: System, work: Work) -> list[Task]:
    task = await _begun(system, work)
    await system.pause(task.id)
    seen = await _until(system, task, TaskStatus.PAUSED)
    await system.resume(task.id, extra_of(work, "go on"))
    again = await _until(system, task, TaskStatus.RUNNING)
    await system.kill(task.id)
    return [seen, again, await _until(system, task)]


async def _killed(system: System, work: Work) -> list[Task]:
    task = await _begun(system, work)
    await system.kill(task.id)
    return [await _until(system, task)]


_SCENARIOS: Final[dict[str, Callable[[System, Work], Awaitable[list[Task]]]]] = {
    "succeed": lambda system, work: _ends(system, work, work.succeed()),
    "fail": lambda system, work: _ends(system, work, work.fail()),
    "safe points": lambda system, work: _ends(system, work, work.pass_safe_points()),
    "pause and resume": _paused,
    "kill": _killed,
}
"""Each returns the snapshots that are compared."""


async def _compare(each: Contestant, wanted: dict[str, Trace]) -> None:
    """Play every scenario; the first contestant says what is to be observed."""
    for name, play in _SCENARIOS.items():
        async with _running(each) as (system, work, store):
            try:
                snapshots = await play(system, work)
            except TimeoutError:
                each.differs.append(f"{name} (no answer for {PATIENCE:g} s)")
                continue
            found: Trace = [_seen(task) for task in snapshots]
            if store.calls["insert"]:
                found.append(tuple(await _transitions(store, snapshots[-1])))
        if len(found) < len(wanted.setdefault(name, found)):
            found.append(wanted[name][-1])  # A runtime with a store of its own shows no events.
        if found == wanted[name]:
            each.same += 1
        else:
            each.differs.append(name)
            each.reasons.append(f"{name}: {_why(snapshots, found, wanted[name])}")


def _why(snapshots: Sequence[Task], found: Trace, wanted: Trace) -> str:
    """The first difference of two traces, with the failure of the Task that shows it."""
    for task, mine, theirs in zip(snapshots, found, wanted, strict=False):
        parts = [
            f"{name} is {one}, and ours {other}"
            for name, one, other in zip(_SEEN, mine, theirs, strict=True)
            if one != other
        ]
        if parts and task.failure is not None:
            message = " ".join(task.failure.message.split())[:_MOST]
            parts.append(f"the failure is {task.failure.code}: {message}")
            if ADDRESS in task.instructions:
                parts.append(
                    f"the Task names {ADDRESS}, so let the factory make the substrate that puts "
                    "the address in, as the fixture `factory` of your contract test does"
                )
        if parts:
            return "; ".join(parts)
    return f"the Host's events are {', '.join(found[-1])}, and ours {', '.join(wanted[-1])}"


def _seen(task: Task) -> tuple[Any, ...]:
    ended, failed = task.ended_at is not None, task.failure is not None
    return str(task.status), task.started_at is not None, ended, failed, len(task.supplements)


async def _transitions(store: CountedStore, task: Task) -> list[str]:
    """The types of the Host's own events, which every substrate has in common."""
    stored = await store.events(task.id, limit=_EVENTS)
    types = [from_stored(cursor, text).type for cursor, text in stored]
    return [name for name in types if name.startswith("task.")]


async def _count(each: Contestant) -> None:
    """Count the commits and bytes of a Task, per turn if its work knows the turns."""
    async with _running(each) as (system, work, store):
        task = work.pass_safe_points()
        await system.dispatch(task)
        ended = await _until(system, task)
        owned = [write for write in store.writes if write.owned and not write.flush]
        turns = _turns(each, work, ended)
    each.per = "turn" if turns else "Task"
    if owned:
        each.commits = len(owned) / (turns or 1)
        each.bytes = sum(write.bytes for write in owned if not write.last) / (turns or 1)


def _turns(each: Contestant, work: Work, task: Task) -> int | None:
    """The turns of a Task; None if its work does not know them."""
    if not isinstance(work, TurnsWork):
        return None
    turns: object = work.turns(task)
    if isinstance(turns, int) and not isinstance(turns, bool) and turns > 0:
        return turns
    raise NotBenchable(
        f"{each.runtime}: turns(task) of {type(work).__name__} gave {turns!r:.100}; return the "
        "number of turns that the Task took, a whole number from 1"
    )


async def _time(each: Contestant) -> None:
    """One reading of each time."""
    each.pace = min(each.pace or float("inf"), pace())
    async with _running(each) as (system, work, _):
        task = work.pass_safe_points()
        began = time.perf_counter()
        await system.dispatch(task)
        ended = await _until(system, task)
        took = time.perf_counter() - began
        if isinstance(work, ModelWork):
            took -= work.model_seconds(ended)
        if took > 0:
            each.turns.append((_turns(each, work, ended) or 1) / took)
        for status in (TaskStatus.PAUSED, TaskStatus.CANCELLED):
            pausing = status is TaskStatus.PAUSED
            if pausing and any(name.startswith("pause") for name in each.differs):
                continue
            task = await _begun(system, work)
            began = time.perf_counter()
            await (system.pause if pausing else system.kill)(task.id)
            await _until(system, task, status)
            readings = each.pauses if pausing else each.kills
            readings.append((time.perf_counter() - began) * 1e3)
            if pausing:
                await system.kill(task.id)


def checked_rounds(text: str) -> int:
    """The number of rounds from the command line.

    Raises:
        ValueError: It is not from 1 to `MOST_ROUNDS`.
    """
    number = int(text)
    if not 1 <= number <= MOST_ROUNDS:
        raise ValueError(f"{number} rounds; give 1 to {MOST_ROUNDS}")
    return number


def measured(runtime: str | None, store: str | None, rounds: int) -> Sequence[Row]:
    """Run `bench` in an event loop of its own.

    Raises:
        NotBenchable: Neither was named, or a factory cannot be measured.
    """
    if runtime is None and store is None:
        raise NotBenchable("nothing to measure; give --runtime module:name or --store module:name")
    return asyncio.run(bench(runtime, store, rounds))

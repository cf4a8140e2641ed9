"""End to end: the same scripted scenarios on every runtime and every store.

A scenario is played by the vendors' real clients against a scripted server, by the real small model
whose decoding admits the script alone, and by the reference, a script in the Loop without a wire.
The model's own time is what the same server needs to say the same answers to a bare HTTP client on
one connection; the small model's is measured where it generates; the reference has none.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from above import turns_per_second
from postgres_server import FASTEST

sys.path.append(str(Path(__file__).parents[1]))

from agentic_kernel import Task, TaskStatus
from agentic_kernel_conformance.bench_row import Row, pace
from agentic_kernel_conformance.bench_row import table as table_of_rows
from agentic_kernel_engine import Event, Host
from agentic_kernel_engine.plans.vocabulary import STEP_OBSERVED
from integration.equivalence.counts import HTTP, TURNS, counts, turning
from integration.equivalence.matrix import (
    NAMES,
    Played,
    comparable,
    played,
    reference,
    subject,
)
from integration.equivalence.runtimes.reference import Runtime as Reference
from integration.equivalence.scenarios import SCENARIOS, Scenario, Stage
from integration.equivalence.script import LONG, Says, fixtures
from integration.equivalence.setting import FirstPiece, Setting, Subject
from integration.equivalence.stores import STORES, Kept, Opening, stores
from integration.equivalence.vendor import Vendor

LENGTH: Final = {"local": 6, "copilot": 10}
"""Turns of a timed Task where they take long; `USUAL` elsewhere."""
USUAL: Final = 30
PATIENCE: Final = 600.0
"""Seconds for one timed Task, and for all latencies of a cell."""
QUICK: Final = ("answer", "one tool", "approval", "pause and resume", "kill")
"""The scenarios that the quick mode compares."""


LAST: Final = "local"
"""The real model: it takes as long as all the others together."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How much of a runtime is measured."""

    scenarios: Sequence[Scenario]
    rounds: int
    """Timed Tasks of each cell."""
    stops: int
    """Pauses, and kills, of each cell."""


@dataclass(frozen=True, slots=True)
class Panels:
    """Some measures of the same rows, to be drawn side by side."""

    panels: str
    """The name of the drawing."""
    title: str
    measures: dict[str, dict[str, dict[str, float]]]
    """Of each measure, of each runtime, of each store."""

    def record(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {"panels": self.panels, "title": self.title, "measures": self.measures}


def measure() -> list[Row | Panels]:
    """Every runtime on every store, every scenario; of the real model as much as in the quick mode.

    `integration/equivalence` compares all of its scenarios.
    """
    whole = Extent(SCENARIOS, rounds=5, stops=10)
    extents = {name: whole for name in ("reference", *NAMES) if name != LAST}
    return _measured({**extents, LAST: _quickly()})


def quick() -> list[Row | Panels]:
    """The runtimes that start at once, and the scenarios that differ most."""
    return _measured(dict.fromkeys(("reference", *HTTP), _quickly()))


def _quickly() -> Extent:
    chosen = [scenario for scenario in SCENARIOS if scenario.name in QUICK]
    return Extent(chosen, rounds=3, stops=3)


def table(findings: Sequence[dict[str, Any]]) -> str:
    """The rows; the drawing of them is a file of its own."""
    return table_of_rows([each for each in findings if "row" in each])


def _measured(extents: Mapping[str, Extent]) -> list[Row | Panels]:
    rows: list[Row] = []
    with (
        warnings.catch_warnings(),
        _silent(),
        tempfile.TemporaryDirectory(dir=FASTEST) as folder,
        stores(Path(folder).resolve(), *STORES) as openings,
        ExitStack() as keep,
    ):
        # A word of aimock's for the end of an answer with calls, which Google's SDK does not know.
        warnings.filterwarnings("ignore", "FUNCTION_CALL is not a valid FinishReason")
        wanted: dict[str, Played] = {}
        for name, extent in extents.items():
            for each in extent.scenarios:
                if each.name not in wanted:
                    wanted[each.name] = asyncio.run(reference(each))
            on = Reference() if name == "reference" else keep.enter_context(subject(name))
            cell = Cell(name, on, extent, wanted)
            for store, opening in openings.items():
                rows.append(asyncio.run(_row(cell, store, opening)))
                print(rows[-1].record()["row"], file=sys.stderr, flush=True)
    return [*rows, drawn(rows)]


@contextmanager
def _silent() -> Iterator[None]:
    """Log nothing: a scenario has a tool that fails, and another one is killed."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


async def _row(cell: Cell, store: str, opening: Opening) -> Row:
    async with opening() as kept:
        return await cell.row(store, kept)


def drawn(rows: Sequence[Row]) -> Panels:
    """What a person looks for first, each as a median in milliseconds."""
    measures: dict[str, dict[str, dict[str, float]]] = {
        "a turn above the model's own time": {},
        "pause: from the request to paused": {},
        "kill: from the request to terminal": {},
    }
    for row in rows:
        turns = tuple(1e3 / each for each in row.turns)
        found = zip(measures.values(), (turns, row.pauses, row.kills), strict=True)
        for by_runtime, readings in found:
            if readings:
                by_runtime.setdefault(row.runtime, {})[row.store] = statistics.median(readings)
    return Panels("cells", "Every runtime on every store, in milliseconds", measures)


class Times(FirstPiece):
    """An observer: notes when each turn of a Task ended, and which Tasks have begun to answer."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: list[float] = []
        self._begun: dict[str, asyncio.Event] = {}

    def begun(self, task_id: str) -> asyncio.Event:
        """Set when the first piece of the Task's answer is on its way."""
        return self._begun.setdefault(task_id, asyncio.Event())

    def observe(self, task_id: str, event: Event) -> None:
        super().observe(task_id, event)
        if event.type == STEP_OBSERVED:
            self.turns.append(time.perf_counter())
        elif event.type == "run.delta":
            self.begun(task_id).set()


class Cell:
    """One runtime, to be measured on one store after the other.

    Args:
        name: Of the runtime's module.
        wanted: What the reference shows, by scenario.
    """

    def __init__(self, name: str, on: Subject, extent: Extent, wanted: dict[str, Played]) -> None:
        self._name = name
        self._on = on
        self._extent = extent
        self._wanted = wanted
        self._length = LENGTH.get(name, USUAL)

    async def row(self, store: str, kept: Kept) -> Row:
        """The cell on one store."""
        differs = [each async for each in self._differing(kept)]
        played = sum(each.name not in self._on.closed for each in self._extent.scenarios)
        counted = await counts(self._on, kept.store, PATIENCE)
        before = kept.size() if kept.size else 0
        paces, turns = [pace()], []
        for _ in range(self._extent.rounds):
            reading = await self._turns_per_second(kept)
            turns += [reading] if reading else []
        grown = kept.size() - before if kept.size else None
        pauses, kills = await self._stops(kept)
        paces.append(pace())
        return Row(
            self._on.name, store,
            same=played - len(differs), differs=tuple(differs), turns=tuple(turns),
            pauses=tuple(pauses), kills=tuple(kills),
            commits=counted["commits"] / TURNS,
            bytes=counted["bytes"] / TURNS,
            left=None if grown is None else grown / (self._extent.rounds * self._length),
            requests=counted["requests"] / TURNS if "requests" in counted else None,
            pace=min(paces),
        )  # fmt: skip

    async def _differing(self, kept: Kept) -> AsyncIterator[str]:
        for scenario in self._extent.scenarios:
            if scenario.name in self._on.closed:
                continue
            found = await played(scenario, self._on, kept.store, PATIENCE)
            wanted = self._wanted[scenario.name]
            if comparable(found, scenario, self._on) != comparable(wanted, scenario, self._on):
                yield scenario.name

    @asynccontextmanager
    async def _host(self, scenario: Scenario, kept: Kept) -> AsyncIterator[tuple[Host, Setting]]:
        setting = replace(scenario.setting(), store=kept.store, observer=Times())
        async with asyncio.timeout(PATIENCE), self._on.runtime(setting) as host:
            yield host, setting

    async def _turns_per_second(self, kept: Kept) -> float | None:
        """Of the time above the model's own; None if there is no such time within the noise."""
        scenario, between = turning(self._length, on=self._on), self._length - 1
        async with self._host(scenario, kept) as (host, setting):
            (task,) = await scenario.play(Stage(host, self._on.kind, Reference("-"), setting))
            assert task.status is TaskStatus.SUCCESS, task
            times = setting.observer
            assert isinstance(times, Times)
            took = times.turns[between] - times.turns[0]
            model = sum(setting.spent[1 : self._length])
            assert model or self._name != LAST, "the local model told nothing of its time"
            if isinstance(self._on, Vendor):
                model = await asyncio.to_thread(_alone, self._on, scenario, self._length)
        return turns_per_second(between, took, model, apart=isinstance(self._on, Vendor))

    async def _stops(self, kept: Kept) -> tuple[list[float], list[float]]:
        """Milliseconds of each pause and of each kill, of Tasks in the middle of an answer."""
        script = [Says(LONG, slowly=True)] * (2 * self._extent.stops)
        scenario = Scenario("stops", "Tasks that are stopped", script, _unplayed)
        found: dict[TaskStatus, list[float]] = {TaskStatus.PAUSED: [], TaskStatus.CANCELLED: []}
        async with self._host(scenario, kept) as (host, setting):
            stage = Stage(host, self._on.kind, Reference("-"), setting)
            times = setting.observer
            assert isinstance(times, Times)
            for status in (TaskStatus.PAUSED, TaskStatus.CANCELLED) * self._extent.stops:
                task = stage.task("Tell a long story.")
                await host.dispatch(task)
                await times.begun(task.id).wait()
                stop = host.pause if status is TaskStatus.PAUSED else host.kill
                began = time.perf_counter()
                await stop(task.id)
                seen = await host.wait(task.id, status)
                found[status].append((time.perf_counter() - began) * 1e3)
                assert seen.status is status, seen
                if status is TaskStatus.PAUSED:
                    await host.kill(task.id)
        return found[TaskStatus.PAUSED], found[TaskStatus.CANCELLED]


async def _unplayed(stage: Stage) -> Sequence[Task]:
    raise NotImplementedError("this scenario is played by the benchmark itself")


def _alone(on: Vendor, scenario: Scenario, length: int) -> float:
    """Seconds that the scripted server needs to say the same again, from turn to turn."""
    requests = on.peer.requests()[:length]
    on.peer.load(fixtures(scenario.script))
    place = urlsplit(on.peer.url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
    began = 0.0
    try:
        for request in requests:
            body = json.dumps({**request.body, "stream": True})
            headers = {"Content-Type": "application/json", "Authorization": "Bearer sk-none"}
            connection.request("POST", "/v1/chat/completions", body, headers)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200, f"the scripted server refused: {answer.status}"
            began = began or time.perf_counter()
    finally:
        connection.close()
    return time.perf_counter() - began

"""On every store a runtime does the same, and a turn costs what was accepted, whatever the load.

The end-to-end benchmark times the same cells; here are its counts alone.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agentic_kernel_conformance.counted_store import CountedStore
from agentic_kernel_engine import Host, MemoryStore, Record, tool

from ..postgres_server import MEMORY
from .counts import HTTP, TURNS, calls_per_turn, cost, counts, recorded, settled, turning
from .matrix import Played, comparable, played, reference, runtime, subject
from .runtimes.reference import Runtime as Reference
from .scenarios import SCENARIOS, Stage
from .setting import Setting, Subject
from .stores import STORES, Opening, stores

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
DURABLE = [name for name in STORES if name != "memory"]
"""On memory, `test_equivalence.py` compares every scenario."""
GATED = ("approval", "kill")
"""The scenarios that the gate compares for each runtime and store; the others are torture."""
SLOW = ("copilot", "local")
PATIENCE = 110.0
"""Seconds for a scenario: the first one of a runtime imports its SDK, on a busy machine."""
RENEW = "; if that is meant, run python -m integration.equivalence.counts and read the change"


@pytest.fixture(scope="module")
def openings() -> Iterator[Callable[[str], Opening]]:
    """How to open each store; the Postgres server starts when it is first asked for.

    The files are in memory if they can be: a disk that others use too makes a sync wait for long.
    """
    place = MEMORY if os.access(MEMORY, os.W_OK) else None
    with ExitStack() as keep:

        def opened(name: str) -> Opening:
            folder = Path(keep.enter_context(TemporaryDirectory(dir=place))).resolve()
            return keep.enter_context(stores(folder, name))[name]

        yield cache(opened)


@pytest.fixture
def opening(openings: Callable[[str], Opening], store: str) -> Opening:
    return openings(store)


@pytest.fixture(scope="module")
def subjects() -> Iterator[Callable[[str], Subject]]:
    """Each runtime, made when it is first asked for."""
    with ExitStack() as keep:

        def made(name: str) -> Subject:
            return Reference() if name == "reference" else keep.enter_context(subject(name))

        yield cache(made)


@pytest.fixture
def on(subjects: Callable[[str], Subject], name: str) -> Subject:
    return subjects(name)


@pytest.fixture(scope="module")
def known() -> dict[str, Played]:
    """What the reference showed on memory, scenario by scenario."""
    return {}


def _cells() -> Iterator[object]:
    for name in ("reference", *HTTP, *SLOW):
        closed = runtime(name).closed
        for store in DURABLE:
            for scenario in SCENARIOS:
                if scenario.name in closed:
                    continue
                gated = name == "reference" or (name not in SLOW and scenario.name in GATED)
                marks = [] if gated else [pytest.mark.torture]
                id = f"{scenario.name}-{name}-{store}"
                yield pytest.param(scenario.name, name, store, id=id, marks=marks)


@pytest.mark.parametrize(("scenario", "name", "store"), list(_cells()))
async def test_a_scenario_is_the_same_on_every_store(
    scenario: str, on: Subject, opening: Opening, known: dict[str, Played]
) -> None:
    if scenario not in known:
        known[scenario] = await reference(BY_NAME[scenario])
    wanted = comparable(known[scenario], BY_NAME[scenario], on)
    async with opening() as kept:
        found = comparable(
            await played(BY_NAME[scenario], on, kept.store, PATIENCE), BY_NAME[scenario], on
        )
    assert found == wanted


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("name", ["reference", *HTTP])
async def test_turns_cost_as_many_commits_bytes_and_requests_as_recorded(
    on: Subject, name: str, opening: Opening
) -> None:
    async with opening() as kept:
        found = await counts(on, kept.store, PATIENCE)
    wanted = recorded()["runtimes"][name]
    assert found == wanted, f"{name}: a Task cost {found}, and {wanted} is recorded{RENEW}"


async def test_a_turn_makes_no_more_calls_than_recorded() -> None:
    """Newer interpreters make fewer: they have no call for a comprehension."""
    found, most = await calls_per_turn(MemoryStore()), recorded()["calls per turn"]
    assert found <= most, f"a turn makes {found} calls, and {most} are recorded{RENEW}"


@tool(effect="none")
async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return f"the sum is {a + b}"


class Wordy(Reference):
    """A runtime whose tool says more than the sum."""

    @asynccontextmanager
    async def runtime(self, setting: Setting) -> AsyncIterator[Host]:
        async with super().runtime(replace(setting, tools=[add])) as host:
            yield host


class Asking(CountedStore):
    """A store that is asked for the record once more with each commit."""

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        await super().commit(before, after, events)
        await self.load(after.task.id)


async def test_some_words_more_in_each_result_are_counted_and_nothing_else() -> None:
    usual, more = [await counts(on, MemoryStore()) for on in (Reference(), Wordy())]
    assert more["bytes"] >= usual["bytes"] + 2 * TURNS
    assert {**more, "bytes": 0} == {**usual, "bytes": 0}


async def test_a_read_more_with_each_commit_is_counted_and_nothing_else() -> None:
    usual, store = await counts(Reference(), MemoryStore()), Asking(MemoryStore())
    scenario = turning(TURNS)
    setting = settled(scenario, store)
    async with Reference().runtime(setting) as host:
        await scenario.play(Stage(host, "reference", Reference("elsewhere"), setting))
        found = cost(store)
    assert found == {**usual, "reads": usual["commits"]}


def test_the_record_is_of_the_runtimes_that_the_gate_counts(tmp_path: Path) -> None:
    assert set(recorded()["runtimes"]) == {"reference", *HTTP}
    with stores(tmp_path.resolve(), "file", "memory") as openings:
        assert list(openings) == ["memory", "file"]

"""Every runtime plays every scenario alike, apart from what it declares closed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from agentic_kernel_engine import Host

from .matrix import (
    CLOSED,
    NAMES,
    PAGE,
    SAME,
    Played,
    comparable,
    page,
    played,
    reference,
    runtime,
    subject,
)
from .runtimes.reference import Runtime as Reference
from .scenarios import SCENARIOS
from .script import Calls, Says
from .setting import Setting, Subject

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
LOCALLY = ("answer", "one tool", "approval", "kill", "pause and resume")
"""The scenarios that the gate plays on the real model; the others are torture."""


def marks(scenario: str, name: str) -> list[pytest.MarkDecorator]:
    """A real model and a CLI take a while."""
    if name == "local" and scenario not in LOCALLY:
        return [pytest.mark.torture]
    return [pytest.mark.slow] if name in ("copilot", "local") else []


CELLS = [
    pytest.param(
        scenario.name, name, id=f"{scenario.name}-{name}", marks=marks(scenario.name, name)
    )
    for name in NAMES
    for scenario in SCENARIOS
    if scenario.name not in runtime(name).closed
]


@pytest.fixture(scope="module")
def subjects() -> Iterator[Callable[[str], Subject]]:
    """Each runtime, made when it is first asked for."""
    with ExitStack() as keep:
        yield cache(lambda name: keep.enter_context(subject(name)))


@pytest.fixture
def on(subjects: Callable[[str], Subject], name: str) -> Subject:
    return subjects(name)


@pytest.fixture(scope="module")
def known() -> dict[str, Played]:
    """What the reference showed, scenario by scenario."""
    return {}


@pytest.mark.parametrize(("scenario", "name"), CELLS)
async def test_a_scenario_is_the_same_on_every_runtime(
    scenario: str, on: Subject, known: dict[str, Played]
) -> None:
    if scenario not in known:
        known[scenario] = await reference(BY_NAME[scenario])
    wanted = comparable(known[scenario], BY_NAME[scenario], on)
    found = comparable(await played(BY_NAME[scenario], on), BY_NAME[scenario], on)
    for have, want in zip(found.traces, wanted.traces, strict=True):
        assert have.task == want.task
        assert have.events == want.events
        assert have.texts == want.texts
    assert found.shown == wanted.shown


async def test_a_scenario_with_a_picture_shows_it_once() -> None:
    one = [("picture", BY_NAME["images of a Task"].picture)]
    assert one[0][1]
    assert (await reference(BY_NAME["images of a Task"])).shown == [one]
    assert (await reference(BY_NAME["images from a tool"])).shown == [[], one]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_closed_or_unseen_is_a_scenario_and_has_a_reason(name: str) -> None:
    declared = {**runtime(name).closed, **runtime(name).unseen}
    assert set(declared) <= set(BY_NAME)
    assert all(declared.values())


def test_the_page_says_what_the_runs_give() -> None:
    """That a cell is the same, where it is not closed, is what the test above asserts."""
    verdicts = {
        scenario: [CLOSED if scenario in runtime(name).closed else SAME for name in NAMES]
        for scenario in BY_NAME
    }
    assert PAGE.read_text(encoding="utf-8") == page(verdicts)


class Other(Reference):
    """A runtime that does one thing otherwise."""

    def __init__(self, **changes: Any) -> None:
        super().__init__()
        self._changes = changes

    @asynccontextmanager
    async def runtime(self, setting: Setting) -> AsyncIterator[Host]:
        async with super().runtime(replace(setting, **self.changed(setting))) as host:
            yield host

    def changed(self, setting: Setting) -> dict[str, Any]:
        return {"options": {**setting.options, **self._changes}}


class OneAtATime(Other):
    """Gives calls of one answer one after the other."""

    def changed(self, setting: Setting) -> dict[str, Any]:
        first, *rest = setting.script
        assert isinstance(first, Calls)
        return {"script": [*(Calls([call]) for call in first.calls), *rest]}


class Trims(Other):
    """Loses the end of an answer."""

    def changed(self, setting: Setting) -> dict[str, Any]:
        return {
            "script": [
                Says(said.output[:-1]) if isinstance(said, Says) else said
                for said in setting.script
            ]
        }


class Hurries(Other):
    """Says nothing before it is done, and claims that it does."""

    def changed(self, setting: Setting) -> dict[str, Any]:
        return {"script": [Calls(()), *setting.script]}


@pytest.mark.parametrize(
    ("other", "scenario"),
    [
        (Trims(), "answer"),
        (Hurries(), "answer"),
        (OneAtATime(), "parallel tools"),
        (Other(seed_memory=["You are somebody else."]), "answer"),
        (Other(on_deny="end"), "denied"),
        (Other(policy=None), "denied"),
        (Other(limits=None), "limit"),
    ],
)
async def test_a_runtime_that_does_otherwise_is_found_out(other: Other, scenario: str) -> None:
    found = await played(BY_NAME[scenario], other)
    assert found != await reference(BY_NAME[scenario])


@pytest.mark.parametrize("scenario", BY_NAME)
async def test_the_reference_is_the_same_each_time(scenario: str) -> None:
    assert await reference(BY_NAME[scenario]) == await reference(BY_NAME[scenario])

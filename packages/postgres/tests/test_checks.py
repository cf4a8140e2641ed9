"""The checks hold for `PostgresStore`, and catch every faulty store that is named with one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .bench import Bench, verdict
from .checks import CHECKS, Check
from .fault_table import page
from .faults import FAULTS

PAGE = Path(__file__).parents[3] / "docs" / "faults-postgres.md"
RUNS = 10


def _marks(check: Check) -> list[pytest.MarkDecorator]:
    marks = [pytest.mark.rule(check.rule)] if check.rule else []
    return [*marks, pytest.mark.slow] if check.slow else marks


@pytest.mark.parametrize(
    "check", [pytest.param(check, id=name, marks=_marks(check)) for name, check in CHECKS.items()]
)
async def test_the_store_holds(check: Check, server: str, schema: str) -> None:
    await check.holds(Bench(server, schema))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.torture if fault.slow else pytest.mark.slow)
        for name, fault in FAULTS.items()
    ],
)
async def test_a_faulty_store_is_caught_by_what_it_is_named_with(
    name: str, server: str, schema: str
) -> None:
    fault = FAULTS[name]
    found = await verdict(fault.check.holds, Bench(server, schema, fault.kind, fault.later))
    assert re.search(fault.says, found), found or "nothing was found"


@pytest.mark.parametrize("name", FAULTS)
def test_each_has_a_story(name: str) -> None:
    assert FAULTS[name].story.endswith(".")


def test_no_check_is_without_a_faulty_store() -> None:
    assert {fault.check.holds.__name__ for fault in FAULTS.values()} == set(CHECKS)


def test_the_page_says_that_each_was_caught_every_time_and_the_healthy_never() -> None:
    caught, flagged = dict.fromkeys(FAULTS, RUNS), dict.fromkeys(CHECKS, 0)
    assert PAGE.read_text(encoding="utf-8") == page(caught, flagged, RUNS)

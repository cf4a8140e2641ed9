"""Processes killed at every point of the crash matrix on Postgres, by the judge of the others."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from .crash_evidence import DUPLICATED, FAULTS, LOST, SIGKILL, judge
from .crash_matrix import ROOT, Cell, Line, Outcome, Trial, template
from .crash_points import ANSWER, COMMIT, PRUNE, WORK
from .crash_worker import LONG, SHORT, STEPS, VICTIM
from .postgres_crash_matrix import POINTS, WORKER, Trials, cells, crash, report
from .postgres_crash_page import page, published, table
from .postgres_server import server as server

pytestmark = pytest.mark.slow

PAGE = ROOT / "docs" / "crashes-postgres.md"
LEAST = 16
"""How many kills a line of the page has at least."""
BEFORE_IT = 2 * (len(SHORT) + 3)
"""The passing of `WORK` between the prepare of step 3 and its effect."""


@pytest.fixture(scope="module")
def trials(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trials]:
    with template(WORKER) as processes:
        yield Trials(server, processes, tmp_path_factory.mktemp("trials"))


def clean(outcome: Outcome) -> None:
    assert outcome.killed
    assert not outcome.findings, report(outcome)


@pytest.mark.rule("C6", "R3", "R14")
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_each_point_loses_and_doubles_nothing(point: str, trials: Trials) -> None:
    """A process may pass a point less often than the one that was counted; then it dies earlier."""
    at = trials.passings()[point] // 2
    outcome = trials.attempt(Trial(Cell(point, "postgres", 2), at))
    while not outcome.killed and not outcome.findings and at:
        at //= 2
        outcome = trials.attempt(Trial(Cell(point, "postgres", 2), at))
    clean(outcome)


@pytest.mark.torture
@pytest.mark.rule("C6", "R3", "R14")
@pytest.mark.parametrize("cell", cells(), ids=lambda cell: f"{cell.point}, {cell.resumers}")
def test_kills_at_random_moments_lose_and_double_nothing(cell: Cell, trials: Trials) -> None:
    """In each line of the matrix as many as ``KILLS`` says, 16 if it says nothing."""
    kills, seed = int(os.environ.get("KILLS", "16")), int(os.environ.get("SEED", "0"))
    lines = crash(trials, [cell], kills, seed, clean)
    assert lines[cell].kills == kills
    print(f"\nseed {seed}\n{table(lines)}")


def test_a_point_is_passed_so_often_that_the_seed_has_a_choice(trials: Trials) -> None:
    counted = trials.passings()
    assert counted[WORK] == 2 * (len(SHORT) + STEPS)
    assert counted[ANSWER] >= 3 * STEPS
    assert counted[COMMIT] >= counted[ANSWER]
    assert counted[PRUNE] >= 2


def test_who_goes_on_finds_the_step_that_was_in_doubt(trials: Trials, tmp_path: Path) -> None:
    """So the trials do kill, and their evidence is that of a process that died in its work."""
    evidence = trials.play(Trial(Cell(WORK, "postgres", 2), BEFORE_IT), tmp_path)
    assert evidence is not None
    assert evidence.codes == {VICTIM: SIGKILL, "heir-0": 0, "heir-1": 0}
    assert judge(evidence) == []
    assert (evidence.take_overs, evidence.indeterminate) == (1, 1)
    assert (LONG, 3) not in evidence.effects


def test_the_page_has_every_line_with_its_kills_and_no_fault() -> None:
    told = published(PAGE.read_text(encoding="utf-8"))
    whole = told.pop(("all", ""))
    assert set(told) == {(cell.point, str(cell.resumers)) for cell in cells()}
    for line, numbers in told.items():
        assert numbers["kills"] >= LEAST, line
        assert {fault: numbers[fault] for fault in FAULTS} == dict.fromkeys(FAULTS, 0), line
    assert whole == {name: sum(numbers[name] for numbers in told.values()) for name in whole}


def test_a_page_does_not_hide_a_fault() -> None:
    first, *others = cells()
    lines = {first: Line(2, 1, Counter({LOST: 2, DUPLICATED: 1})), **{c: Line() for c in others}}
    told = published(page(lines, 7))
    for line in ((first.point, str(first.resumers)), ("all", "")):
        assert (told[line][LOST], told[line][DUPLICATED], told[line]["kills"]) == (2, 1, 2)

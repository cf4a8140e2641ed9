"""A run of the Loop killed at every point of its step, and what those who go on make of it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentic_kernel_engine.events import TASK_CLAIMED
from agentic_kernel_engine.loop import replay

from .crash_evidence import LOST, SIGKILL, UNFINISHED, Finding
from .crash_matrix import Template, template
from .crash_worker import VICTIM
from .loop_crash_evidence import gather_remains, judge
from .loop_crash_matrix import (
    KILLS,
    WORKER,
    Cell,
    Outcome,
    Trial,
    attempt,
    cells,
    crash,
    order,
    passings,
    play,
    report,
    table,
)
from .loop_crash_points import (
    ANSWERED,
    ASKED,
    BEFORE_PLAN,
    POINTS,
    PREPARED,
    REPORTS,
    RETURNED,
    SETTLED,
    SHAPES,
    TOOL,
    limits,
)
from .loop_crash_worker import TASK

pytestmark = pytest.mark.slow

STEPS = len(SHAPES) + 1
CALLS = sum(map(len, SHAPES.values()))


@pytest.fixture(scope="module")
def processes() -> Iterator[Template]:
    with template(WORKER) as started:
        yield started


def clean(outcome: Outcome) -> None:
    assert outcome.counts[KILLS] == 1
    assert not outcome.findings, report(outcome)


@pytest.mark.rule("C6", "R6", "R14", "R17")
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_each_point_of_a_step(point: str, processes: Template, tmp_path: Path) -> None:
    clean(attempt(processes, Trial(Cell(point, 2), 4, 1), tmp_path))


@pytest.mark.torture
@pytest.mark.rule("C6", "R6", "R14", "R17")
@pytest.mark.parametrize("cell", cells(), ids=lambda cell: ", ".join(map(str, cell)))
def test_kills_at_random_moments_of_a_step(cell: Cell, tmp_path: Path) -> None:
    """In each line of the matrix as many as ``KILLS`` says, 20 if it says nothing."""
    kills, seed = int(os.environ.get("KILLS", "20")), int(os.environ.get("SEED", "0"))
    lines = crash([cell], kills, seed, tmp_path, clean)
    assert lines[cell][KILLS] == kills
    print(f"\nseed {seed}\n{table(lines)}")


def test_every_point_is_passed_so_often_that_the_seed_has_a_choice(
    processes: Template, tmp_path: Path
) -> None:
    counted = passings(processes, tmp_path)
    assert {point: counted[point] for point in POINTS} == {
        BEFORE_PLAN: STEPS,
        ANSWERED: STEPS,
        PREPARED: len(SHAPES) - 1,
        TOOL: CALLS - 1 + REPORTS,
        RETURNED: CALLS + STEPS,
        SETTLED: STEPS,
    }


@pytest.mark.rule("R17")
@pytest.mark.parametrize(
    ("limit", "reason", "at"),
    [("max_iterations", "max_iterations", STEPS - 2), ("max_output_tokens", "max_tokens", 0)],
)
def test_a_call_that_a_crash_made_void_is_paid_for(
    limit: str, reason: str, at: int, processes: Template, tmp_path: Path
) -> None:
    """With nothing to spare the run ends at its limit, and never one call beyond."""
    bounds = {**limits(forfeits=2), limit: limits(forfeits=0)[limit]}
    remains = play(processes, Trial(Cell(ANSWERED, 2), at, 3), tmp_path, bounds)
    task = remains.evidence.records[TASK].task
    assert task.failure is not None
    assert task.failure.code == f"engine/{reason}"
    asked = [line for line in remains.journal if line.what == ASKED]
    spent = replay(remains.log).spent
    assert len(asked) == spent.iterations <= bounds["max_iterations"]
    assert spent.output_tokens <= bounds["max_output_tokens"]
    faults = {finding.fault for finding in judge(remains)}
    assert faults == {UNFINISHED, LOST}, "the Task did not succeed, and its transcript is shorter"


SECOND = "second"


@pytest.mark.rule("C6", "R6", "R14", "R17")
@pytest.mark.parametrize(
    ("first", "then"),
    [
        (ANSWERED, ANSWERED),
        (TOOL, RETURNED),
        pytest.param(PREPARED, PREPARED, marks=pytest.mark.torture),
        pytest.param(BEFORE_PLAN, BEFORE_PLAN, marks=pytest.mark.torture),
        pytest.param(ANSWERED, BEFORE_PLAN, marks=pytest.mark.torture),
        pytest.param(TOOL, TOOL, marks=pytest.mark.torture),
        pytest.param(RETURNED, SETTLED, marks=pytest.mark.torture),
        pytest.param(SETTLED, PREPARED, marks=pytest.mark.torture),
    ],
)
def test_who_took_over_may_die_too(
    first: str, then: str, processes: Template, tmp_path: Path
) -> None:
    """The third finds what both left: a step in doubt stays so, each reservation is spent once."""
    shapes, place = Trial(Cell(first, 2), 0, 5).shapes, str(tmp_path)
    names = [VICTIM, SECOND, "heir-0", "heir-1"]
    codes = {
        VICTIM: processes.run([order(VICTIM, place, shapes, limits(2), first, 2)])[0],
        SECOND: processes.run([order(SECOND, place, shapes, limits(2), then, 0)])[0],
    }
    heirs = processes.run([order(name, place, shapes, limits(2)) for name in names[2:]])
    codes |= dict(zip(names[2:], heirs, strict=True))
    remains = asyncio.run(gather_remains(tmp_path, codes, shapes, limits(2)))
    assert remains.dead == {VICTIM, SECOND}
    assert judge(remains) == [Finding(UNFINISHED, f"{SECOND} ended with {SIGKILL}: ")]
    assert sum(event.type == TASK_CLAIMED for event in remains.log) == 2

"""Processes killed at every point of the crash matrix, and the judge that can find them guilty."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from agentic_kernel_engine import Event

from .crash_evidence import (
    DUPLICATED,
    INDETERMINATE,
    LOST,
    SIGKILL,
    UNFINISHED,
    UNREADABLE,
    WINNERS,
    Evidence,
    Said,
    gather,
    judge,
)
from .crash_matrix import (
    Cell,
    Line,
    Outcome,
    Template,
    Trial,
    attempt,
    cells,
    crash,
    passings,
    play,
    report,
    table,
    template,
)
from .crash_points import ANSWER, COMMIT, COMPACTION, POINTS, PRUNE, STORES, WORK
from .crash_worker import LONG, SHORT, STEPS, VICTIM

pytestmark = pytest.mark.slow

DOUBTED = 3
"""A step of the long Task after one pause and before another."""
BEFORE_IT = 2 * (len(SHORT) + DOUBTED)
"""The passing of `WORK` between its prepare and its effect."""


@pytest.fixture(scope="module")
def processes() -> Iterator[Template]:
    with template() as started:
        yield started


@pytest.fixture(scope="module")
def folder(processes: Template, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a trial on SQLite left; two had gone on, and a step was in doubt."""
    folder = tmp_path_factory.mktemp("trial")
    codes = play(processes, Trial(Cell(WORK, "sqlite", 2), BEFORE_IT), folder)
    assert codes == {VICTIM: SIGKILL, "heir-0": 0, "heir-1": 0}
    return folder


@pytest.fixture
def evidence(folder: Path) -> Evidence:
    return looked_at(folder)


def looked_at(folder: Path) -> Evidence:
    codes = {VICTIM: SIGKILL, "heir-0": 0, "heir-1": 0}
    return asyncio.run(gather("sqlite", folder, codes))


def clean(outcome: Outcome) -> None:
    assert outcome.killed
    assert not outcome.findings, report(outcome)


@pytest.mark.rule("C6", "R3", "R14")
@pytest.mark.parametrize(
    "cell", cells(resumers=[2]), ids=lambda cell: f"{cell.point}, {cell.store}"
)
def test_a_kill_at_each_point_loses_and_doubles_nothing(
    cell: Cell, processes: Template, tmp_path: Path
) -> None:
    """A process may pass a point less often than the one that was counted; then it dies earlier."""
    at = passings(processes, cell.store, tmp_path)[cell.point] // 2
    outcome = attempt(processes, Trial(cell, at), tmp_path)
    while not outcome.killed and not outcome.findings and at:
        at //= 2
        outcome = attempt(processes, Trial(cell, at), tmp_path)
    clean(outcome)


@pytest.mark.torture
@pytest.mark.rule("C6", "R3", "R14")
@pytest.mark.parametrize("cell", cells(), ids=lambda cell: ", ".join(map(str, cell)))
def test_kills_at_random_moments_lose_and_double_nothing(cell: Cell, tmp_path: Path) -> None:
    """In each line of the matrix as many as ``KILLS`` says, 16 if it says nothing."""
    kills, seed = int(os.environ.get("KILLS", "16")), int(os.environ.get("SEED", "0"))
    lines = crash([cell], kills, seed, tmp_path, clean)
    assert lines[cell].kills == kills
    print(f"\nseed {seed}\n{table(lines)}")


def test_the_whole_matrix_is_more_than_five_hundred_kills() -> None:
    assert len(cells()) * 16 >= 500
    assert {(cell.point, cell.store) for cell in cells()} == {
        (point, store) for point in POINTS for store in STORES
    } - {(COMPACTION, "sqlite")}


def test_a_point_is_passed_so_often_that_the_seed_has_a_choice(
    processes: Template, tmp_path: Path
) -> None:
    for store in STORES:
        counted = passings(processes, store, tmp_path)
        assert counted[WORK] == 2 * (len(SHORT) + STEPS)
        assert counted[ANSWER] >= 3 * STEPS
        assert counted[COMMIT] > 10 * counted[ANSWER] // 2
        assert counted[PRUNE] >= 5
        assert (COMPACTION in counted) == (store == "file")


def test_who_goes_on_finds_the_step_that_was_in_doubt_and_does_not_do_it(
    evidence: Evidence,
) -> None:
    assert judge(evidence) == []
    assert (evidence.take_overs, evidence.indeterminate) == (1, 1)
    assert evidence.records[LONG].task.result == {
        "observed": [step for step in range(STEPS) if step != DOUBTED],
        "indeterminate": [DOUBTED],
    }
    assert (LONG, DOUBTED) not in evidence.effects
    assert {said.what for said in evidence.said[VICTIM]} >= {"ended", "resumed", "observed"}


def heard(evidence: Evidence, name: str, what: str, task: str, value: object = None) -> Evidence:
    """As if a process had been told one thing more."""
    lines = [*evidence.said[name], Said(what, task, value)]
    return replace(evidence, said={**evidence.said, name: lines})


def logged(evidence: Evidence, change: Callable[[Sequence[Event]], Sequence[Event]]) -> Evidence:
    """As if the store gave other events of the long Task."""
    return replace(evidence, logs={**evidence.logs, LONG: change(evidence.logs[LONG])})


def without(kind: str, step: int | None = None) -> Callable[[Sequence[Event]], Sequence[Event]]:
    return lambda log: [
        event for event in log if event.type != kind or event.data.get("step") != step
    ]


def doubting(log: Sequence[Event]) -> Sequence[Event]:
    """As if the last step, which an heir observed, was marked as indeterminate instead."""
    return [
        Event("step.indeterminate", event.data, event.at, event.id)
        if (event.type, event.data.get("step")) == ("step.observed", STEPS - 1)
        else event
        for event in log
    ]


def both(log: Sequence[Event]) -> Sequence[Event]:
    """As if it was observed and marked."""
    return [*log, *(event for event in doubting(log) if event.type == "step.indeterminate")]


def extras(evidence: Evidence, *texts: str) -> Evidence:
    record = evidence.records[LONG]
    task = replace(record.task, supplements=texts)
    return replace(evidence, records={**evidence.records, LONG: record.changed(task=task)})


def answered(evidence: Evidence) -> Evidence:
    """Both heirs say that they answered the pause which one of them did."""
    ((_, value),) = [one for one in evidence.about("resumed", LONG) if one[0] != VICTIM]
    for name in ("heir-0", "heir-1"):
        evidence = heard(evidence, name, "resumed", LONG, value)
    return evidence


TAMPERED: dict[str, tuple[str, str, Callable[[Evidence], Evidence]]] = {
    "a lost step": (
        LOST, "was told that step 0 was observed",
        lambda e: logged(e, without("step.observed", 0)),
    ),
    "a lost prepare": (
        LOST, "step 0 was done and is not prepared",
        lambda e: logged(e, without("step.prepared", 0)),
    ),
    "a doubt that was forgotten": (
        LOST, "neither observed nor indeterminate",
        lambda e: logged(e, without("step.indeterminate", DOUBTED)),
    ),
    "a lost request": (
        LOST, "a pause that was asked for",
        lambda e: logged(e, without("task.pause_requested")),
    ),
    "a lost event": (LOST, "version 4 has no events", lambda e: logged(
        e, lambda log: [event for event in log if event.id is None or event.id[0] != 4]
    )),
    "a lost Task": (
        LOST, "another was dispatched", lambda e: heard(e, VICTIM, "dispatched", "another"),
    ),
    "a prune undone": (LOST, "was pruned", lambda e: heard(e, VICTIM, "pruned", SHORT[-1])),
    "a lost extra": (LOST, "was added", lambda e: extras(e, "another")),
    "an effect that nobody did": (
        LOST, "observed and never done", lambda e: replace(e, effects=e.effects[:-1]),
    ),
    "an extra twice": (DUPLICATED, "too often", lambda e: extras(
        e, *e.records[LONG].task.supplements, *e.records[LONG].task.supplements
    )),
    "a doubled effect": (
        DUPLICATED, "step 0 was done 2 times",
        lambda e: replace(e, effects=[*e.effects, (LONG, 0)]),
    ),
    "the effect in doubt done again": (
        DUPLICATED, f"step {DOUBTED} was done 2 times",
        lambda e: replace(e, effects=[*e.effects, (LONG, DOUBTED), (LONG, DOUBTED)]),
    ),
    "an event twice": (
        DUPLICATED, "is there 2 times", lambda e: logged(e, lambda log: [*log, log[3]]),
    ),
    "a step that is observed and in doubt": (
        DUPLICATED, "observed and indeterminate", lambda e: logged(e, both),
    ),
    "two steps in doubt": (INDETERMINATE, "2 steps", lambda e: logged(e, doubting)),
    "a step of the living in doubt": (INDETERMINATE, "which did not die", lambda e: logged(
        logged(e, without("step.indeterminate", DOUBTED)), doubting
    )),
    "two winners": (WINNERS, "took it over", lambda e: heard(
        heard(e, "heir-0", "claimed", LONG), "heir-1", "claimed", LONG
    )),
    "no winner": (WINNERS, "nobody took it over", lambda e: logged(e, without("task.claimed"))),
    "two answers to one pause": (WINNERS, "answered the pause", answered),
    "a Task that does not read": (
        UNREADABLE, "damaged", lambda e: replace(e, unreadable=["long: damaged"]),
    ),
    "an heir that died": (
        UNFINISHED, "heir-1 ended with 1", lambda e: replace(e, codes={**e.codes, "heir-1": 1}),
    ),
    "a victim that lived": (
        UNFINISHED, "victim ended with 0", lambda e: replace(e, codes={**e.codes, VICTIM: 0}),
    ),
}  # fmt: skip
"""What is done to the evidence, and what the judge is to say of it."""


@pytest.mark.parametrize("what", TAMPERED)
def test_the_judge_finds(what: str, evidence: Evidence) -> None:
    fault, detail, tamper = TAMPERED[what]
    found = judge(tamper(evidence))
    assert any(one.fault == fault and detail in one.detail for one in found), found
    outcome = Outcome(Trial(Cell(WORK, "sqlite", 2), BEFORE_IT), True, found)
    assert f"  {fault}: " in report(outcome)
    assert outcome.trial.again in report(outcome)


@pytest.mark.parametrize(
    ("fault", "statement"),
    [
        (LOST, f"DELETE FROM events WHERE task = '{LONG}' AND version = 4"),
        (LOST, f"DELETE FROM tasks WHERE id = '{SHORT[-1]}'"),
        (UNREADABLE, f"UPDATE tasks SET head = x'7b7d' WHERE id = '{LONG}'"),
        (UNREADABLE, f"UPDATE events SET text = x'00' WHERE task = '{LONG}' AND version = 4"),
    ],
    ids=["a lost event", "a lost Task", "a damaged record", "a damaged event"],
)
def test_a_store_that_was_tampered_with_is_found(
    fault: str, statement: str, folder: Path, tmp_path: Path
) -> None:
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    with closing(sqlite3.connect(tmp_path / "state.db")) as db, db:
        assert db.execute(statement).rowcount == 1 or "version = 4" in statement
    assert fault in {finding.fault for finding in judge(looked_at(tmp_path))}


def test_the_table_counts_what_was_found_and_says_what_is_not_there(evidence: Evidence) -> None:
    cell = Cell(COMPACTION, "file", 8)
    lines = {cell: Line(), Cell(WORK, "sqlite", 1): Line()}
    found = judge(replace(evidence, effects=[*evidence.effects, (LONG, 0), (LONG, 1)]))
    lines[cell].add(Outcome(Trial(cell, 3), True, found, 1, 1))
    lines[cell].add(Outcome(Trial(cell, 4), True, (), 1, 0))
    assert table(lines).splitlines()[2:] == [
        "| in compaction | file | 8 | 2 | 2 | 0 | 1 | 0 | 0 | 0 | 1 |",
        "| in compaction | sqlite | n/a | n/a | n/a | n/a | n/a | n/a | n/a | n/a | n/a |",
        "| in the substrate's work | sqlite | 1 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 |",
        "| all |  |  | 2 | 2 | 0 | 1 | 0 | 0 | 0 | 1 |",
    ]

"""The judge of the Loop's crash trials: what it can find in remains that were tampered with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from agentic_kernel_engine import Event
from agentic_kernel_engine.events import TASK_CLAIMED
from agentic_kernel_engine.loop import replay
from agentic_kernel_engine.plans import vocabulary

from .crash_evidence import DUPLICATED, LOST, UNFINISHED, UNREADABLE, WINNERS, Said
from .crash_matrix import Template, template
from .crash_worker import VICTIM
from .loop_crash_evidence import FAULTS, INDETERMINATE, RESERVATION, TWICE, WRONG, Remains, judge
from .loop_crash_matrix import KILLS, TAKEN, WORKER, Cell, Outcome, Trial, play, report, table
from .loop_crash_points import ANSWERED, ASKED, BEGUN, FINISHED, SETTLED, SHAPES, TOOL, Noted
from .loop_crash_worker import TASK

pytestmark = pytest.mark.slow

CALLS = sum(map(len, SHAPES.values()))
TWO_FIRST = next(
    seed for seed in range(100) if Trial(Cell(TOOL, 2), 1, seed).shapes[0] == "two effects"
)
"""An order of the steps in which the first one has two effects."""


@pytest.fixture(scope="module")
def processes() -> Iterator[Template]:
    with template(WORKER) as started:
        yield started


@pytest.fixture(scope="module")
def doubt(processes: Template, tmp_path_factory: pytest.TempPathFactory) -> Remains:
    """A process died in the second of two effects."""
    remains = play(processes, Trial(Cell(TOOL, 2), 1, TWO_FIRST), tmp_path_factory.mktemp("doubt"))
    assert judge(remains) == []
    return remains


@pytest.fixture(scope="module")
def void(processes: Template, tmp_path_factory: pytest.TempPathFactory) -> Remains:
    """A process died with an answer that nobody else has seen."""
    remains = play(processes, Trial(Cell(ANSWERED, 2), 3, 0), tmp_path_factory.mktemp("void"))
    assert judge(remains) == []
    return remains


def test_both_effects_of_a_batch_are_in_doubt_and_nothing_else(doubt: Remains) -> None:
    assert (doubt.doubted, doubt.indeterminate, doubt.cut) == (frozenset({0}), 2, 0)
    begun = [
        line
        for line in doubt.journal
        if line.what == BEGUN and line.subject.startswith(f"{TASK}:0:")
    ]
    assert [line.process for line in begun] == [VICTIM, VICTIM]


def test_a_lost_answer_is_asked_for_again_and_paid_for_twice(void: Remains) -> None:
    asked = [line.subject for line in void.journal if line.what == ASKED]
    assert asked == [f"{TASK}:{step}" for step in (0, 1, 2, 3, 3, 4, 5, 6)]
    assert (void.doubted, void.indeterminate, void.cut) == (frozenset(), 0, 1)
    assert replay(void.log).spent.iterations == len(asked)


def noted(remains: Remains, *lines: Noted) -> Remains:
    """As if more had happened."""
    return replace(remains, journal=[*remains.journal, *lines])


def heard(remains: Remains, name: str, what: str, value: object = None) -> Remains:
    """As if a process had been told one thing more."""
    evidence = remains.evidence
    lines = [*evidence.said[name], Said(what, TASK, value)]
    return replace(remains, evidence=replace(evidence, said={**evidence.said, name: lines}))


def logged(remains: Remains, change: Callable[[Sequence[Event]], Sequence[Event]]) -> Remains:
    """As if the store gave other events."""
    evidence = replace(remains.evidence, logs={TASK: change(remains.log)})
    return replace(remains, evidence=evidence)


def without(*kinds: str) -> Callable[[Sequence[Event]], Sequence[Event]]:
    return lambda log: [event for event in log if event.type not in kinds]


def twice(kind: str) -> Callable[[Sequence[Event]], Sequence[Event]]:
    return lambda log: [*log, next(event for event in log if event.type == kind)]


def told(step: int, **fields: Any) -> Callable[[Sequence[Event]], Sequence[Event]]:
    """As if the first observation of a step said something else."""

    def change(log: Sequence[Event]) -> Sequence[Event]:
        place = [event.id for event in log if event.type == vocabulary.STEP_OBSERVED][step]
        return [
            Event(event.type, {**event.data, "observations": [
                {**event.data["observations"][0], **fields}, *event.data["observations"][1:]
            ]}, event.at, event.id)
            if event.id == place else event
            for event in log
        ]  # fmt: skip

    return change


def key_of(remains: Remains, tool: str, what: str = FINISHED) -> str:
    return next(line.subject for line in remains.journal if line[::3] == (what, tool))


def ended(remains: Remains, name: str, code: int) -> Remains:
    evidence = remains.evidence
    return replace(remains, evidence=replace(evidence, codes={**evidence.codes, name: code}))


def result(remains: Remains, value: object) -> Remains:
    record = remains.evidence.records[TASK]
    record = record.changed(task=replace(record.task, result=value))
    return replace(remains, evidence=replace(remains.evidence, records={TASK: record}))


def winner(remains: Remains) -> str:
    return remains.commits[-1].process


def loser(remains: Remains) -> str:
    return "heir-0" if winner(remains) == "heir-1" else "heir-1"


def claimed_by(remains: Remains, name: str) -> Event:
    """A second take-over."""
    claim = next(event for event in remains.log if event.type == TASK_CLAIMED)
    (host,) = [value for who, value in remains.evidence.about("host") if who == name]
    return Event(TASK_CLAIMED, {"by": host}, claim.at, claim.id)


def undone(remains: Remains) -> Remains:
    """As if no write had ever come to its end."""
    key = key_of(remains, "write")
    lines = [line for line in remains.journal if line[:3:2] != (FINISHED, key)]
    return replace(remains, journal=lines)


def by_an_heir(remains: Remains) -> Remains:
    """As if an heir had begun what was in doubt."""
    lines = [
        line._replace(process=winner(remains))
        if line.what == BEGUN and line.subject.startswith(f"{TASK}:0:1") else line
        for line in remains.journal
    ]  # fmt: skip
    return replace(remains, journal=lines)


def unaware(remains: Remains) -> Remains:
    """As if the run had not counted a single call."""
    last = remains.journal[-1]
    assert last.what == ASKED
    line = last._replace(value=remains.limits["max_iterations"])
    return replace(remains, journal=[*remains.journal[:-1], line])


Tamper = Callable[[Remains], Remains]
TAMPERED: dict[str, tuple[str, str, str, Tamper]] = {
    "an effect that began twice": (
        "doubt", TWICE, "was begun 2 times",
        lambda r: noted(r, Noted(BEGUN, winner(r), key_of(r, "write"), "write")),
    ),
    "an effect in doubt that an heir began": (
        "doubt", TWICE, "was in doubt and begun by an heir", by_an_heir,
    ),
    "a repeated call under another key": (
        "doubt", TWICE, "under 2 keys",
        lambda r: noted(r, Noted(BEGUN, "heir-2", f"{key_of(r, 'put')}x", "put")),
    ),
    "a call that one process repeats": (
        "doubt", TWICE, "put at",
        lambda r: noted(r, Noted(BEGUN, winner(r), key_of(r, "put"), "put")),
    ),
    "an effect that nobody asked for": (
        "doubt", TWICE, "nobody asked",
        lambda r: noted(r, Noted(BEGUN, winner(r), f"{TASK}:9:0:abc", "write")),
    ),
    "a doubt that was forgotten": (
        "doubt", WRONG, "was in doubt, and is 'write: one'",
        lambda r: logged(r, told(0, error="", output="write: one")),
    ),
    "a doubt about what was done": (
        "doubt", WRONG, "was in no doubt, and is indeterminate",
        lambda r: logged(r, told(1, error=INDETERMINATE, output=None)),
    ),
    "a result that is another's": (
        "doubt", WRONG, "was in no doubt, and is 'other'",
        lambda r: logged(r, told(2, output="other")),
    ),
    "a result of what was never done": ("doubt", WRONG, "never finished", undone),
    "a lost step": ("doubt", LOST, "steps wanted", lambda r: logged(
        r, lambda log: [e for e in log if e.id is None or e.id[0] != log[-1].id[0]]  # type: ignore[index]
    )),
    "a lost event": (
        "doubt", LOST, "was told that version",
        lambda r: logged(r, without(vocabulary.EFFECTS_PREPARED)),
    ),
    "another result": ("doubt", UNFINISHED, "'more'", lambda r: result(r, "more")),
    "an event twice": (
        "doubt", DUPLICATED, "is there 2 times", lambda r: logged(r, twice(vocabulary.PLAN_MADE)),
    ),
    "a Task that does not read": (
        "doubt", UNREADABLE, "damaged",
        lambda r: replace(r, evidence=replace(r.evidence, unreadable=["damaged"])),
    ),
    "a lost Task": (
        "doubt", LOST, "was dispatched and is not there",
        lambda r: replace(r, evidence=replace(r.evidence, records={})),
    ),
    "an heir that failed": (
        "doubt", UNFINISHED, "heir-1 ended with 1", lambda r: ended(r, "heir-1", 1),
    ),
    "a victim that lived": (
        "doubt", UNFINISHED, "victim ended with 0", lambda r: ended(r, VICTIM, 0),
    ),
    "an owner while another lives": (
        "doubt", WINNERS, "of whom",
        lambda r: logged(r, lambda log: [*log, claimed_by(r, loser(r))]),
    ),
    "a write that is not the owner's": (
        "doubt", WINNERS, "which was victim's", lambda r: logged(r, without(TASK_CLAIMED)),
    ),
    "two who were told that they won": (
        "doubt", WINNERS, "were told that they took it over",
        lambda r: heard(r, loser(r), "claimed"),
    ),
    "a reservation that was given back": (
        "void", RESERVATION, "forfeited are []",
        lambda r: logged(r, without(vocabulary.RUN_ENTERED)),
    ),
    "a call that is not paid for": (
        "void", RESERVATION, "9 calls were made",
        lambda r: noted(r, Noted(ASKED, winner(r), f"{TASK}:6", 0)),
    ),
    "a reservation that is spent twice": (
        "void", RESERVATION, "and not [{", lambda r: logged(r, twice(vocabulary.RUN_ENTERED)),
    ),
    "a call that the run did not know of": (
        "void", RESERVATION, "iterations were left", unaware,
    ),
    "a limit that is passed": (
        "void", RESERVATION, "the limits are passed",
        lambda r: replace(r, limits={**r.limits, "max_iterations": 7}),
    ),
}  # fmt: skip
"""Which trial's remains, what the judge is to say of them, and what is done to them."""


@pytest.mark.parametrize("what", TAMPERED)
def test_the_judge_finds(what: str, doubt: Remains, void: Remains) -> None:
    which, fault, detail, tamper = TAMPERED[what]
    found = judge(tamper(doubt if which == "doubt" else void))
    assert any(one.fault == fault and detail in one.detail for one in found), found
    assert fault in FAULTS
    outcome = Outcome(Trial(Cell(TOOL, 2), 3, 7), found, Counter())
    assert f"  {fault}: " in report(outcome)
    assert "--at 3 --order 7" in report(outcome)


def test_the_table_counts_a_fault_once_for_each_trial() -> None:
    line = Counter({KILLS: 2, TAKEN: 2, TWICE: 1, INDETERMINATE: 3})
    assert table({Cell(TOOL, 8): line, Cell(SETTLED, 1): Counter({KILLS: 1})}).splitlines()[2:] == [
        "| in the tool | 8 | 2 | 2 | 1 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 3 |",
        "| after settle | 1 | 1 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 |",
        "| all |  | 3 | 2 | 1 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 3 |",
    ]

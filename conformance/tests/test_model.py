"""The exhaustive model: what can be reached, and that it says what the kernel's table says."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agentic_kernel import Kill, TaskStatus
from agentic_kernel.transitions import TABLE
from agentic_kernel_conformance.model import (
    SILENT,
    Move,
    Owner,
    Point,
    edges,
    illegal,
    points,
    seen_edges,
)
from agentic_kernel_conformance.rules import RuleError
from agentic_kernel_conformance.traces import Trace
from agentic_kernel_engine import Event, EventId
from agentic_kernel_engine import events as vocabulary

R, P = TaskStatus.RUNNING, TaskStatus.PAUSED


def test_every_reachable_state_is_legal() -> None:
    assert {status for status, *_ in points()} == set(TaskStatus)
    assert [point for point in points() if illegal(point)] == []


def test_some_states_are_never_reached() -> None:
    """The model is not simply everything."""
    for point in (Point(P, owner=Owner.ALIVE), Point(R, pause_waits=True), Point(P, True)):
        assert illegal(point)
        assert point not in points()


def test_what_observers_see_is_the_table() -> None:
    """Every transition of the table is an edge, and no edge is anything else."""
    table: set[tuple[TaskStatus, TaskStatus]] = set()
    for mutation, row in TABLE.items():
        for status, target in row.items():
            stored = not (mutation is Kill and status is TaskStatus.NOT_STARTED)
            if isinstance(target, TaskStatus) and stored:
                table.add((status, target))
    assert {(before, after) for before, _, after in seen_edges()} == table


def test_a_terminal_task_only_refuses() -> None:
    left = {edge.move for edge in edges() if edge.before.status.terminal}
    assert left == {Move.REFUSE}


def test_every_move_is_possible_somewhere() -> None:
    assert {edge.move for edge in edges()} == set(Move)
    assert all(edge.before.status is edge.after.status for edge in edges() if edge.move in SILENT)


def test_the_size_of_the_model() -> None:
    """Change these figures knowingly."""
    assert (len(points()), len(edges())) == (24, 214)


def commits(*told: tuple[str, str]) -> list[Event]:
    return [
        Event(kind, {"by": by, "extra": "x"}, None, EventId(version, 0))
        for version, (kind, by) in enumerate(told, 1)
    ]


BORN = (vocabulary.TASK_DISPATCHED, "a:1")
ASKED = (vocabulary.TASK_PAUSE_REQUESTED, "b")
PAUSED = (vocabulary.TASK_PAUSED, "a:1")


@pytest.mark.parametrize(
    "told",
    [
        [BORN, ASKED, PAUSED, (vocabulary.TASK_RESUMED, "b"), (vocabulary.TASK_COMPLETED, "b:4")],
        [BORN, ASKED, (vocabulary.TASK_PAUSE_WITHDRAWN, "b"), (vocabulary.TASK_COMPLETED, "a:1")],
        [BORN, (vocabulary.TASK_CLAIMED, "b"), (vocabulary.RESULT_DROPPED, "a:1")],
        [BORN, (vocabulary.TASK_RELEASED, "a:1"), (vocabulary.TASK_PAUSED, "b")],
        [BORN, ("acme.step", ""), (vocabulary.TASK_KILLED, "b")],
    ],
)
def test_a_trace_that_may_be(told: Sequence[tuple[str, str]]) -> None:
    Trace(mortal={"a"}).follow(commits(*told))


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("C2", [BORN, ASKED, ASKED]),
        ("C2", [BORN, (vocabulary.TASK_RESUMED, "b")]),
        ("C2", [BORN, (vocabulary.TASK_PAUSE_WITHDRAWN, "b")]),
        ("C2", [BORN, ASKED, PAUSED, (vocabulary.TASK_COMPLETED, "b")]),
        ("C2", [BORN, (vocabulary.TASK_PAUSED, "b")]),
        ("R1", [BORN, ASKED, PAUSED, ("acme.step", "")]),
        ("R1", [BORN, (vocabulary.TASK_KILLED, "b"), ("acme.step", "")]),
        ("R1", [BORN, (vocabulary.TASK_KILLED, "b"), (vocabulary.TASK_KILLED, "b")]),
        ("R1", [BORN, (vocabulary.TASK_COMPLETED, "b:1")]),
        ("R1", [BORN, ASKED, PAUSED, (vocabulary.TASK_RESUMED, "b"),
                (vocabulary.TASK_COMPLETED, "a:1")]),
        ("R14", [BORN, (vocabulary.TASK_CLAIMED, "b")]),
    ],
)  # fmt: skip
def test_a_trace_that_may_not_be(rule: str, told: Sequence[tuple[str, str]]) -> None:
    """No host died; otherwise some of them might be."""
    with pytest.raises(RuleError) as caught:
        Trace(mortal=()).follow(commits(*told))
    assert caught.value.rule.name == rule

"""Every cell of the table, against the table of the contract as it is written."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import pytest

from agentic_kernel import (
    Complete,
    Dispatch,
    Fail,
    Failure,
    IllegalTransition,
    Kill,
    Mutation,
    Pause,
    Resume,
    Task,
    TaskStatus,
    apply,
)
from agentic_kernel.invariants import check, follows
from agentic_kernel.transitions import ILLEGAL, NO_OP, TABLE

CONTRACT = """
            not_started  running    paused     success  failure  cancelled
dispatch    running      illegal    illegal    illegal  illegal  illegal
pause       illegal      paused     no-op      no-op    no-op    no-op
resume      no-op        no-op      running    no-op    no-op    no-op
kill        cancelled    cancelled  cancelled  no-op    no-op    no-op
complete    illegal      success    illegal    no-op    no-op    no-op
fail        illegal      failure    illegal    no-op    no-op    no-op
"""

PAYLOADS: dict[str, Mutation] = {
    "dispatch": Dispatch(),
    "pause": Pause(),
    "resume": Resume("and two"),
    "kill": Kill(),
    "complete": Complete({"sum": 2}),
    "fail": Fail(Failure("acme/no_beads", "the abacus has no beads")),
}

_HEAD, *_ROWS = (line.split() for line in CONTRACT.strip().splitlines())
CELLS = [
    pytest.param(verb, TaskStatus(status), cell, id=f"{verb}-{status}")
    for verb, *cells in _ROWS
    for status, cell in zip(_HEAD, cells, strict=True)
]


def test_the_contract_names_every_cell() -> None:
    assert len(CELLS) == len(TaskStatus) * len(TABLE) == 36
    assert {mutation.verb for mutation in TABLE} == set(PAYLOADS)


@pytest.mark.parametrize(("verb", "status", "cell"), CELLS)
def test_the_table_is_the_contract(verb: str, status: TaskStatus, cell: str) -> None:
    entry = TABLE[type(PAYLOADS[verb])][status]
    assert entry == {"no-op": NO_OP, "illegal": ILLEGAL}.get(cell, cell)


@pytest.mark.rule("C1")
@pytest.mark.parametrize(("verb", "status", "cell"), CELLS)
def test_apply_does_what_the_cell_says(
    verb: str, status: TaskStatus, cell: str, tasks: Mapping[TaskStatus, Task], later: datetime
) -> None:
    task, mutation = tasks[status], PAYLOADS[verb]
    before = _fields(task)

    if cell == "illegal":
        with pytest.raises(IllegalTransition) as caught:
            apply(task, mutation, later)
        error = caught.value
        assert (error.task_id, error.status, error.mutation) == ("task-1", status, verb)
    elif cell == "no-op":
        assert apply(task, mutation, later) is task
    else:
        after = apply(task, mutation, later)
        assert after is not task
        assert after.status is TaskStatus(cell)
        assert {name for name, old in before.items() if getattr(after, name) != old} == CHANGES[
            verb
        ]
        check(after)
        assert follows(task, after)
    assert _fields(task) == before


CHANGES = {
    "dispatch": {"status", "started_at"},
    "pause": {"status"},
    "resume": {"status", "supplements"},
    "kill": {"status", "ended_at"},
    "complete": {"status", "result", "ended_at"},
    "fail": {"status", "failure", "ended_at"},
}
"""The fields that each verb writes, and no others."""


@pytest.mark.parametrize("status", [status for status in TaskStatus if status.terminal])
def test_no_mutation_leaves_a_terminal_status(
    status: TaskStatus, tasks: Mapping[TaskStatus, Task]
) -> None:
    assert {row[status] for row in TABLE.values()} == {NO_OP, ILLEGAL}


def test_exactly_the_last_three_states_are_terminal() -> None:
    assert [status.value for status in TaskStatus if status.terminal] == [
        "success",
        "failure",
        "cancelled",
    ]


def _fields(task: Task) -> dict[str, object]:
    return {name: getattr(task, name) for name in Task.__slots__}

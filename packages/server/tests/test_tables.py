"""The states of executions and of steps, as the tables say and as the runs do."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import TypeAlias

import pytest

from agentic_kernel_server.executions.tables import (
    EXECUTIONS,
    STEPS,
    ExecutionStatus,
    IllegalStep,
    StepStatus,
    advance,
)

E: TypeAlias = ExecutionStatus
S: TypeAlias = StepStatus
EXPECTED_STEPS = {
    (S.PENDING, "dispatch"): S.DISPATCHED,
    (S.PENDING, "deny"): S.CANCELLED,
    (S.PENDING, "cancel"): S.CANCELLED,
    (S.PENDING, "time_out"): S.TIMED_OUT,
    (S.DISPATCHED, "start"): S.RUNNING,
    (S.DISPATCHED, "retry"): S.PENDING,
    (S.DISPATCHED, "time_out"): S.TIMED_OUT,
    (S.DISPATCHED, "cancel"): S.CANCELLED,
    (S.RUNNING, "succeed"): S.SUCCEEDED,
    (S.RUNNING, "fail"): S.FAILED,
    (S.RUNNING, "retry"): S.PENDING,
    (S.RUNNING, "time_out"): S.TIMED_OUT,
    (S.RUNNING, "cancel"): S.CANCELLED,
}
EXPECTED_EXECUTIONS = {
    (E.PENDING, "assign"): E.RUNNING,
    (E.PENDING, "fail"): E.FAILED,
    (E.PENDING, "cancel"): E.CANCELLED,
    (E.RUNNING, "block"): E.BLOCKED,
    (E.RUNNING, "complete"): E.COMPLETED,
    (E.RUNNING, "fail"): E.FAILED,
    (E.RUNNING, "cancel"): E.CANCELLED,
    (E.RUNNING, "lose"): E.PENDING,
    (E.BLOCKED, "unblock"): E.RUNNING,
    (E.BLOCKED, "complete"): E.COMPLETED,
    (E.BLOCKED, "fail"): E.FAILED,
    (E.BLOCKED, "cancel"): E.CANCELLED,
    (E.BLOCKED, "lose"): E.PENDING,
}
STEP_TRIGGERS = sorted({trigger for _, trigger in EXPECTED_STEPS})
EXECUTION_TRIGGERS = sorted({trigger for _, trigger in EXPECTED_EXECUTIONS})


@pytest.mark.parametrize(("status", "trigger"), [*product(S, STEP_TRIGGERS)])
def test_every_cell_of_the_table_of_steps(status: S, trigger: str) -> None:
    wanted = EXPECTED_STEPS.get((status, trigger))
    if wanted is None:
        with pytest.raises(IllegalStep, match=f"{trigger!r} is illegal while"):
            advance(STEPS, status, trigger)
    else:
        assert advance(STEPS, status, trigger) is wanted


@pytest.mark.parametrize(("status", "trigger"), [*product(E, EXECUTION_TRIGGERS)])
def test_every_cell_of_the_table_of_executions(status: E, trigger: str) -> None:
    wanted = EXPECTED_EXECUTIONS.get((status, trigger))
    if wanted is None:
        with pytest.raises(IllegalStep):
            advance(EXECUTIONS, status, trigger)
    else:
        assert advance(EXECUTIONS, status, trigger) is wanted


def test_the_tables_name_every_state_and_nothing_leads_out_of_an_end() -> None:
    assert set(STEPS) == set(S)
    assert set(EXECUTIONS) == set(E)
    assert {each for each in S if each.terminal} == {
        S.SUCCEEDED, S.FAILED, S.TIMED_OUT, S.CANCELLED,
    }  # fmt: skip
    assert {each for each in E if not EXECUTIONS[each]} == {E.COMPLETED, E.FAILED, E.CANCELLED}


SEED_STEPS = """
pending dispatched, pending cancelled, pending timed_out,
dispatched running, dispatched timed_out, dispatched cancelled,
running succeeded, running failed, running timed_out, running cancelled
"""
SEED_EXECUTIONS = """
pending running, pending cancelled, running blocked, running completed, running failed,
running cancelled, running pending, blocked running, blocked failed, blocked cancelled
"""


def _pairs(table: Mapping[S, Mapping[str, S]] | Mapping[E, Mapping[str, E]]) -> set[str]:
    return {
        f"{before.value} {after.value}"
        for before, cells in table.items()
        for after in cells.values()
    }


def test_the_tables_have_every_transition_of_the_wire_and_the_ones_that_its_gaps_need() -> None:
    seed = {pair.strip() for pair in SEED_STEPS.replace("\n", " ").split(",")}
    assert _pairs(STEPS) - seed == {"dispatched pending", "running pending"}  # New attempts.
    assert seed <= _pairs(STEPS)
    seed = {pair.strip() for pair in SEED_EXECUTIONS.replace("\n", " ").split(",")}
    assert seed <= _pairs(EXECUTIONS)
    # The timeout of an execution that no agent took; the end while a signal is awaited; an agent
    # that is lost in the middle of a step.
    more = {"pending failed", "blocked completed", "blocked pending"}
    assert _pairs(EXECUTIONS) - seed == more

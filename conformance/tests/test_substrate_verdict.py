"""The verdict about a trial: which commits settle a mark."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from agentic_kernel import Task
from agentic_kernel_conformance import Bounds, Mark
from agentic_kernel_conformance.rules import RuleError
from agentic_kernel_conformance.substrate_trial import Trial
from agentic_kernel_conformance.substrate_verdict import MarkLedger
from agentic_kernel_conformance.substrate_world import Worker
from agentic_kernel_engine import Record
from agentic_kernel_engine.events import RESULT_DROPPED, TASK_PAUSED, stored

BOUNDS = Bounds(after_crash="repeated")


def taken_over(event: str, *, step: int) -> Trial:
    """A trial whose mark is repeated by a second worker, after a write of the first one."""
    task = Task.new(summary="a mark", instructions="one", runtime_kind="kit")
    trial = Trial((Mark("one"),), task, patience=1.0)
    first, second = (Worker(cast(Any, None), number, Path()) for number in (1, 2))
    trial.tell("asked", "one", first)
    trial.tell("expired", worker=first)
    trial.claim(second)
    trial.tell("made", "one", first)
    before = Record(task, version=7, owner="second:7", step=5)
    after = before.changed(version=8, step=step)
    events = stored([{"type": event}], datetime.now(UTC))
    trial.landed(first, before, after, events)
    trial.tell("asked", "one", second)
    trial.tell("made", "one", second)
    return trial


def test_what_a_host_writes_after_it_lost_the_task_settles_no_mark() -> None:
    ledger = MarkLedger(taken_over(RESULT_DROPPED, step=5), BOUNDS)
    ledger.judge([], whole=True)
    assert ledger.first == ["one"]


def test_a_commit_of_the_owner_settles_the_marks_before_it() -> None:
    with pytest.raises(RuleError, match="the mark one was made again, although commit 1 came"):
        MarkLedger(taken_over("script/done", step=6), BOUNDS)


async def test_the_reason_of_a_pause_that_nobody_asked_for_is_told() -> None:
    task = Task.new(summary="a mark", instructions="one", runtime_kind="kit")
    trial = Trial((Mark("one"),), task, patience=0.0)
    before = Record(task, version=7, owner="first:7", step=5)
    event = {"type": TASK_PAUSED, "reason": "its session is gone"}
    owner = Worker(cast(Any, None), 1, Path())
    trial.landed(owner, before, before.changed(version=8), stored([event], datetime.now(UTC)))
    with pytest.raises(RuleError, match=r"\(its session is gone\)"):
        await trial.next()

"""Moments and Tasks that every test may ask for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from agentic_kernel import (
    Complete,
    Dispatch,
    Fail,
    Failure,
    Kill,
    Mutation,
    Pause,
    Resume,
    Task,
    TaskStatus,
    apply,
)

START = datetime(2026, 1, 2, 3, 4, 5, 678, UTC)

WAYS: Mapping[TaskStatus, tuple[Mutation, ...]] = {
    TaskStatus.NOT_STARTED: (),
    TaskStatus.RUNNING: (Dispatch(),),
    TaskStatus.PAUSED: (Dispatch(), Pause()),
    TaskStatus.SUCCESS: (Dispatch(), Pause(), Resume("more"), Complete({"answer": [42]})),
    TaskStatus.FAILURE: (Dispatch(), Fail(Failure("acme/broken", "it broke"))),
    TaskStatus.CANCELLED: (Dispatch(), Kill()),
}
"""The way of a new Task into each status."""


@pytest.fixture
def later() -> datetime:
    """A moment after everything that happened to the fixtures' Tasks."""
    return START + timedelta(hours=1)


@pytest.fixture
def new() -> Task:
    """A Task that was not dispatched, with input metadata of its own."""
    return Task.new(
        summary="Sum",
        instructions="Add one and one.",
        runtime_kind="acme/abacus",
        agent_name="@acme/clerk",
        metadata={"acme/given": {"deep": [1, {"er": None}]}, "plain": "x"},
        id="task-1",
        at=START,
    )


@pytest.fixture
def tasks(new: Task) -> Mapping[TaskStatus, Task]:
    """One Task in each of the six states."""
    reached = {}
    for status, way in WAYS.items():
        task = new
        for step, mutation in enumerate(way, start=1):
            task = apply(task, mutation, START + timedelta(minutes=step))
        assert task.status is status
        reached[status] = task
    return reached


@pytest.fixture
def running(tasks: Mapping[TaskStatus, Task]) -> Task:
    """The Task that runs."""
    return tasks[TaskStatus.RUNNING]

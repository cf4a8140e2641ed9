"""Notes: facts that an implementation leaves on a Task beside its fixed input."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pytest

from agentic_kernel import (
    Complete,
    Dispatch,
    Fail,
    Failure,
    IllegalTransition,
    InvalidValue,
    Kill,
    Mutation,
    Pause,
    Resume,
    Task,
    TaskStatus,
    annotate,
    apply,
)
from agentic_kernel.invariants import check, follows

NOTES = {"acme/partial_output": "1 + 1 is", "acme/last_heartbeat_at": None}
NOTED = [
    (TaskStatus.NOT_STARTED, Dispatch(notes=NOTES)),
    (TaskStatus.NOT_STARTED, Kill(notes=NOTES)),
    (TaskStatus.RUNNING, Pause(notes=NOTES)),
    (TaskStatus.RUNNING, Kill(notes=NOTES)),
    (TaskStatus.RUNNING, Complete(2, notes=NOTES)),
    (TaskStatus.RUNNING, Fail(Failure("acme/x", "x"), notes=NOTES)),
    (TaskStatus.PAUSED, Resume("more", notes=NOTES)),
    (TaskStatus.PAUSED, Kill(notes=NOTES)),
]
OPEN = [status for status in TaskStatus if not status.terminal]


@pytest.mark.parametrize(("status", "mutation"), NOTED)
def test_every_mutation_carries_notes_into_its_transition(
    tasks: Mapping[TaskStatus, Task], later: datetime, status: TaskStatus, mutation: Mutation
) -> None:
    before = tasks[status]
    after = apply(before, mutation, later)
    assert after.metadata == {**before.metadata, **NOTES}
    assert after.noted == before.noted | set(NOTES)
    assert after.status is not before.status
    check(after)
    assert follows(before, after)


@pytest.mark.parametrize("status", OPEN)
def test_annotate_changes_the_notes_and_nothing_else(
    tasks: Mapping[TaskStatus, Task], status: TaskStatus
) -> None:
    before = tasks[status]
    after = annotate(before, NOTES)
    assert after.metadata == {**before.metadata, **NOTES}
    changed = {name for name in Task.__slots__ if getattr(after, name) != getattr(before, name)}
    assert changed == {"metadata", "noted"}
    check(after)
    assert follows(before, after)


@pytest.mark.parametrize("status", [status for status in TaskStatus if status.terminal])
def test_a_terminal_task_takes_no_notes(
    tasks: Mapping[TaskStatus, Task], later: datetime, status: TaskStatus
) -> None:
    task = tasks[status]
    assert annotate(task, NOTES) is task
    assert apply(task, Kill(notes=NOTES), later) is task


def test_a_no_op_drops_its_notes(tasks: Mapping[TaskStatus, Task], later: datetime) -> None:
    paused = tasks[TaskStatus.PAUSED]
    assert apply(paused, Pause(notes=NOTES), later) is paused


def test_an_illegal_mutation_leaves_no_notes(new: Task, later: datetime) -> None:
    with pytest.raises(IllegalTransition):
        apply(new, Complete(1, notes=NOTES), later)
    assert not new.noted
    assert "acme/partial_output" not in new.metadata


def test_a_note_may_be_replaced(running: Task) -> None:
    once = annotate(running, {"acme/n": 1, "acme/m": 1})
    twice = annotate(once, {"acme/n": {"now": 2}})
    assert (twice.metadata["acme/n"], twice.metadata["acme/m"]) == ({"now": 2}, 1)
    assert once.metadata["acme/n"] == 1
    assert follows(once, twice)


@pytest.mark.parametrize(
    ("old", "new_value"),
    [(1, True), (True, 1), (0, False), (1, 1.0), ([1], [True]), ({"a": 0}, {"a": 0.0})],
)
def test_a_note_is_replaced_by_an_equal_value_of_another_type(
    running: Task, old: object, new_value: object
) -> None:
    after = annotate(annotate(running, {"acme/n": old}), {"acme/n": new_value})
    assert repr(after.metadata["acme/n"]) == repr(new_value)


def test_the_same_notes_again_change_nothing(running: Task) -> None:
    noted = annotate(running, {"acme/n": [1, {"a": None}]})
    assert annotate(noted, {"acme/n": [1, {"a": None}]}) is noted
    assert annotate(noted, {}) is noted


@pytest.mark.parametrize("key", ["acme/given", "plain"])
@pytest.mark.parametrize("status", OPEN)
def test_a_note_never_replaces_input(
    tasks: Mapping[TaskStatus, Task], later: datetime, status: TaskStatus, key: str
) -> None:
    task = tasks[status]
    with pytest.raises(InvalidValue) as caught:
        annotate(task, {"acme/fine": 1, key: 1})
    assert key in caught.value.path
    with pytest.raises(InvalidValue):
        apply(task, Kill(notes={key: task.metadata[key]}), later)
    assert "acme/fine" not in task.metadata


@pytest.mark.parametrize(
    "key", ["", "bare", "/a", "a/", "a/b/c", "a /b", "a/b\n", "a/b\0", "a/\u202e"]
)
def test_a_note_has_a_scoped_key(running: Task, key: str) -> None:
    with pytest.raises(InvalidValue, match="notes"):
        annotate(running, {key: 1})
    assert not running.noted


@pytest.mark.parametrize("notes", [[], "a/b", 1, {1: 2}, {"a/b": {1, 2}}, {"a/b": object()}])
def test_notes_are_a_mapping_of_values_that_can_be_frozen(running: Task, notes: Any) -> None:
    with pytest.raises(InvalidValue, match="notes"):
        annotate(running, notes)
    with pytest.raises(InvalidValue, match="notes"):
        Pause(notes=notes)


def test_notes_are_not_aliased_with_what_was_passed_in(running: Task, later: datetime) -> None:
    mutable = {"acme/list": [1]}
    noted, paused = annotate(running, mutable), apply(running, Pause(notes=mutable), later)
    mutable["acme/list"].append(2)
    mutable["acme/new"] = []
    for task in (noted, paused):
        assert task.metadata["acme/list"] == [1]
        assert "acme/new" not in task.metadata


def test_a_note_as_deep_as_it_likes_is_taken_twice(running: Task) -> None:
    def deep() -> object:
        value: object = None
        for _ in range(100_000):
            value = [value]
        return value

    once = annotate(running, {"acme/deep": deep()})
    assert annotate(once, {"acme/deep": deep()}).status is TaskStatus.RUNNING
    assert follows(running, once)

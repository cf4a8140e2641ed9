"""Errors: one root, the builtin that a caller expects, attributes, and a message to act on."""

from __future__ import annotations

import copy
import pickle

import pytest

from agentic_kernel import (
    CannotStart,
    IllegalTransition,
    InvalidTask,
    InvalidValue,
    KernelError,
    TaskExists,
    TaskNotFound,
    TaskStatus,
)

ERRORS: dict[str, tuple[KernelError, type[Exception], dict[str, object]]] = {
    "value": (InvalidValue("a[0]", "is bad"), ValueError, {"path": "a[0]", "reason": "is bad"}),
    "task": (InvalidTask("Task.id", "is bad"), InvalidValue, {"path": "Task.id"}),
    "illegal": (
        IllegalTransition("t", TaskStatus.PAUSED, "complete"),
        ValueError,
        {"task_id": "t", "status": TaskStatus.PAUSED, "mutation": "complete"},
    ),
    "not-found": (TaskNotFound("t"), LookupError, {"task_id": "t"}),
    "exists": (TaskExists("t"), ValueError, {"task_id": "t"}),
    "cannot-start": (
        CannotStart("no model", "t"),
        RuntimeError,
        {"reason": "no model", "task_id": "t"},
    ),
    "cannot-start-at-all": (CannotStart("no model"), RuntimeError, {"task_id": None}),
}
each = pytest.mark.parametrize(("error", "builtin", "attributes"), ERRORS.values(), ids=ERRORS)


@each
def test_an_error_belongs_to_the_root_and_to_the_builtin_one_expects(
    error: KernelError, builtin: type[Exception], attributes: dict[str, object]
) -> None:
    assert isinstance(error, KernelError)
    assert isinstance(error, builtin)


@each
def test_an_error_keeps_its_attributes_and_message_through_a_copy(
    error: KernelError, builtin: type[Exception], attributes: dict[str, object]
) -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        copied = pickle.loads(pickle.dumps(error, protocol))
        assert type(copied) is type(error)
        assert str(copied) == str(error) == str(copy.copy(error))
        for name, value in attributes.items():
            assert getattr(copied, name) == value


@pytest.mark.parametrize("status", list(TaskStatus))
@pytest.mark.parametrize("verb", ["dispatch", "pause", "complete", "fail"])
def test_an_illegal_transition_says_what_was_tried_and_what_to_do(
    status: TaskStatus, verb: str
) -> None:
    message = str(IllegalTransition("task-1", status, verb))
    assert message.startswith(f"cannot {verb} task 'task-1' while it is {status.value}; ")
    advice = message.partition("; ")[2]
    assert ("dispatch a new Task" in advice) is (status.terminal or verb == "dispatch")


@pytest.mark.parametrize("id", ["a\nb", "\x1b[31mred", "\u202ebidi", "\ud800", "\0"])
def test_hostile_ids_are_shown_escaped(id: str) -> None:
    for error in (
        IllegalTransition(id, TaskStatus.PAUSED, "fail"),
        TaskNotFound(id),
        TaskExists(id),
        CannotStart("no model", id),
    ):
        assert str(error).isprintable()
        str(error).encode()

"""Wording: errors of the packages below in the words of the command, with a remedy that it has."""

from __future__ import annotations

import re
from typing import Final

from agentic_kernel import (
    CannotStart,
    IllegalTransition,
    InvalidValue,
    KernelError,
    TaskExists,
    TaskNotFound,
)
from agentic_kernel_engine import Conflict

from .text import command_line, named

_LONGEST: Final = 80
"""The most characters of an id that are shown."""
_OPTIONS: Final = {"Task.id": "--id", "Task.summary": "--summary", "Task.instructions": "TEXT"}
"""The words of the command line for the fields of a new Task."""
_BEGUN: Final = {
    "resume": "resume", "approve": "resume", "deny": "resume", "answer": "resume",
    "recover": "recover",
}  # fmt: skip
"""The words for the refusal of a Task that has begun, by the verbs that would run it."""
_PARSED: Final = [
    (re.compile(theirs), ours)
    for theirs, ours in (
        (r"^Missing argument '(\w+)'\. Choose from:\s+", r"give \1: "),
        (r",\n\t", ", "),
        (r"^(Invalid value for '[^']+': )Value error, ", r"\1"),
        (r": Input should be a valid integer, .*$", ": must be a whole number"),
        (r": Input should be a valid number, .*$", ": must be a number"),
        (r": Input should be greater than or equal to (\S+)$", r": must be \1 or more"),
        (r": Input should be less than or equal to (\S+)$", r": must be \1 or less"),
    )
]
"""The sentences of Typer and pydantic, which name their own types, and ours."""


def worded(error: KernelError, verb: str = "") -> str | None:
    """The message for the person at the terminal; None if that of the error fits.

    Args:
        verb: The verb of the command line.
    """
    if isinstance(error, CannotStart) and error.task_id is not None and verb in _BEGUN:
        return f"cannot {_BEGUN[verb]} {named(error.task_id, _LONGEST)}: {error.reason}"
    if isinstance(error, IllegalTransition):
        return _not_now(error)
    if isinstance(error, TaskNotFound):
        return (
            f"no {named(error.task_id, _LONGEST)} is stored here; see the ids with list, or "
            "name another place with --state"
        )
    if isinstance(error, TaskExists):
        return (
            f"{named(error.task_id, _LONGEST)} is already stored; give another --id, or leave "
            "it out"
        )
    if isinstance(error, Conflict):
        return (
            f"{named(error.task_id, _LONGEST)} changed in the same moment; look at it with "
            "show, and try again"
        )
    if isinstance(error, InvalidValue) and error.path in _OPTIONS:
        return f"{_OPTIONS[error.path]}: {error.reason}"
    return None


def parsed(message: str) -> str:
    """The message of the parser about a value, in the words of the command."""
    for theirs, ours in _PARSED:
        message = theirs.sub(ours, message)
    return message


def _not_now(error: IllegalTransition) -> str:
    task = named(error.task_id, _LONGEST)
    if error.status in ("success", "failure", "cancelled"):
        again = command_line(["run", "--session", error.task_id, "TEXT"])
        return (
            f"{task} has ended ({error.status!s}) and stays as it is; run a new Task, or go on "
            f"with this conversation: {again}"
        )
    if error.status == "running":
        return f"{task} is running already; look at it with watch, or pause it first"
    return f"{task} is {error.status!s}; resume it first"

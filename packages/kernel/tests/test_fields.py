"""Every field of every value object, given every wrong type: a typed refusal that names it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any

import pytest

from agentic_kernel import (
    Agent,
    Capability,
    Failure,
    InvalidTask,
    InvalidValue,
    Kill,
    Task,
    TaskStatus,
    annotate,
    apply,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Weird(tzinfo):
    def utcoffset(self, _: datetime | None) -> timedelta | None:
        raise RuntimeError("no")

    dst = utcoffset

    def tzname(self, _: datetime | None) -> str | None:
        return None


WRONG_TEXT: list[Any] = [None, 5, 1.5, True, b"x", [], {}, object(), range(10**9)]
WRONG_BAG: list[Any] = [
    5, "x", b"x", [], [("a", 1)], {1: 2}, {"a/b": {1}}, {"a/b": range(10**9)}, object(),
]  # fmt: skip
WRONG_STAMP: list[Any] = [5, "2026-01-01", datetime(2026, 1, 1), date(2026, 1, 1), datetime.max,
               datetime(2026, 1, 1, tzinfo=Weird()),
               datetime.max.replace(tzinfo=timezone(timedelta(hours=-14)))]  # fmt: skip
WRONG_SET: list[Any] = [
    5, "acme/n", b"x", range(10**9), [[]], [5], {"absent/n"}, {"a": 1}, object(),
]  # fmt: skip
WRONG_LIST: list[Any] = [5, "x", b"x", {"a": 1}, range(10**9), [5], [None], [b"x"], object()]
WRONG: dict[str, tuple[type, dict[str, Any], list[Any]]] = {
    **{f"Task.{name}": (Task, {}, WRONG_TEXT) for name in ("id", "runtime_kind", "summary")},
    "Task.instructions": (Task, {}, WRONG_TEXT),
    "Task.agent_name": (Task, {}, [*WRONG_TEXT[1:], "bare", "a/\u202e"]),
    "Task.metadata": (Task, {}, WRONG_BAG),
    "Task.status": (Task, {}, [None, 5, "begun", [], {}, object()]),
    "Task.failure": (Task, {"status": TaskStatus.FAILURE}, [5, "x", {}, object()]),
    "Task.supplements": (Task, {"started_at": NOON}, WRONG_LIST),
    "Task.result": (
        Task,
        {"status": TaskStatus.SUCCESS, "started_at": NOON, "ended_at": NOON},
        [object(), {1}, {1: 2}, b"x", range(10**9)],
    ),
    "Task.created_at": (Task, {}, [None, *WRONG_STAMP]),
    "Task.started_at": (Task, {}, WRONG_STAMP),
    "Task.ended_at": (Task, {}, WRONG_STAMP),
    "Task.noted": (Task, {}, WRONG_SET),
    "Failure.code": (Failure, {}, [*WRONG_TEXT, ""]),
    "Failure.message": (Failure, {}, [*WRONG_TEXT, ""]),
    "Failure.metadata": (Failure, {}, WRONG_BAG),
    "Agent.name": (Agent, {}, [*WRONG_TEXT, "", "bare"]),
    "Agent.capabilities": (Agent, {}, [None, *WRONG_LIST]),
    "Agent.metadata": (Agent, {}, WRONG_BAG),
    "Capability.name": (Capability, {}, [*WRONG_TEXT, "", "bare"]),
}
RIGHT: dict[type, dict[str, Any]] = {
    Task: {"id": "t", "summary": "", "instructions": "", "runtime_kind": "k", "created_at": NOON},
    Failure: {"code": "a/b", "message": "c"},
    Agent: {"name": "a/b"},
    Capability: {"name": "a/b"},
}


@pytest.mark.parametrize("field", WRONG)
def test_a_field_of_a_wrong_type_is_refused_by_its_name(field: str) -> None:
    kind, given, values = WRONG[field]
    kind(**RIGHT[kind])
    for value in values:
        with pytest.raises(InvalidValue) as refused:
            kind(**{**RIGHT[kind], **given, field.partition(".")[2]: value})
        assert refused.value.path.startswith(field), value
        assert refused.value.reason
        assert kind is not Task or isinstance(refused.value, InvalidTask)


@pytest.mark.parametrize("task", [None, 5, "t", {}, object()])
def test_only_a_task_moves(task: Any) -> None:
    with pytest.raises(InvalidValue, match="task: must be a Task"):
        apply(task, Kill(), NOON)
    with pytest.raises(InvalidValue, match="task: must be a Task"):
        annotate(task, {"a/b": 1})


@pytest.mark.parametrize("mutation", [None, 5, Kill, "kill", object()])
def test_only_a_mutation_moves_a_task(mutation: Any) -> None:
    with pytest.raises(InvalidValue, match="is not one of the six mutations"):
        apply(Task(**RIGHT[Task]), mutation, NOON)

"""The Task as a snapshot: made once, refused when inconsistent, immutable, copied whole."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

import pytest

from agentic_kernel import Failure, InvalidTask, InvalidValue, KernelError, Task, TaskStatus
from agentic_kernel.invariants import check

T0 = datetime(2026, 1, 1, tzinfo=UTC)
T1, T2 = T0 + timedelta(seconds=1), T0 + timedelta(seconds=2)
FAILURE = Failure("acme/x", "x")

NEW: dict[str, Any] = {
    "id": "t", "summary": "s", "instructions": "i", "runtime_kind": "k", "created_at": T0,
}  # fmt: skip
RUNNING = {**NEW, "status": TaskStatus.RUNNING, "started_at": T1}
PAUSED = {**RUNNING, "status": TaskStatus.PAUSED}
SUCCESS = {**RUNNING, "status": TaskStatus.SUCCESS, "ended_at": T2, "result": 1}
FAILED = {**RUNNING, "status": TaskStatus.FAILURE, "ended_at": T2, "failure": FAILURE}
CANCELLED = {**RUNNING, "status": TaskStatus.CANCELLED, "ended_at": T2}
KILLED_EARLY = {**CANCELLED, "started_at": None}
LEGAL = {
    "new": NEW,
    "running": RUNNING,
    "paused": PAUSED,
    "success": SUCCESS,
    "failed": FAILED,
    "cancelled": CANCELLED,
    "killed-early": KILLED_EARLY,
}


def test_a_new_task_has_not_started() -> None:
    task = Task.new(summary="s", instructions="i", runtime_kind="k")
    assert task.status is TaskStatus.NOT_STARTED
    assert (task.result, task.failure, task.started_at, task.ended_at) == (None,) * 4
    assert task.agent_name is None
    assert (task.metadata, task.supplements, task.noted) == ({}, [], frozenset())
    assert task.created_at.tzinfo is UTC


def test_summary_and_instructions_may_be_empty() -> None:
    task = Task.new(summary="", instructions="", runtime_kind="k")
    assert (task.summary, task.instructions) == ("", "")


def test_id_and_moment_can_be_injected() -> None:
    task = Task.new(summary="", instructions="", runtime_kind="k", id="../etc", at=T1)
    assert (task.id, task.created_at) == ("../etc", T1)


@pytest.mark.parametrize("fields", LEGAL.values(), ids=LEGAL)
def test_a_consistent_snapshot_is_rebuilt(fields: dict[str, Any]) -> None:
    task = Task(**fields)
    check(task)
    assert {name: getattr(task, name) for name in fields} == fields


def test_a_status_is_also_accepted_by_its_value() -> None:
    assert Task(**{**RUNNING, "status": "running"}).status is TaskStatus.RUNNING


def test_success_may_lack_a_result_because_none_is_one() -> None:
    assert Task(**{**SUCCESS, "result": None}).status is TaskStatus.SUCCESS


TORN: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    # (field that is named, legal snapshot, what is wrong with it)
    ("id", NEW, {"id": ""}),
    ("id", NEW, {"id": None}),
    ("id", NEW, {"id": 7}),
    ("id", NEW, {"id": b"t"}),
    ("summary", NEW, {"summary": None}),
    ("instructions", NEW, {"instructions": ["i"]}),
    ("runtime_kind", NEW, {"runtime_kind": ""}),
    ("runtime_kind", NEW, {"runtime_kind": 1}),
    ("agent_name", NEW, {"agent_name": "clerk"}),
    ("agent_name", NEW, {"agent_name": ""}),
    ("metadata", NEW, {"metadata": [("a", 1)]}),
    ("metadata", NEW, {"metadata": {1: 1}}),
    ("metadata", NEW, {"metadata": {"a": {1, 2}}}),
    ("metadata", NEW, {"metadata": {"a": [b"bytes"]}}),
    ("noted", NEW, {"noted": {"acme/n"}}),
    ("noted", NEW, {"noted": "acme/n"}),
    ("noted", NEW, {"noted": None}),
    ("noted", NEW, {"noted": [[]]}),
    ("noted", NEW, {"noted": {"bare"}, "metadata": {"bare": 1}}),
    ("status", NEW, {"status": "done"}),
    ("status", NEW, {"status": None}),
    ("status", NEW, {"status": []}),
    ("status", NEW, {"status": 10**5000}),
    ("created_at", NEW, {"created_at": None}),
    ("created_at", NEW, {"created_at": "2026-01-01T00:00:00Z"}),
    ("created_at", NEW, {"created_at": datetime(2026, 1, 1)}),
    ("started_at", NEW, {"started_at": T1}),
    ("ended_at", NEW, {"ended_at": T1}),
    ("supplements", NEW, {"supplements": ["more"]}),
    ("result", NEW, {"result": 0}),
    ("failure", NEW, {"failure": FAILURE}),
    ("started_at", RUNNING, {"started_at": None}),
    ("started_at", RUNNING, {"started_at": T0 - timedelta(microseconds=1)}),
    ("started_at", RUNNING, {"started_at": T1.replace(tzinfo=None)}),
    ("ended_at", RUNNING, {"ended_at": T2}),
    ("result", RUNNING, {"result": ""}),
    ("failure", RUNNING, {"failure": FAILURE}),
    ("supplements", RUNNING, {"supplements": "more"}),
    ("supplements", RUNNING, {"supplements": [1]}),
    ("supplements", RUNNING, {"supplements": ["more", None]}),
    ("supplements", RUNNING, {"supplements": {"more": 1}}),
    ("started_at", PAUSED, {"started_at": None}),
    ("ended_at", PAUSED, {"ended_at": T2}),
    ("result", PAUSED, {"result": False}),
    ("started_at", SUCCESS, {"started_at": None}),
    ("ended_at", SUCCESS, {"ended_at": None}),
    ("ended_at", SUCCESS, {"ended_at": T1 - timedelta(microseconds=1)}),
    ("failure", SUCCESS, {"failure": FAILURE}),
    ("started_at", FAILED, {"started_at": None}),
    ("ended_at", FAILED, {"ended_at": None}),
    ("failure", FAILED, {"failure": None}),
    ("failure", FAILED, {"failure": "acme/x"}),
    ("result", FAILED, {"result": 1}),
    ("ended_at", CANCELLED, {"ended_at": None}),
    ("failure", CANCELLED, {"failure": FAILURE}),
    ("result", CANCELLED, {"result": 1}),
    ("ended_at", KILLED_EARLY, {"ended_at": T0 - timedelta(microseconds=1)}),
    ("supplements", KILLED_EARLY, {"supplements": ["more"]}),
]


@pytest.mark.rule("C3")
@pytest.mark.parametrize(("field", "legal", "wrong"), TORN)
def test_an_inconsistent_snapshot_is_refused(
    field: str, legal: dict[str, Any], wrong: dict[str, Any]
) -> None:
    with pytest.raises(InvalidTask) as caught:
        Task(**{**legal, **wrong})
    assert caught.value.path.startswith(f"Task.{field}")
    assert caught.value.reason in str(caught.value)


def test_a_result_that_cannot_be_frozen_is_refused() -> None:
    with pytest.raises(InvalidTask, match=r"Task\.result"):
        Task(**{**SUCCESS, "result": object()})


@pytest.mark.rule("C3")
@pytest.mark.parametrize(
    ("field", "legal", "wrong"),
    [case for case in TORN if case[0] in ("id", "agent_name", "ended_at", "failure", "result")],
)
def test_check_finds_a_snapshot_that_got_past_the_constructor(
    field: str, legal: dict[str, Any], wrong: dict[str, Any]
) -> None:
    torn = Task(**legal)
    for name, value in wrong.items():
        object.__setattr__(torn, name, value)
    with pytest.raises(InvalidTask, match=f"Task.{field}"):
        check(torn)


@pytest.mark.parametrize("other", [None, {}, "task", object()])
def test_check_refuses_what_is_no_task(other: Any) -> None:
    with pytest.raises(InvalidTask, match="must be a Task"):
        check(other)


# Immutable, equal, copied whole


@pytest.mark.parametrize("name", Task.__slots__)
def test_no_field_can_be_set_or_deleted(tasks: Mapping[TaskStatus, Task], name: str) -> None:
    for task in tasks.values():
        before = getattr(task, name)
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(task, name, before)
        with pytest.raises(dataclasses.FrozenInstanceError):
            delattr(task, name)
        assert getattr(task, name) is before


def test_a_task_takes_no_further_attributes(new: Task) -> None:
    with pytest.raises((AttributeError, TypeError)):
        new.extra = 1  # type: ignore[attr-defined]


def test_nothing_is_aliased_with_what_was_passed_in() -> None:
    metadata: dict[str, Any] = {"a": [{"b": []}]}
    supplements, result = ["one"], {"sum": [1]}
    fields: dict[str, Any] = {
        **SUCCESS, "metadata": metadata, "supplements": supplements, "result": result,
    }  # fmt: skip
    task = Task(**fields)
    metadata["a"].append({})
    supplements.append("two")
    result["sum"].clear()
    assert (task.metadata, task.supplements) == ({"a": [{"b": []}]}, ["one"])
    assert task.result == {"sum": [1]}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_tasks_survive_pickling(tasks: Mapping[TaskStatus, Task], protocol: int) -> None:
    for task in tasks.values():
        copied = pickle.loads(pickle.dumps(task, protocol))
        assert copied == task
        check(copied)
        with pytest.raises(TypeError):
            copied.metadata["new"] = 1


def test_tasks_survive_copying(tasks: Mapping[TaskStatus, Task]) -> None:
    for task in tasks.values():
        for copied in (copy.copy(task), copy.deepcopy(task), dataclasses.replace(task)):
            assert copied == task
            assert copied.metadata is task.metadata
            assert hash(copied) == hash(task)


def test_a_replaced_field_is_checked_like_any_other(running: Task) -> None:
    with pytest.raises(InvalidTask):
        dataclasses.replace(running, status=TaskStatus.SUCCESS)


def test_a_task_turns_into_plain_values(tasks: Mapping[TaskStatus, Task]) -> None:
    for task in tasks.values():
        fields = dataclasses.asdict(task)
        assert Task(**{**fields, "failure": task.failure}) == task
        json.dumps(fields["metadata"])


def test_a_status_reads_as_its_value() -> None:
    status = TaskStatus.NOT_STARTED
    assert f"{status} {status!s}" == "not_started not_started"
    assert json.dumps({"status": status}) == '{"status": "not_started"}'
    assert pickle.loads(pickle.dumps(status)) is status
    assert {status: 1}["not_started"] == 1


class Kind(str, Enum):
    """Text of a type of its own, as applications like to have it."""

    ABACUS = "acme/abacus"


def test_text_of_a_type_of_its_own_becomes_plain_text() -> None:
    text = Kind.ABACUS
    task = Task.new(summary=text, instructions=text, runtime_kind=text, agent_name=text, id=text)
    failure = Failure(text, text)
    for value in (
        task.id, task.summary, task.instructions, task.runtime_kind, task.agent_name,
        failure.code, failure.message,
    ):  # fmt: skip
        assert type(value) is str
        assert value == "acme/abacus"


@pytest.mark.parametrize(
    "fields",
    [{"code": ""}, {"code": None}, {"message": ""}, {"message": 1}, {"metadata": []},
     {"metadata": {"a": {1}}}],
)  # fmt: skip
def test_a_failure_says_what_and_why(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue, match=f"Failure.{next(iter(fields))}"):
        Failure(**{"code": "acme/x", "message": "x", **fields})


def test_a_failure_is_a_value_and_no_exception() -> None:
    failure = Failure("acme/x", "x", {"retry_after_ms": 5})
    assert not isinstance(failure, (BaseException, KernelError))
    assert pickle.loads(pickle.dumps(failure)) == failure == copy.deepcopy(failure)
    assert hash(failure) == hash(Failure("acme/x", "x", {"retry_after_ms": 5}))


@pytest.mark.parametrize(
    "text",
    ["x" * 10_000_000, "\0", "\ud800", "a\u202eb", "'; DROP TABLE tasks; --", "-rf", ".", "\n"],
    ids=["10-mb", "nul", "surrogate", "bidi", "sql", "dash", "dot", "newline"],
)
def test_any_text_is_an_id_and_an_input_because_both_are_opaque(text: str) -> None:
    task = Task.new(summary=text, instructions=text, runtime_kind="k", id=text)
    check(task)
    assert task.id is text


def test_ids_are_compared_as_they_are() -> None:
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    ids = {
        Task.new(summary="", instructions="", runtime_kind="k", id=id, at=T0)
        for id in ("a", "A", composed, decomposed)
    }
    assert len(ids) == 4

"""The results of `apply`, its stamps, and its refusals."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any

import pytest

from agentic_kernel import (
    Complete,
    Dispatch,
    Fail,
    Failure,
    InvalidValue,
    Kill,
    Mutation,
    Pause,
    Resume,
    Task,
    TaskStatus,
    apply,
)

UTC = UTC
EAST = timezone(timedelta(hours=5, minutes=30))


@pytest.mark.parametrize("result", [None, False, 0, "", [], {}, {"a": [1]}, 1.5, "text"])
def test_any_value_is_a_result_none_included(
    running: Task, later: datetime, result: object
) -> None:
    done = apply(running, Complete(result), later)
    assert done.status is TaskStatus.SUCCESS
    assert done.result == result


@pytest.mark.parametrize(("extra", "appended"), [(None, []), ("", [""]), ("more", ["more"])])
def test_an_extra_is_appended_unless_it_is_none(
    tasks: Mapping[TaskStatus, Task], later: datetime, extra: str | None, appended: list[str]
) -> None:
    paused = tasks[TaskStatus.PAUSED]
    resumed = apply(paused, Resume(extra), later)
    assert resumed.supplements == [*paused.supplements, *appended]
    assert resumed.started_at == paused.started_at


def test_supplements_keep_their_order(running: Task, later: datetime) -> None:
    task = running
    for extra in ("one", "two", "", "two"):
        task = apply(apply(task, Pause(), later), Resume(extra), later)
    assert task.supplements == ["one", "two", "", "two"]


def test_a_resume_takes_over_the_supplements_that_are_there_as_they_are(
    running: Task, later: datetime
) -> None:
    first = apply(apply(running, Pause(), later), Resume("one"), later)
    second = apply(apply(first, Pause(), later), Resume("two"), later)
    assert second.supplements[0] is first.supplements[0]
    assert first.supplements == ["one"]


def test_a_kill_leaves_neither_result_nor_failure(running: Task, later: datetime) -> None:
    killed = apply(running, Kill(), later)
    assert (killed.result, killed.failure) == (None, None)


def test_input_is_handed_on_by_identity(new: Task, later: datetime) -> None:
    after = apply(new, Dispatch(), later)
    for name in ("id", "summary", "instructions", "runtime_kind", "agent_name", "metadata"):
        assert getattr(after, name) is getattr(new, name)


# Time


@pytest.mark.parametrize("mutation", [Dispatch(), Kill()])
def test_a_stamp_never_lies_before_the_creation(new: Task, mutation: Mutation) -> None:
    after = apply(new, mutation, new.created_at - timedelta(days=9))
    assert (after.started_at or after.ended_at) == new.created_at


@pytest.mark.parametrize("mutation", [Kill(), Complete(1), Fail(Failure("acme/x", "x"))])
def test_an_end_never_lies_before_the_start(new: Task, mutation: Mutation) -> None:
    start = new.created_at + timedelta(days=1)
    running = apply(new, Dispatch(), start)
    assert apply(running, mutation, start - timedelta(seconds=1)).ended_at == start
    assert apply(running, mutation, start).ended_at == start


def test_moments_are_converted_to_utc(new: Task) -> None:
    local = datetime(2027, 1, 1, 12, 0, tzinfo=EAST)
    after = apply(new, Dispatch(), local)
    assert after.started_at == local
    assert after.started_at is not None
    assert after.started_at.tzinfo is UTC


@pytest.mark.parametrize("status", list(TaskStatus))
@pytest.mark.parametrize(
    "at",
    [
        datetime(2027, 1, 1),
        None,
        "2027-01-01T00:00:00Z",
        1_800_000_000,
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
    ],
    ids=["naive", "none", "string", "number", "after-utc", "before-utc"],
)
def test_what_is_no_moment_is_refused_whatever_the_status(
    tasks: Mapping[TaskStatus, Task], status: TaskStatus, at: Any
) -> None:
    with pytest.raises(InvalidValue) as caught:
        apply(tasks[status], Kill(), at)
    assert caught.value.path == "at"


def test_a_timezone_without_an_offset_is_naive(new: Task) -> None:
    class Vague(tzinfo):
        def utcoffset(self, _: datetime | None) -> None:
            return None

        dst = utcoffset

        def tzname(self, _: datetime | None) -> str:
            return "somewhere"

    with pytest.raises(InvalidValue, match="naive"):
        apply(new, Dispatch(), datetime(2027, 1, 1, tzinfo=Vague()))


# The closed set of mutations


class SlowKill(Kill):
    """Not one of the six."""


@pytest.mark.rule("C1")
@pytest.mark.parametrize("status", list(TaskStatus))
@pytest.mark.parametrize("mutation", [SlowKill(), Mutation(), Kill, "kill", None, {"verb": "kill"}])
def test_a_seventh_mutation_is_refused(
    tasks: Mapping[TaskStatus, Task], later: datetime, status: TaskStatus, mutation: Any
) -> None:
    with pytest.raises(InvalidValue, match="not one of the six"):
        apply(tasks[status], mutation, later)


@pytest.mark.parametrize("extra", [1, b"bytes", ["more"], False])
def test_an_extra_is_text(extra: Any) -> None:
    with pytest.raises(InvalidValue, match="extra: must be a string or None"):
        Resume(extra)


@pytest.mark.parametrize("failure", [None, "broken", RuntimeError("broken"), {"code": "a/b"}])
def test_a_failure_is_a_failure(failure: Any) -> None:
    with pytest.raises(InvalidValue, match="failure: must be a Failure"):
        Fail(failure)


def test_payloads_are_taken_by_position_and_by_name() -> None:
    failure = Failure("acme/x", "x")
    assert Resume("a") == Resume(extra="a")
    assert Complete(1) == Complete(result=1)
    assert Fail(failure) == Fail(failure=failure)
    assert Resume() == Resume(None)

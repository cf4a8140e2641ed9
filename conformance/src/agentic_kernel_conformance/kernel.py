"""KernelContract: compares any ``apply`` with the state table and the invariants.

The table is written here a second time, from the rules and not from the implementation.
"""

from __future__ import annotations

import copy
import itertools
import json
import pickle
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, ClassVar, Protocol

import pytest

import agentic_kernel
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
)
from agentic_kernel.invariants import check, follows

from .contract import Contract
from .level import Level
from .reading import (
    CANCELLED,
    FAILURE,
    NOT_STARTED,
    PAUSED,
    RUNNING,
    SUCCESS,
    TERMINAL,
    Trace,
    show,
)
from .rules import broken, expect, refused

_AT = datetime(2026, 1, 2, 3, 4, 5, 6, UTC)
_SECOND = timedelta(seconds=1)
_FAULT = Failure("conformance/fault", "as asked", {"retry_after_ms": 7})
_ILLEGAL = "illegal"

_ENDED = dict.fromkeys(TERMINAL, None)
_TABLE: dict[type[Mutation], dict[TaskStatus, Any]] = {
    Dispatch: {NOT_STARTED: RUNNING, **dict.fromkeys((RUNNING, PAUSED, *TERMINAL), _ILLEGAL)},
    Pause: {NOT_STARTED: _ILLEGAL, RUNNING: PAUSED, PAUSED: None, **_ENDED},
    Resume: {NOT_STARTED: None, RUNNING: None, PAUSED: RUNNING, **_ENDED},
    Kill: {**dict.fromkeys((NOT_STARTED, RUNNING, PAUSED), CANCELLED), **_ENDED},
    Complete: {NOT_STARTED: _ILLEGAL, RUNNING: SUCCESS, PAUSED: _ILLEGAL, **_ENDED},
    Fail: {NOT_STARTED: _ILLEGAL, RUNNING: FAILURE, PAUSED: _ILLEGAL, **_ENDED},
}
"""The next status for each mutation and status; None is a no-op."""

_MUTATIONS: dict[str, Mutation] = {
    "dispatch": Dispatch(),
    "pause": Pause(),
    "resume": Resume(),
    "resume, extra": Resume("an extra"),
    "resume, empty extra": Resume(""),
    "kill": Kill(),
    "complete": Complete(None),
    "complete, result": Complete({"answer": [42]}),
    "fail": Fail(_FAULT),
}
_REACHED: dict[TaskStatus, tuple[Mutation, ...]] = {
    NOT_STARTED: (),
    RUNNING: (Dispatch(),),
    PAUSED: (Dispatch(), Pause()),
    SUCCESS: (Dispatch(), Complete(None)),
    FAILURE: (Dispatch(), Fail(_FAULT)),
    CANCELLED: (Dispatch(), Kill()),
}


class Kernel(Protocol):
    """The subject of the contract: a module, or any object, with these two functions."""

    def apply(self, task: Task, mutation: Mutation, at: datetime) -> Task:
        """See `agentic_kernel.apply`."""
        ...

    def annotate(self, task: Task, notes: dict[str, Any]) -> Task:
        """See `agentic_kernel.annotate`."""
        ...


class KernelContract(Contract):
    """Every mutation in every status, and every short history.

    Fixture: ``kernel``, a `Kernel`; the installed `agentic_kernel` unless it is supplied.
    """

    contract: ClassVar[str] = "KernelContract"
    fixtures = frozenset({"kernel"})

    @pytest.fixture
    def kernel(self) -> Any:
        """The functions under test."""
        return agentic_kernel

    @pytest.mark.rule("kit")
    def test_the_fixture_is_a_kernel(self, kernel: Kernel) -> None:
        """It has ``apply`` and ``annotate``, and ``apply`` reaches each status."""
        for name in ("apply", "annotate"):
            expect(callable(getattr(kernel, name, None)), "kit", f"`kernel` has no {name}")
        for status in TaskStatus:
            expect(_task(kernel, status).status is status, "kit", f"{status} was not reached")

    @pytest.mark.rule("table")
    @pytest.mark.parametrize("status", TaskStatus, ids=str)
    @pytest.mark.parametrize("mutation", _MUTATIONS.values(), ids=_MUTATIONS)
    def test_the_table(self, kernel: Kernel, status: TaskStatus, mutation: Mutation) -> None:
        """The status is the table's; a no-op gives the same object; an illegal one raises."""
        task = _task(kernel, status)
        before = copy.copy(task)
        wanted = _TABLE[type(mutation)][status]
        if wanted == _ILLEGAL:
            with refused("table", IllegalTransition, f"{mutation} on {status}") as refusal:
                kernel.apply(task, mutation, _AT + _SECOND)
            error = refusal.error
            named = (error.task_id, error.status, error.mutation)
            right = named == (task.id, status, mutation.verb)
            expect(right, "table", f"the refusal names {named!a}")
        else:
            found = kernel.apply(task, mutation, _AT + _SECOND)
            if wanted is None:
                expect(found is task, "table", f"{mutation} on {status} is a no-op: {show(found)}")
            else:
                expect(found.status is wanted, "table", f"{mutation} on {status}: {show(found)}")
        expect(task == before, "edges", f"{mutation} changed the Task itself: {show(task)}")

    @pytest.mark.rule("C3", "C7", "table")
    def test_every_short_history_is_legal(self, kernel: Kernel, level: Level) -> None:
        """Each snapshot is legal on its own, and legal after each earlier one."""
        start = Task.new(summary="s", instructions="i", runtime_kind="k", at=_AT)
        for sequence in itertools.product(_MUTATIONS.values(), repeat=level.depth):
            task, seen = start, [start]
            for step, mutation in enumerate(sequence):
                try:
                    task = kernel.apply(task, mutation, _AT + step * _SECOND)
                except IllegalTransition:
                    continue
                check(task)
                _expect_fields(task)
                for earlier in seen:
                    if not follows(earlier, task):
                        raise broken("C7", f"{sequence}: {show(task)} after {show(earlier)}")
                seen.append(task)

    @pytest.mark.rule("table")
    def test_an_extra_is_appended_by_the_resume_that_acts(self, kernel: Kernel) -> None:
        """Extras are appended in order, also an empty one; ``None`` and a no-op append nothing."""
        task, given = _task(kernel, PAUSED), list[str]()
        for extra in ("first", "", None, "first"):
            task = kernel.apply(task, Resume(extra), _AT)
            given += [] if extra is None else [extra]
            expect(list(task.supplements) == given, "table", f"after {given!a}: {show(task)}")
            task = kernel.apply(task, Resume("dropped"), _AT)
            expect(list(task.supplements) == given, "table", f"while it runs: {show(task)}")
            task = kernel.apply(task, Pause(), _AT)

    @pytest.mark.rule("table", "values")
    @pytest.mark.parametrize("result", [None, False, 0, "", [], {}], ids=repr)
    def test_presence_of_a_result_follows_the_status(self, kernel: Kernel, result: Any) -> None:
        """A falsy value is a result, and so is ``None``."""
        task = kernel.apply(_task(kernel, RUNNING), Complete(result), _AT)
        expect(task.status is SUCCESS, "table", show(task))
        same = (task.result == result and type(task.result) is not bool) or task.result is result
        expect(same, "values", f"completed with {result!a}, got {task.result!a}")

    @pytest.mark.rule("alias")
    def test_nothing_is_aliased_with_a_payload(self, kernel: Kernel) -> None:
        """The caller's later changes do not reach the Task; values that were read are immutable."""
        result, metadata = {"items": [1]}, {"acme/list": [1]}
        running = kernel.apply(
            Task.new(summary="", instructions="", runtime_kind="k", metadata=metadata, at=_AT),
            Dispatch(notes={"host/list": [1]}),
            _AT,
        )
        task = kernel.apply(running, Complete(result), _AT)
        result["items"].append(2)
        metadata["acme/list"].append(2)
        expect(task.result == {"items": [1]}, "alias", f"the caller changed {task.result!a}")
        expect(task.metadata["acme/list"] == [1], "alias", f"and {task.metadata!a}")
        lists: list[Any] = [task.result["items"], task.metadata["host/list"], task.supplements]
        for inner in lists:
            with refused("alias", (TypeError, AttributeError), "changing what was read"):
                inner.append(3)
        for again in (copy.deepcopy(task), pickle.loads(pickle.dumps(task))):  # noqa: S301
            expect(again == task, "values", f"a copy is another: {show(again)}")
        expect(json.dumps(task.result) == '{"items": [1]}', "values", "json.dumps(result)")

    @pytest.mark.rule("time")
    def test_stamps_are_in_utc_and_never_run_backwards(self, kernel: Kernel) -> None:
        """If the clock steps back, the latest stamp counts; ``resume`` keeps ``started_at``."""
        there = timezone(timedelta(hours=5, minutes=30))
        task = Task.new(summary="", instructions="", runtime_kind="k", at=_AT)
        task = kernel.apply(task, Dispatch(), (_AT + _SECOND).astimezone(there))
        expect(task.started_at == _AT + _SECOND, "time", show(task))
        zone = task.started_at.utcoffset() if task.started_at else None
        expect(zone == timedelta(0), "time", f"not in UTC: {show(task)}")
        task = kernel.apply(task, Pause(), _AT + 2 * _SECOND)
        task = kernel.apply(task, Resume("x"), _AT + 3 * _SECOND)
        expect(task.started_at == _AT + _SECOND, "time", f"resume moved the start: {show(task)}")
        early = kernel.apply(task, Kill(), _AT - 9 * _SECOND)
        expect(early.ended_at == task.started_at, "time", f"ended before its start: {show(early)}")
        unborn = _task(kernel, NOT_STARTED)
        early = kernel.apply(unborn, Dispatch(), _AT - 9 * _SECOND)
        expect(early.started_at == _AT, "time", f"started before it was made: {show(early)}")

    @pytest.mark.rule("time", "edges")
    @pytest.mark.parametrize("status", TaskStatus, ids=str)
    def test_a_naive_moment_is_refused(self, kernel: Kernel, status: TaskStatus) -> None:
        """The error names the argument ``at``."""
        with refused("time", InvalidValue, "a naive moment") as refusal:
            kernel.apply(_task(kernel, status), Kill(), datetime(2026, 1, 1))
        expect(refusal.error.path == "at", "edges", f"it names {refusal.error.path!a}")

    @pytest.mark.rule("C1")
    def test_the_mutators_are_closed(self, kernel: Kernel) -> None:
        """``apply`` refuses a custom mutation, also a subclass of one of the six."""

        class Revive(Mutation):
            verb = "revive"

        class Late(Kill):
            pass

        for foreign in (Revive(), Late(), None, "kill"):
            with refused("C1", InvalidValue, f"the mutation {foreign!r}"):
                kernel.apply(_task(kernel, RUNNING), foreign, _AT)  # type: ignore[arg-type]

    @pytest.mark.rule("notes")
    def test_notes_are_added_beside_the_input(self, kernel: Kernel) -> None:
        """``apply`` and ``annotate`` add and replace notes; no note is ever lost."""
        for note, task in self._noted(kernel):
            expect(task.metadata["acme/given"] == 1, "notes", f"input changed: {task.metadata!a}")
            expect(task.metadata["impl/note"] == note, "notes", f"{note}: {task.metadata!a}")

    def _noted(self, kernel: Kernel) -> Iterator[tuple[int, Task]]:
        task = Task.new(
            summary="", instructions="", runtime_kind="k", metadata={"acme/given": 1}, at=_AT
        )
        yield 1, (task := kernel.apply(task, Dispatch(notes={"impl/note": 1}), _AT))
        yield 2, (task := kernel.annotate(task, {"impl/note": 2}))
        yield 3, (task := kernel.apply(task, Pause(notes={"impl/note": 3, "impl/b": 0}), _AT))
        yield 3, (task := kernel.apply(task, Resume(), _AT))
        yield 4, kernel.apply(task, Complete(None, notes={"impl/note": 4}), _AT)
        yield 5, kernel.apply(task, Kill(notes={"impl/note": 5}), _AT)

    @pytest.mark.rule("notes", "edges")
    @pytest.mark.parametrize(
        "key", ["unscoped", "a/b/c", "/b", "a/", "", "a b/c", "a/b\n", "acme/given"], ids=ascii
    )
    def test_a_note_needs_a_scope_and_a_key_of_its_own(self, kernel: Kernel, key: str) -> None:
        """``annotate`` and ``apply`` refuse other keys and the input's; the Task is unchanged."""
        task = Task.new(
            summary="", instructions="", runtime_kind="k", metadata={"acme/given": 1}, at=_AT
        )
        task = kernel.apply(task, Dispatch(), _AT)
        with refused("notes", InvalidValue, f"the note {key!a}"):
            kernel.annotate(task, {key: 2})
        with refused("notes", InvalidValue, f"the note {key!a}"):
            kernel.apply(task, Complete(None, notes={key: 2}), _AT)
        expect(task.metadata == {"acme/given": 1}, "edges", f"refused, yet {task.metadata!a}")

    @pytest.mark.rule("edges")
    @pytest.mark.parametrize("status", TERMINAL, ids=str)
    def test_a_terminal_task_takes_no_note(self, kernel: Kernel, status: TaskStatus) -> None:
        """``annotate`` and a no-op mutation add no note, and return the same object."""
        task = _task(kernel, status)
        expect(kernel.annotate(task, {"impl/late": 1}) is task, "edges", "a note after the end")
        late = kernel.apply(task, Kill(notes={"impl/late": 1}), _AT)
        expect(late is task, "edges", f"a note with a no-op: {show(late)}")

    @pytest.mark.rule("C7")
    def test_the_reader_of_this_kit_agrees(self, kernel: Kernel) -> None:
        """A whole life of a Task passes the reading checks that the contracts share."""
        task = Task.new(summary="", instructions="", runtime_kind="k", at=_AT)
        trace = Trace(task)
        life = (Dispatch(), Pause(), Resume("x"), Pause(), Resume(), Complete([1]))
        for mutation in life:
            task = kernel.apply(task, mutation, _AT)
            trace.add(task)
        expect(len(trace.snapshots) == len(life), "C7", f"{len(trace.snapshots)} snapshots")


def _task(kernel: Kernel, status: TaskStatus) -> Task:
    task = Task.new(summary="s", instructions="i", runtime_kind="k", at=_AT)
    for mutation in _REACHED[status]:
        task = kernel.apply(task, mutation, _AT)
    return task


def _expect_fields(task: Task) -> None:
    """Check the field invariants, written from the rules and not through `check`."""
    status = task.status
    facts = {
        "result": status is SUCCESS or task.result is None,
        "failure": (status is FAILURE) == (task.failure is not None),
        "ended_at": (status in TERMINAL) == (task.ended_at is not None),
        "started_at": status in (NOT_STARTED, CANCELLED) or task.started_at is not None,
        "supplements": task.started_at is not None or not task.supplements,
    }
    wrong = [name for name, right in facts.items() if not right]
    expect(not wrong, "C3", f"{', '.join(wrong)}: {show(task)}")

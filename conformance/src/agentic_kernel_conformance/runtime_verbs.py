"""Tests of each verb on one Task: its effect, and the data that it must not change."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_kernel import (
    CannotStart,
    IllegalTransition,
    Task,
    TaskExists,
    TaskNotFound,
    TaskStatus,
)

from .reading import FAILURE, NOT_STARTED, PAUSED, RUNNING, SUCCESS, TERMINAL, show
from .rules import accepted, broken, expect, refused
from .system import SystemSuite
from .work import RefusingWork
from .workbench import FAULT, VERBS, Workbench, started

_FALSY: dict[str, Any] = {
    "None": None,
    "False": False,
    "zero": 0,
    "text": "",
    "list": [],
    "dict": {},
}
_STARTED = (RUNNING, PAUSED, *TERMINAL)


class RuntimeVerbs(SystemSuite):
    """Verb by verb: the transition, the refusal, the no-op."""

    @pytest.mark.rule("C6")
    async def test_dispatch_enters_running_before_it_returns(self, bench: Workbench) -> None:
        """A read right after ``dispatch`` shows a started Task with its input unchanged."""
        task = bench.work.run_until_stopped()
        await bench.dispatch(task)
        read = await bench.reader.get(task.id)
        expect(read.status is not NOT_STARTED, "C6", show(read))
        expect(read.started_at is not None, "C6", f"no started_at: {show(read)}")

    @pytest.mark.rule("edges")
    @pytest.mark.parametrize("ended", [False, True], ids=["running", "ended"])
    async def test_dispatch_of_a_stored_id_raises_task_exists(
        self, bench: Workbench, ended: bool
    ) -> None:
        """An id is used once; the Task that has it is unchanged."""
        task = bench.work.run_until_stopped()
        await bench.dispatch(task)
        if ended:
            await bench.kill(task.id)
        before = await bench.reader.get(task.id)
        other = Task.new(  # all but the summary is the same, so that the substrate accepts it
            id=task.id,
            summary="another",
            instructions=task.instructions,
            runtime_kind=task.runtime_kind,
            agent_name=task.agent_name,
            metadata=task.metadata,
        )
        for again in (task, other):
            with refused("edges", TaskExists, "dispatch of a stored id"):
                await bench.system.dispatch(again)
        after = await bench.reader.get(task.id)
        expect(after.summary == before.summary, "edges", f"{show(before)} became {show(after)}")
        if ended:
            expect(after == before, "edges", f"{show(before)} became {show(after)}")

    @pytest.mark.rule("edges")
    @pytest.mark.parametrize("status", _STARTED, ids=str)
    async def test_dispatch_of_a_started_task_is_illegal(
        self, bench: Workbench, status: TaskStatus
    ) -> None:
        """Only a ``not_started`` Task can be dispatched; a refused one is not stored."""
        task = started(bench.work.succeed(), status)
        with refused("edges", IllegalTransition, f"dispatch of a Task that is {status}"):
            await bench.system.dispatch(task)
        await _absent(bench, task)

    @pytest.mark.rule("edges")
    @pytest.mark.feature("refuses")
    async def test_a_refused_dispatch_leaves_no_trace(self, bench: Workbench) -> None:
        """``dispatch`` raises ``CannotStart`` with a reason, and stores no Task."""
        assert isinstance(bench.work, RefusingWork)
        task = bench.work.refused()
        with refused("edges", CannotStart, "what the work says is refused") as refusal:
            await bench.system.dispatch(task)
        expect(bool(refusal.error.reason), "edges", "a refusal without a reason")
        expect(task.status is NOT_STARTED, "edges", f"refused, but {show(task)}")
        await _absent(bench, task)

    @pytest.mark.rule("edges")
    @pytest.mark.parametrize("verb", VERBS)
    async def test_a_verb_on_an_unknown_id_raises_task_not_found(
        self, bench: Workbench, verb: str
    ) -> None:
        """The verb raises `TaskNotFound`, and stores no Task under the id."""
        task = bench.work.succeed()
        with refused("edges", TaskNotFound, f"{verb} on an unknown id"):
            await VERBS[verb](bench.system, task.id)
        await _absent(bench, task)

    @pytest.mark.rule("edges")
    @pytest.mark.parametrize("verb", VERBS)
    @pytest.mark.parametrize("end", TERMINAL, ids=str)
    async def test_a_verb_on_a_terminal_task_changes_nothing(
        self, bench: Workbench, end: TaskStatus, verb: str
    ) -> None:
        """Every verb is accepted and changes no field, whatever its payload."""
        task_id = await bench.dispatch_ended(end)
        before = await bench.reader.get(task_id)
        with accepted("edges", f"{verb} on a terminal Task"):
            await bench.within(VERBS[verb](bench.system, task_id))
        after = await bench.reader.get(task_id)
        expect(after == before, "edges", f"{verb} made {show(after)} of {show(before)}")

    @pytest.mark.rule("edges", "C7")
    async def test_the_end_by_itself_is_as_final_as_one_from_outside(
        self, bench: Workbench
    ) -> None:
        """No verb changes a Task that its substrate has ended."""
        for task in (bench.work.succeed(), bench.work.fail()):
            task_id = await bench.dispatch(task)
            before = await bench.reader.until(task_id, SUCCESS, FAILURE)
            for verb, act in VERBS.items():
                with accepted("edges", f"{verb} on a terminal Task"):
                    await bench.within(act(bench.system, task_id))
                after = await bench.reader.get(task_id)
                expect(after == before, "edges", f"{verb} made {show(after)} of {show(before)}")

    @pytest.mark.rule("edges")
    async def test_kill_ends_a_running_task_as_cancelled(self, bench: Workbench) -> None:
        """The Task ends in finite time, without a result or a Failure."""
        task_id = await bench.dispatch_running()
        await bench.kill(task_id)

    @pytest.mark.rule("C6", "values")
    @pytest.mark.parametrize("result", _FALSY.values(), ids=_FALSY)
    async def test_complete_from_outside_ends_in_success(
        self, bench: Workbench, result: Any
    ) -> None:
        """The next read has the result as given; a falsy value, also ``None``, is a result."""
        task_id = await bench.dispatch_running()
        await bench.within(bench.system.complete(task_id, result))
        read = await bench.reader.get(task_id)
        expect(read.status is SUCCESS, "C6", f"after complete returned: {show(read)}")
        same = read.result == result and type(read.result == result) is bool
        expect(same, "values", f"completed with {result!r}, read {read.result!r}")

    @pytest.mark.rule("C6", "values")
    async def test_fail_from_outside_ends_in_failure(self, bench: Workbench) -> None:
        """The next read has the Failure as given, with its metadata."""
        task_id = await bench.dispatch_running()
        await bench.within(bench.system.fail(task_id, FAULT))
        read = await bench.reader.get(task_id)
        expect(read.status is FAILURE, "C6", f"after fail returned: {show(read)}")
        expect(read.failure == FAULT, "values", f"failed with {FAULT}, read {read.failure}")

    @pytest.mark.rule("edges")
    async def test_resume_of_a_running_task_drops_the_extra(self, bench: Workbench) -> None:
        """The Task does not keep the extra for a later resume either."""
        task_id = await bench.dispatch_running()
        early = bench.extra("too early")
        await bench.within(bench.system.resume(task_id, early))
        read = await bench.reader.get(task_id)
        expect(not read.supplements, "edges", f"resumed while running: {show(read)}")
        if self.features.pauses:
            await bench.pause(task_id)
            await bench.within(bench.system.resume(task_id, bench.extra("in time")))
        ended = await bench.kill(task_id)
        expect(early not in ended.supplements, "edges", f"a dropped extra: {show(ended)}")

    @pytest.mark.rule("edges", "C7")
    async def test_pause_is_accepted_at_any_moment(self, bench: Workbench) -> None:
        """The Task succeeds, or pauses and then succeeds; also if the Runtime never pauses."""
        task_id = await bench.dispatch(bench.work.pass_safe_points())

        def settled(task: Task) -> bool:
            return task.status is not RUNNING

        await bench.within(bench.system.pause(task_id))
        read = await bench.reader.until_seen(task_id, settled, "paused or ended")
        if read.status is PAUSED:
            await bench.within(bench.system.resume(task_id))
            read = await bench.reader.until(task_id, SUCCESS)
        expect(read.status is SUCCESS, "edges", f"passed its safe points, then {show(read)}")

    @pytest.mark.rule("C1", "edges")
    @pytest.mark.parametrize("extra", [7, ["text"]], ids=["int", "list"])
    async def test_an_extra_that_is_no_text_is_refused(self, bench: Workbench, extra: Any) -> None:
        """The refused resume leaves no trace."""
        task_id = await bench.dispatch_running()
        before = await bench.reader.get(task_id)
        with refused("edges", (ValueError, TypeError), f"the extra {extra!a}"):
            await bench.system.resume(task_id, extra)
        after = await bench.reader.get(task_id)
        expect(after.supplements == before.supplements, "edges", f"refused, yet {show(after)}")


async def _absent(bench: Workbench, task: Task) -> None:
    try:
        read = await bench.system.get(task.id)
    except TaskNotFound:
        return
    raise broken("edges", f"the verb was refused, yet {show(read)} is stored")

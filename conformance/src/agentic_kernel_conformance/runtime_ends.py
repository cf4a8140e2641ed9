"""Tests of ends: status, data and stamps; and that Tasks do not affect each other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentic_kernel import CannotStart, Task, TaskExists, TaskStatus

from .reading import CANCELLED, FAILURE, RUNNING, SUCCESS, show
from .rules import expect, in_time, refused
from .system import SystemSuite
from .work import OutputWork, ResultWork
from .workbench import FAULT, Workbench

_READS = 1_000


class RuntimeEnds(SystemSuite):
    """Ends, notes, stamps and aliasing; and clause 1: Tasks do not affect each other."""

    @pytest.mark.rule("edges", "values")
    async def test_work_that_succeeds_ends_in_success(self, bench: Workbench) -> None:
        """The Task has the expected result, if the `Work` knows it in advance."""
        task = bench.work.succeed()
        read = await bench.reader.until(await bench.dispatch(task), SUCCESS)
        if isinstance(bench.work, ResultWork):
            wanted = bench.work.expected_result(task)
            expect(read.result == wanted, "values", f"{wanted!a} was expected: {show(read)}")

    @pytest.mark.rule("edges")
    async def test_work_that_fails_ends_in_failure(self, bench: Workbench) -> None:
        """A Failure is a value on the Task, with a code and a message."""
        read = await bench.reader.until(await bench.dispatch(bench.work.fail()), FAILURE)
        assert read.failure is not None
        named = bool(read.failure.code.strip() and read.failure.message.strip())
        expect(named, "edges", f"a failure that says nothing: {read.failure}")

    @pytest.mark.rule("notes", "alias")
    async def test_input_stays_as_it_was_given(self, bench: Workbench) -> None:
        """After the end the input is unchanged, whatever notes the implementation added."""
        inner: list[object] = ["kept"]
        given = {"acme/tags": inner, "acme/nested": {"deep": [1, {"er": None}]}}
        made = bench.work.run_until_stopped()
        task = Task.new(
            id=made.id,
            summary="a title, kept",
            instructions=made.instructions,
            runtime_kind=made.runtime_kind,
            agent_name="acme/agent",
            metadata={**made.metadata, **given},
        )
        try:
            await bench.dispatch(task)
        except CannotStart:  # A Runtime without Agents refuses a Task that names one.
            task = replace(task, agent_name=None)
            await bench.dispatch(task)
        inner.append("added by the caller after dispatch")
        await bench.kill(task.id)
        read = await bench.reader.get(task.id)
        for name in ("summary", "instructions", "runtime_kind", "agent_name", "created_at"):
            same = getattr(read, name) == getattr(task, name)
            expect(same, "notes", f"{name} was {getattr(task, name)!a}: {getattr(read, name)!a}")
        for key, value in task.metadata.items():
            expect(read.metadata[key] == value, "notes", f"{key}: {read.metadata[key]!a}")
        expect(read.metadata["acme/tags"] == ["kept"], "alias", f"{read.metadata['acme/tags']!a}")

    @pytest.mark.rule("alias")
    async def test_a_result_is_not_aliased_with_the_callers_value(self, bench: Workbench) -> None:
        """A later change of the caller's own list does not change the Task's result."""
        task_id = await bench.dispatch_running()
        result = {"items": [1, 2]}
        await bench.within(bench.system.complete(task_id, result))
        result["items"].append(3)
        read = await bench.reader.get(task_id)
        expect(read.result == {"items": [1, 2]}, "alias", f"the caller changed it: {show(read)}")
        with refused("alias", TypeError, "changing a result that was read"):
            read.result["items"].append(4)
        again = await bench.another_reader().get(task_id)
        expect(again.result == {"items": [1, 2]}, "alias", f"a reader changed it: {show(again)}")

    @pytest.mark.rule("edges", "C3")
    @pytest.mark.parametrize("end", [SUCCESS, FAILURE, CANCELLED], ids=str)
    async def test_stamps_come_with_their_transition(
        self, bench: Workbench, end: TaskStatus
    ) -> None:
        """``ended_at`` comes together with the status, and later reads return the same."""
        task_id = await bench.dispatch_ended(end)
        first = await bench.reader.get(task_id)
        for _ in range(20):
            read = await bench.reader.get(task_id)
            expect(read == first, "edges", f"an end that still changes: {show(read)}")
        expect(first.ended_at is not None, "C3", show(first))

    @pytest.mark.feature("keeps_partial_output")
    @pytest.mark.rule("notes")
    async def test_a_killed_task_keeps_its_partial_output(self, bench: Workbench) -> None:
        """The output is in a note ``<impl>/partial_output`` that came with the end."""
        assert isinstance(bench.work, OutputWork)
        task = bench.work.run_until_stopped()
        await bench.dispatch(task)
        await bench.within(bench.work.until_output(task))
        read = await bench.kill(task.id)
        kept = [read.metadata[key] for key in read.noted if key.endswith("/partial_output")]
        expect(len(kept) == 1 and bool(kept[0]), "notes", f"noted {sorted(read.noted)}: {kept!a}")

    @pytest.mark.rule("clause1")
    async def test_tasks_that_hang_delay_no_other(self, bench: Workbench) -> None:
        """While three Tasks hang, a fourth one succeeds, and the three are still running."""
        hanging = [await bench.dispatch_running() for _ in range(3)]
        done = await bench.dispatch(bench.work.succeed())
        await bench.reader.until(done, SUCCESS, rule="clause1")
        for task_id in hanging:
            read = await bench.reader.get(task_id)
            expect(read.status is RUNNING, "clause1", f"beside another's end: {show(read)}")

    @pytest.mark.rule("clause1")
    async def test_the_end_of_one_task_changes_no_other(self, bench: Workbench) -> None:
        """A failure, a kill and a result from outside each leave another Task running."""
        bystander = await bench.dispatch_running()
        failing = await bench.dispatch(bench.work.fail())
        await bench.reader.until(failing, FAILURE)
        for end in (SUCCESS, FAILURE, CANCELLED):
            await bench.dispatch_ended(end)
        read = await bench.reader.get(bystander)
        expect(read.status is RUNNING, "clause1", f"after others ended: {show(read)}")
        expect(not read.supplements and read.failure is None, "clause1", show(read))
        await bench.within(bench.system.complete(bystander, "mine"))
        read = await bench.reader.get(bystander)
        expect(read.result == "mine", "clause1", f"completed with 'mine': {show(read)}")

    @pytest.mark.rule("C4")
    async def test_readers_do_not_wait_for_a_task_that_hangs(self, bench: Workbench) -> None:
        """A thousand reads of a running Task return while the Task still runs."""
        task_id = await bench.dispatch_running()
        async with in_time("C4", bench.patience, f"{_READS} reads"):
            for _ in range(_READS):
                await bench.reader.get(task_id)
        read = await bench.reader.get(task_id)
        expect(read.status is RUNNING, "C4", show(read))

    @pytest.mark.rule("edges")
    async def test_a_failed_verb_does_not_block_the_next(self, bench: Workbench) -> None:
        """A verb that raises releases all that it holds, such as a lock."""
        task = bench.work.run_until_stopped()
        await bench.dispatch(task)
        for _ in range(3):
            with refused("edges", TaskExists, "dispatch of a stored id"):
                await bench.within(bench.system.dispatch(task))
            with refused("edges", ValueError, "a result that is not JSON"):
                await bench.within(bench.system.complete(task.id, {"not JSON": object()}))
        await bench.within(bench.system.fail(task.id, FAULT))
        read = await bench.reader.get(task.id)
        expect(read.failure == FAULT, "edges", f"after verbs that raised: {show(read)}")

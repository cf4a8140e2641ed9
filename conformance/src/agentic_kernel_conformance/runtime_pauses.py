"""Tests of pause and resume, for Runtimes that declare ``pauses``."""

from __future__ import annotations

import asyncio

import pytest

from agentic_kernel import IllegalTransition, Task

from .reading import PAUSED, RUNNING, SUCCESS, show
from .rules import expect, refused
from .system import SystemSuite
from .workbench import FAULT, Workbench


class RuntimePauses(SystemSuite):
    """A pause takes effect at a safe point; a resume appends its extra in the same commit."""

    @pytest.mark.feature("pauses")
    @pytest.mark.rule("edges")
    async def test_pause_takes_effect_at_a_safe_point(self, bench: Workbench) -> None:
        """A running Task that reaches safe points becomes ``paused`` and stays ``paused``."""
        task_id = await bench.dispatch_running()
        paused = await bench.pause(task_id)
        expect(paused.ended_at is None, "edges", show(paused))
        await bench.within(bench.system.pause(task_id))
        again = await bench.reader.get(task_id)
        expect(again == paused, "edges", f"a second pause made {show(again)} of {show(paused)}")

    @pytest.mark.feature("pauses")
    @pytest.mark.rule("C6", "time")
    async def test_resume_returns_once_the_task_runs_again(self, bench: Workbench) -> None:
        """``started_at`` is unchanged, and a resume without an extra appends no supplement."""
        task_id = await bench.dispatch_paused()
        paused = await bench.reader.get(task_id)
        await bench.within(bench.system.resume(task_id))
        read = await bench.reader.get(task_id)
        expect(read.status is RUNNING, "C6", f"after resume returned: {show(read)}")
        expect(read.started_at == paused.started_at, "time", f"{show(paused)}, then {show(read)}")
        expect(not read.supplements, "edges", f"resumed without an extra: {show(read)}")

    @pytest.mark.feature("pauses")
    @pytest.mark.rule("C6", "edges")
    async def test_extras_are_appended_in_order_the_empty_one_too(self, bench: Workbench) -> None:
        """Each resume of a paused Task appends its extra, once, at the end."""
        task_id = await bench.dispatch_running()
        given: list[str] = []
        extras: tuple[str | None, ...] = ("first", "", None, "first", "line\nline", "Grüße 👋")
        if bench.hears:  # such Tasks may not go on with any other text
            first = bench.extra("first")
            extras = (first, None, first, bench.extra("second"), bench.extra("third"))
        for extra in extras:
            await bench.pause(task_id)
            await bench.within(bench.system.resume(task_id, extra))
            if extra is not None:
                given.append(extra)
            read = await bench.reader.get(task_id)
            expect(list(read.supplements) == given, "C6", f"after {given!a}: {show(read)}")

    @pytest.mark.feature("pauses")
    @pytest.mark.rule("C3")
    async def test_the_extra_and_the_transition_are_seen_together(self, bench: Workbench) -> None:
        """No observer sees a paused Task with the extra, or a resumed Task without it."""
        task_id = await bench.dispatch_paused()
        observer = bench.another_reader()
        await observer.get(task_id)
        watching = asyncio.create_task(observer.watch(task_id))
        extra = bench.extra("the extra")
        await bench.within(bench.system.resume(task_id, extra))
        await bench.kill(task_id)
        await bench.within(watching)
        for task in observer.trace(task_id).snapshots:
            has_it = list(task.supplements) == [extra]
            if task.status is PAUSED:
                expect(not task.supplements, "C3", f"the extra before the transition: {show(task)}")
            else:
                expect(has_it, "C3", f"the transition without its extra: {show(task)}")

    @pytest.mark.feature("pauses")
    @pytest.mark.rule("table")
    async def test_complete_and_fail_are_illegal_while_paused(self, bench: Workbench) -> None:
        """Both raise `IllegalTransition`, and the Task is unchanged."""
        task_id = await bench.dispatch_paused()
        paused = await bench.reader.get(task_id)
        with refused("table", IllegalTransition, "complete on a paused Task"):
            await bench.system.complete(task_id, None)
        with refused("table", IllegalTransition, "fail on a paused Task"):
            await bench.system.fail(task_id, FAULT)
        after = await bench.reader.get(task_id)
        expect(after == paused, "edges", f"a refused verb made {show(after)} of {show(paused)}")

    @pytest.mark.feature("pauses")
    @pytest.mark.rule("table")
    async def test_kill_ends_a_paused_task(self, bench: Workbench) -> None:
        """The kill waits for no safe point, because no run is left to reach one."""
        task_id = await bench.dispatch_paused()
        await bench.kill(task_id)

    @pytest.mark.feature("pauses")
    @pytest.mark.rule("edges")
    async def test_a_resumed_task_runs_on_to_its_end(self, bench: Workbench) -> None:
        """A Task that was paused between safe points ends in ``success``, like any other."""
        task_id = await bench.dispatch(bench.work.pass_safe_points())

        def settled(task: Task) -> bool:
            return task.status is not RUNNING

        await bench.within(bench.system.pause(task_id))
        read = await bench.reader.until_seen(task_id, settled, "paused or ended")
        if read.status is PAUSED:
            await bench.within(bench.system.resume(task_id, extra := bench.extra("go on")))
            read = await bench.reader.until(task_id, SUCCESS)
            expect(list(read.supplements) == [extra], "C7", f"resumed, then {show(read)}")

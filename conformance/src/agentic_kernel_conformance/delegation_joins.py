"""Tests of waiting: `join` returns when a child ends or asks people, and not earlier."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from agentic_kernel import Failure, Task, TaskStatus
from agentic_kernel_engine.waiting import asked, digests

from .delegation_family import ASK, ASKED
from .delegation_household import Household, beside, turns
from .delegation_suite import DelegationSuite
from .rules import broken, expect, in_time
from .unwinding import give_up

_ENDS: Final = (TaskStatus.SUCCESS, TaskStatus.FAILURE, TaskStatus.CANCELLED)


class DelegationJoins(DelegationSuite):
    """The tests of `join`."""

    @pytest.mark.rule("join")
    @pytest.mark.parametrize("end", _ENDS)
    @pytest.mark.parametrize("when", ["before", "meanwhile"])
    async def test_waiting_ends_with_the_child(
        self, household: Household, end: TaskStatus, when: str
    ) -> None:
        """`join` returns at every kind of end, with the snapshot that a Query reads."""
        parent = await household.parent()
        child = await household.started(parent)
        waiting = household.delegation.join(parent.job, child.id)
        if when == "before":
            await _end(household, child.id, end)
            found = await household.done("join", waiting, "waiting for what has ended")
        else:
            async with beside(household.done("join", waiting, "waiting for a child")) as joining:
                await turns()
                await _expect_waiting(joining)
                await _end(household, child.id, end)
                found = await joining
        read = await household.home.get(child.id)
        expect(found == read, "join", f"{read!a:.300} was told as {found!a:.300}")

    @pytest.mark.rule("join")
    @pytest.mark.feature("pauses")
    @pytest.mark.parametrize("when", ["before", "meanwhile"])
    async def test_a_pause_without_a_question_is_waited_out(
        self, household: Household, when: str
    ) -> None:
        """`join` goes on waiting: another caller paused the child, and will resume it."""
        parent = await household.parent()
        child = await household.started(parent)
        if when == "before":
            await _pause(household, child.id)
        waiting = household.delegation.join(parent.job, child.id)
        async with beside(household.done("join", waiting, "waiting for a child")) as joining:
            await turns()
            if when == "meanwhile":
                await _pause(household, child.id)
                await turns()
            await _expect_waiting(joining)
            await household.home.resume(child.id)
            await household.until("join", child.id, TaskStatus.RUNNING)
            await household.home.complete(child.id, "done")
            found = await joining
        expect(found.result == "done", "join", f"it gave {found!a:.300}")

    @pytest.mark.rule("join")
    @pytest.mark.feature("asks")
    async def test_waiting_ends_when_the_child_asks_people(self, household: Household) -> None:
        """`join` returns the snapshot with the requests, and does so again while the child asks."""
        parent = await household.parent()
        child = await household.started(parent, ASK)
        for _ in range(2):
            waiting = household.delegation.join(parent.job, child.id)
            found = await household.done("join", waiting, "waiting for a child that asks")
            what = asked(found)
            expect(what is not None, "join", f"a child that asks was told as {found!a:.300}")
            opened = digests(what or {})
            expect(opened == [*ASKED[0]], "join", f"asked for {ASKED[0]}, it is told as {opened}")

    @pytest.mark.rule("join")
    async def test_a_child_that_is_waited_for_no_longer_goes_on(self, household: Household) -> None:
        """A cancelled `join` leaves the child alone; the parent may wait again later."""
        parent = await household.parent()
        child = await household.started(parent)
        waiting = household.delegation.join(parent.job, child.id)
        async with in_time("join", household.patience, "the end of waiting"), beside(waiting):
            await turns()
        await turns()
        running = await household.home.get(child.id)
        seen = f"it is waited for no longer, and is {running.status}"
        expect(running.status is TaskStatus.RUNNING, "join", seen)
        await household.home.complete(child.id, "done")
        again = household.make().join(parent.job, child.id)
        found = await household.done("join", again, "waiting for it again")
        expect(found.result == "done", "join", f"waited for again, it gave {found!a:.300}")

    @pytest.mark.rule("apart")
    async def test_children_that_are_waited_for_side_by_side_do_not_mix(
        self, household: Household
    ) -> None:
        """Each `join` returns the end of its own child, in any order of the ends."""
        parent = await household.parent()
        children = [(await household.started(parent)).id for _ in range(3)]

        async def wait(child: str) -> Task:
            waiting = household.delegation.join(parent.job, child)
            return await household.done("apart", waiting, "waiting beside others")

        async def waited_for() -> list[Task]:
            return await asyncio.gather(*map(wait, children))

        async with beside(waited_for()) as joining:
            await turns()
            for child in reversed(children):
                await household.home.complete(child, f"of {child}")
            gave = await joining
        for child, found in zip(children, gave, strict=True):
            right = (found.id, found.result) == (child, f"of {child}")
            expect(right, "apart", f"waiting for {child} gave {found!a:.300}")

    @pytest.mark.rule("unwind")
    async def test_waiting_that_is_given_up_leaves_nothing_running(
        self, household: Household
    ) -> None:
        """`join` can be cancelled at any await."""
        parent = await household.parent()
        child = await household.started(parent)

        def wait() -> Any:
            return household.delegation.join(parent.job, child.id)

        await give_up(wait, household.patience, "waiting for a child")


async def _expect_waiting(joining: asyncio.Task[Task]) -> None:
    if joining.done():
        early = await joining
        raise broken("join", f"it waited no longer for a child that is {early.status}")


async def _end(household: Household, child: str, end: TaskStatus) -> None:
    if end is TaskStatus.SUCCESS:
        await household.home.complete(child, {"done": [1]})
    elif end is TaskStatus.FAILURE:
        await household.home.fail(child, Failure("kit/failed", "it was to fail"))
    else:
        await household.home.kill(child)


async def _pause(household: Household, child: str) -> None:
    await household.home.pause(child)
    await household.until("join", child, TaskStatus.PAUSED)

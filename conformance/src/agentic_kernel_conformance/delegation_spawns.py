"""Tests of children: started once, known to their parent alone, and ended with their parent."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from agentic_kernel import CannotStart, Task, TaskExists, TaskNotFound, TaskStatus
from agentic_kernel.ids import new_id
from agentic_kernel_engine import Job
from agentic_kernel_engine.seams import child_of

from .delegation_family import REFUSE, decision
from .delegation_household import Household, turns
from .delegation_suite import DelegationSuite
from .rules import expect, in_time, refused
from .unwinding import TURNS, given_up

_AT_ONCE: Final = 4
_GIVEN: Final = ("summary", "instructions", "agent_name", "runtime_kind", "created_at")


class DelegationSpawns(DelegationSuite):
    """The tests of `spawn` and `cancel`, and of which parent knows which child."""

    @pytest.mark.rule("children")
    async def test_a_child_is_started_as_it_was_admitted(self, household: Household) -> None:
        """The started child has the fields and the metadata of the admitted one."""
        child = await household.started(await household.parent())
        found = await household.until("children", child.id, TaskStatus.RUNNING)
        for name in _GIVEN:
            was, now = getattr(child, name), getattr(found, name)
            expect(now == was, "children", f"its {name} was {was!a:.100}, and is {now!a:.100}")
        lost = {key for key, was in child.metadata.items() if found.metadata.get(key) != was}
        expect(not lost, "children", f"its metadata came without {sorted(lost)}")

    @pytest.mark.rule("children")
    @pytest.mark.parametrize("whose", ["the same", "another"])
    @pytest.mark.parametrize("state", ["running", "ended"])
    async def test_a_child_is_started_once(
        self, household: Household, whose: str, state: str
    ) -> None:
        """A repeated `spawn` changes nothing, also in another process or after the child ended."""
        parent = await household.parent()
        child = await household.started(parent)
        before = await household.until("children", child.id, TaskStatus.RUNNING)
        if state == "ended":
            await household.home.complete(child.id, "done")
            before = await household.home.get(child.id)
        again = household.delegation if whose == "the same" else household.make()
        for _ in range(2):
            doing = f"starting it again by {whose} delegation"
            await household.done("children", again.spawn(parent.job, child), doing)
        await household.expect_same("children", before)
        times = household.family.started.count(child.id)
        expect(times <= 1, "children", f"the child was begun {times} times")

    @pytest.mark.rule("children")
    async def test_of_several_that_start_a_child_at_once_one_does(
        self, household: Household
    ) -> None:
        """The child begins once, and every call of `spawn` succeeds."""
        parent = await household.parent()
        child = household.admitted(parent)
        calls = [household.make().spawn(parent.job, child) for _ in range(_AT_ONCE)]
        doing = f"starting one child {_AT_ONCE} times at once"
        await household.done("children", asyncio.gather(*calls), doing)
        await household.until("children", child.id, TaskStatus.RUNNING)
        times = household.family.started.count(child.id)
        expect(times <= 1, "children", f"the child was begun {times} times")

    @pytest.mark.rule("children")
    @pytest.mark.parametrize("whose", ["another", "nobody"])
    async def test_an_id_of_somebody_elses_task_is_taken(
        self, household: Household, whose: str
    ) -> None:
        """`spawn` raises `TaskExists`, and the Task with the id goes on as before."""
        parent = await household.parent()
        theirs = await household.stranger(whose)
        mine = child_of(
            parent.job.task, id=theirs.id, summary="", instructions=household.errand,
            kind=theirs.runtime_kind, agent=household.agents[1],
        )  # fmt: skip
        doing = f"starting a child with the id of a Task of {whose}"
        async with in_time("children", household.patience, doing):
            with refused("children", TaskExists, doing):
                await household.delegation.spawn(parent.job, mine)
        await household.expect_same("children", theirs)

    @pytest.mark.rule("children")
    @pytest.mark.feature("refuses")
    async def test_a_child_that_cannot_be_started_is_not_there(self, household: Household) -> None:
        """`spawn` raises `CannotStart` each time, and the child is never stored."""
        parent = await household.parent()
        child = household.admitted(parent, REFUSE)
        for _ in range(2):
            doing = "starting what the substrate refuses"
            async with in_time("children", household.patience, doing):
                with refused("children", CannotStart, doing):
                    await household.delegation.spawn(parent.job, child)
            with refused("children", TaskNotFound, "reading what was refused"):
                await household.home.get(child.id)

    @pytest.mark.rule("children")
    @pytest.mark.parametrize("verb", ["join", "tell", "cancel"])
    @pytest.mark.parametrize("state", ["running", "ended"])
    @pytest.mark.parametrize("whose", ["another", "nobody"])
    async def test_somebody_elses_child_is_unknown(
        self, household: Household, verb: str, state: str, whose: str
    ) -> None:
        """The verb raises `TaskNotFound`, and the Task stays as it is."""
        parent = await household.parent()
        theirs = await household.stranger(whose)
        if state == "ended":
            await household.home.complete(theirs.id, "a secret")
            theirs = await household.home.get(theirs.id)
        doing = f"`{verb}` of a Task of {whose} that is {state}"
        await self._expect_unknown(household, parent.job, verb, theirs.id, doing)
        await household.expect_same("children", theirs)

    @pytest.mark.rule("children")
    @pytest.mark.parametrize("verb", ["join", "tell", "cancel"])
    async def test_what_was_never_started_is_unknown(self, household: Household, verb: str) -> None:
        """The verb raises `TaskNotFound`, also if the parent has other children."""
        parent = await household.parent()
        await household.started(parent)
        doing = f"`{verb}` of what is not there"
        await self._expect_unknown(household, parent.job, verb, new_id(), doing)

    @pytest.mark.rule("children")
    @pytest.mark.parametrize("state", ["running", "ended"])
    async def test_a_child_is_cancelled_once(self, household: Household, state: str) -> None:
        """A second `cancel` changes nothing, and a child that has ended stays as it is."""
        parent = await household.parent()
        child = await household.started(parent)
        wanted = TaskStatus.CANCELLED
        if state == "ended":
            await household.home.complete(child.id, "done")
            wanted = TaskStatus.SUCCESS
        cancelling = household.delegation.cancel(parent.job, child.id)
        await household.done("children", cancelling, "cancelling a child")
        first = await household.until("children", child.id, wanted)
        for each in (household.delegation, household.make()):
            again = each.cancel(parent.job, child.id)
            await household.done("children", again, "cancelling what has ended")
        await household.expect_same("children", first)

    @pytest.mark.rule("children")
    async def test_a_kill_of_the_parent_ends_the_child_that_it_waits_for(
        self, household: Household
    ) -> None:
        """The kill ends the child on any Runtime, and no child of another parent."""
        parent = await household.parent()
        child = await household.started(parent)
        theirs = await household.stranger("another")
        waits = asyncio.Event()

        async def wait(job: Job) -> Task:
            waits.set()
            return await household.delegation.join(job, child.id)

        parent.wait_for(wait)
        await waits.wait()
        await turns()
        await household.host.kill(parent.task.id)
        await household.until("children", child.id, TaskStatus.CANCELLED)
        await household.expect_same("children", theirs)

    @pytest.mark.rule("children", "unwind")
    @pytest.mark.parametrize("turns", TURNS)
    async def test_a_start_that_is_given_up_can_be_made_again(
        self, household: Household, turns: int
    ) -> None:
        """A parent that was paused while it started a child starts the same child again."""
        parent = await household.parent()
        child = household.admitted(parent)
        async with in_time("unwind", household.patience, "a start that was given up"):
            await given_up(household.delegation.spawn(parent.job, child), turns)
        one = household.delegation if turns % 2 else household.make()
        await household.done("children", one.spawn(parent.job, child), "starting a child again")
        await household.until("children", child.id, TaskStatus.RUNNING)
        times = household.family.started.count(child.id)
        expect(times <= 1, "children", f"the child was begun {times} times")

    @pytest.mark.rule("children", "unwind")
    @pytest.mark.parametrize("turns", TURNS)
    async def test_an_end_that_is_given_up_can_be_made_again(
        self, household: Household, turns: int
    ) -> None:
        """A cancelled `cancel` has ended the child or not; made again, the child has ended."""
        parent = await household.parent()
        child = await household.started(parent)
        async with in_time("unwind", household.patience, "a `cancel` that was given up"):
            await given_up(household.delegation.cancel(parent.job, child.id), turns)
        again = household.make().cancel(parent.job, child.id)
        await household.done("children", again, "cancelling a child again")
        await household.until("children", child.id, TaskStatus.CANCELLED)

    @pytest.mark.rule("children")
    async def test_a_child_that_was_not_waited_for_ends_with_its_parent(
        self, household: Household
    ) -> None:
        """By the parent's Host, or by ``on_killed``, which may be called again; no other child."""
        parent = await household.parent()
        child = await household.started(parent)
        theirs = await household.stranger("another")
        await household.host.kill(parent.task.id)
        for each in (household.delegation, household.make()):
            ends: Any = getattr(each, "on_killed", None)
            if ends is not None:
                doing = "ending the child of a killed parent"
                await household.done("children", ends(parent.job.task, child.id), doing)
                await household.until("children", child.id, TaskStatus.CANCELLED)
        await household.expect_same("children", theirs)

    async def _expect_unknown(
        self, household: Household, job: Job, verb: str, id: str, doing: str
    ) -> None:
        given: list[Any] = [[decision("one")]] if verb == "tell" else []
        async with in_time("children", household.patience, doing):
            with refused("children", TaskNotFound, doing):
                await getattr(household.delegation, verb)(job, id, *given)

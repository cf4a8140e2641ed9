"""Tests of `tell`: a parent hands the decisions of people to the child that asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine.waiting import asked, digests

from .delegation_family import ASK, ASKED, Parent, decision
from .delegation_household import Household, turns
from .delegation_suite import DelegationSuite
from .rules import expect

Decisions = Sequence[Mapping[str, Any]]

_FIRST, _SECOND = [[decision(digest) for digest in asks] for asks in ASKED]


class DelegationTells(DelegationSuite):
    """The tests of `tell`."""

    @pytest.mark.rule("tell")
    @pytest.mark.feature("asks")
    async def test_all_decisions_are_there_before_the_child_goes_on(
        self, household: Household
    ) -> None:
        """The child gets the decisions unchanged, goes on, and asks for the next ones."""
        parent = await household.parent()
        child = await household.started(parent, ASK)
        for decisions, then in ((_FIRST, ASKED[1]), (_SECOND, ())):
            await self._asked(household, parent, child)
            telling = household.delegation.tell(parent.job, child.id, decisions)
            await household.done("tell", telling, "telling a child that asks")
            found = await self._joined(household, parent, child, decisions)
            opened = tuple(digests(asked(found) or {}))
            told = [each["digest"] for each in decisions]
            seen = f"told {told}, it is {found.status} and asks for {opened}, and not for {then}"
            expect(opened == then, "tell", seen)
        found = await household.home.get(child.id)
        expect(found.result == [*_FIRST, *_SECOND], "tell", f"it was told {found.result!a}")

    @pytest.mark.rule("tell")
    @pytest.mark.feature("asks")
    async def test_a_child_may_be_told_again(self, household: Household) -> None:
        """As after a crash: while the child asks for the next decisions, and after its end."""
        parent = await household.parent()
        child = await household.started(parent, ASK)
        for decisions in (_FIRST, _SECOND):
            await self._asked(household, parent, child)
            for each in (household.delegation, household.delegation, household.make()):
                telling = each.tell(parent.job, child.id, decisions)
                await household.done("tell", telling, "telling it again")
                await self._joined(household, parent, child, decisions)
        found = await self._joined(household, parent, child, _SECOND)
        right = (found.status, found.result) == (TaskStatus.SUCCESS, [*_FIRST, *_SECOND])
        expect(right, "tell", f"told all of it three times, it is {found!a:.300}")

    @pytest.mark.rule("tell")
    @pytest.mark.parametrize("end", ["complete", "kill"])
    async def test_a_child_that_has_ended_is_told_nothing(
        self, household: Household, end: str
    ) -> None:
        """`tell` raises nothing, and the child stays as it is."""
        parent = await household.parent()
        child = await household.started(parent)
        if end == "complete":
            await household.home.complete(child.id, "done")
        else:
            await household.home.kill(child.id)
        before = await household.home.get(child.id)
        for decisions in (_FIRST, _FIRST[:1]):
            telling = household.delegation.tell(parent.job, child.id, decisions)
            await household.done("tell", telling, "telling a child that has ended")
        await turns()
        await household.expect_same("tell", before)

    async def _asked(self, household: Household, parent: Parent, child: Task) -> None:
        found = await self._joined(household, parent, child, [])
        expect(asked(found) is not None, "tell", f"a child that was to ask is {found!a:.300}")

    async def _joined(
        self, household: Household, parent: Parent, child: Task, decisions: Decisions
    ) -> Task:
        """Wait until the child asks or has ended, and return its snapshot."""
        waiting = household.delegation.join(parent.job, child.id)
        told = [each["digest"] for each in decisions]
        doing = f"waiting for a child that was told {told}"
        return await household.done("tell", waiting, doing)

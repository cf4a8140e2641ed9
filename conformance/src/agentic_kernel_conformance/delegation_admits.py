"""Tests of admission: `admit` decides which child a parent may have, before any write."""

from __future__ import annotations

import copy
import inspect
from typing import Final

import pytest

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine.seams import (
    DEPTH,
    LINEAGE,
    PARENT,
    Delegation,
    DelegationRefused,
    child_of,
)

from .delegation_family import KIND
from .delegation_household import Agents, Household, Make
from .delegation_suite import DelegationSuite
from .rules import broken, expect

_AGENTS: Final = (None, "kit/one", "kit/two", "kit/three")
_PLACE: Final = (DEPTH, PARENT, LINEAGE)


class DelegationAdmits(DelegationSuite):
    """The tests of `admit`."""

    @pytest.mark.rule("admit")
    def test_the_same_two_tasks_get_the_same_decision(self, make: Make, errand: str) -> None:
        """The decision is the same in every process and in every order, as after a crash."""
        one, other = make(), make()
        told = [(pair, _decided(one, *pair)) for pair in _pairs(errand)]
        for (parent, child), first in (*told, *reversed(told)):
            for delegation in (one, other):
                again = _decided(delegation, copy.deepcopy(parent), copy.deepcopy(child))
                who = f"{child.agent_name} below {parent.agent_name}"
                seen = f"{who} was {_told(first)}, and then {_told(again)}"
                expect(again == first, "admit", seen)

    @pytest.mark.rule("admit")
    def test_a_child_keeps_its_id_and_its_place(self, make: Make, errand: str) -> None:
        """The id is on record before the child starts, and the depth bounds delegation."""
        delegation = make()
        for parent, child in _pairs(errand):
            made = _decided(delegation, parent, child)
            if isinstance(made, str):
                continue
            expect(made.id == child.id, "admit", f"child {child.id!a} was admitted as {made.id!a}")
            for key in _PLACE:
                was, now = child.metadata[key], made.metadata.get(key)
                expect(now == was, "admit", f"its {key} was {was!a}, and is {now!a}")
            expect(made.status is TaskStatus.NOT_STARTED, "admit", f"admitted as {made.status}")

    @pytest.mark.rule("admit")
    @pytest.mark.feature("forbids")
    def test_what_is_forbidden_is_refused_with_a_reason(
        self, make: Make, errand: str, forbidden: Agents
    ) -> None:
        """The planner reads the reason, and goes on."""
        above, below = forbidden
        parent = Task.new(summary="", instructions=errand, runtime_kind=KIND, agent_name=above)
        told = _decided(make(), parent, _child(parent, errand, below))
        expect(isinstance(told, str), "admit", f"{above} could give work to {below}; refuse it")

    @pytest.mark.rule("admit")
    async def test_nothing_is_written_before_a_child_is_started(self, household: Household) -> None:
        """`admit` writes neither to the Runtime of the children nor to the parent."""
        parent = await household.parent()

        async def stored() -> object:
            record = await household.host.record(parent.task.id)
            return record.version, sorted([task.id for task in await household.home.find()])

        before = await stored()
        for each in (household.agents[1], *_AGENTS):
            above = parent.job.task
            _decided(household.delegation, above, _child(above, household.errand, each))
        after = await stored()
        expect(after == before, "admit", f"what is stored was {before}, and is {after}")


def _pairs(errand: str) -> list[tuple[Task, Task]]:
    """Return pairs of parent and child; some parents are children themselves."""
    made = []
    for agent in _AGENTS:
        root = Task.new(summary="", instructions=errand, runtime_kind=KIND, agent_name=agent)
        for below in [_child(root, errand, each) for each in _AGENTS]:
            made += [(root, below), *((below, _child(below, errand, each)) for each in _AGENTS)]
    return made


def _child(parent: Task, errand: str, agent: str | None) -> Task:
    id = f"{parent.id} {agent}"
    return child_of(parent, id=id, summary="", instructions=errand, kind=KIND, agent=agent)


def _told(decided: Task | str) -> str:
    if isinstance(decided, str):
        return f"refused for {decided!a:.150}"
    return f"admitted with {sorted(decided.metadata)!a:.150} for {decided.runtime_kind!a:.50}"


def _decided(delegation: Delegation, parent: Task, child: Task) -> Task | str:
    """Return the admitted child, or the reason of its refusal."""
    who = f"{child.agent_name} below {parent.agent_name}"
    try:
        made: object = delegation.admit(parent, child)
    except DelegationRefused as refusal:
        said = isinstance(refusal.reason, str) and bool(refusal.reason)
        expect(said, "admit", f"{who} was refused for {refusal.reason!a}")
        return refusal.reason
    except Exception as error:
        raise broken("admit", f"{who}: {error!r:.200}, and no DelegationRefused") from error
    if inspect.iscoroutine(made):
        made.close()
    if not isinstance(made, Task):
        raise broken("admit", f"{who} was admitted as {made!r:.200}, which is no Task")
    return made

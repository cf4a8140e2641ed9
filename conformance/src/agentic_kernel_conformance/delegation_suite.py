"""DelegationSuite: the fixtures of `DelegationContract`: parents on a Host, and their children."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest
import pytest_asyncio

from agentic_kernel import TaskStatus
from agentic_kernel_engine import Host

from .contract import Contract, supplied
from .delegation_family import KIND, RUN, Family
from .delegation_household import Agents, Household, Make, turns
from .features import DelegationFeatures
from .rules import expect
from .work import System

_METHODS = ("admit", "spawn", "join", "tell", "cancel")


def _with_their_parents(self: Contract, host: Host) -> System:
    return host


class DelegationSuite(Contract):
    """Parents run on the kit's Host; children run where the Delegation puts them."""

    features: ClassVar[DelegationFeatures] = DelegationFeatures()
    fixtures = frozenset({"make", "home", "errand", "agents", "forbidden"})

    make: Any = supplied("make")
    """A `Make`. Supplied by the adapter."""
    home: Any = pytest.fixture(name="home")(_with_their_parents)
    """The `System` of the children; the Host of their parents unless it is supplied."""
    forbidden: Any = supplied("forbidden", "forbids")
    """`Agents`: the first may not give work to the second. Supplied for ``forbids``."""

    @pytest.fixture
    def substrate(self) -> Family:
        """The substrate of the parents, and of children that run on a Host."""
        return Family()

    @pytest_asyncio.fixture
    async def host(self, substrate: Family) -> AsyncIterator[Host]:
        """The Host of the parents."""
        async with Host(substrate, runtime_kinds=[KIND], grace=0, interval=0.01) as host:
            yield host

    @pytest.fixture
    def errand(self) -> str:
        """Instructions of a child that runs until it is stopped."""
        return RUN

    @pytest.fixture
    def agents(self) -> Agents:
        """Two agents; the first may give work to the second."""
        return "kit/parent", "kit/child"

    @pytest.fixture
    def household(
        self, make: Make, host: Host, home: System, substrate: Family, errand: str, agents: Agents
    ) -> Household:
        """The Household of one test, made from the fixtures above."""
        return Household(make, host, home, substrate, errand, agents, self.patience)

    @pytest.mark.rule("kit")
    async def test_the_fixtures_are_a_delegation_and_a_home(self, household: Household) -> None:
        """`make` makes a new object each time, `home` is empty, the errand runs until stopped."""
        another = household.make()
        for each in (household.delegation, another):
            missing = [name for name in _METHODS if not callable(getattr(each, name, None))]
            expect(not missing, "kit", f"{each!r:.100} has no {', '.join(missing)}")
        found = [task.id for task in await household.home.find()]
        expect(not found, "kit", f"`home` was handed over with {found!a:.200} in it")
        fresh = another is not household.delegation
        expect(fresh, "kit", "`make` made one object, and gave it twice")
        child = await household.started(await household.parent())
        await turns()
        await household.until("kit", child.id, TaskStatus.RUNNING)

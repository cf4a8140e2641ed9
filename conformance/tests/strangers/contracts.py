"""The strangers' implementations under the contracts of their ports, with their features."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import pytest

from agentic_kernel_conformance import (
    ApprovalsContract,
    ApprovalsFeatures,
    DelegationContract,
    DelegationFeatures,
    MemoryContract,
    MemoryFeatures,
    ObserverContract,
    ObserverFeatures,
    PlannerContract,
    PlannerFeatures,
    PolicyContract,
    PolicyFeatures,
    SubstrateContract,
    SubstrateFeatures,
    ToolContract,
    ToolFeatures,
)
from agentic_kernel_engine.loop import Context
from agentic_kernel_engine.seams import Request, Tool
from agentic_kernel_engine.tools.tool import SideEffect

from . import approvals as approvals_
from . import delegation as delegation_
from . import memory as memory_
from . import observer as observer_
from . import planner as planner_
from . import policy as policy_
from . import tool as tool_
from .workflow import steps
from .workflow.work import StepsWork

_ANYTHING: Mapping[str, Any] = {"type": "object"}
_ONE_NUMBER: Mapping[str, Any] = {
    "type": "object",
    "properties": {"number": {"type": "integer"}},
    "required": ["number"],
}


class Workflow(SubstrateContract):
    features: ClassVar[Any] = SubstrateFeatures(
        marks=True, pauses=True, keeps_output=True, hears=True, fails=True, refuses=True
    )
    faulty: ClassVar[type] = steps.Steps

    @pytest.fixture
    def factory(self) -> str:
        return f"{self.faulty.__module__}:{self.faulty.__name__}"

    @pytest.fixture
    def work(self) -> StepsWork:
        return StepsWork()


class Observers(ObserverContract):
    features = ObserverFeatures(keeps_events=True)
    faulty: ClassVar[type[observer_.HealthyObserver]] = observer_.HealthyObserver

    @pytest.fixture
    def observer(self) -> observer_.HealthyObserver:
        return self.faulty()

    @pytest.fixture
    def kept(self, observer: observer_.HealthyObserver) -> Callable[[], Sequence[Any]]:
        return lambda: list(observer.events)


class Transports(ApprovalsContract):
    features = ApprovalsFeatures(shows=True)
    faulty: ClassVar[type[approvals_.HealthyApprovals]] = approvals_.HealthyApprovals

    @pytest.fixture
    def approvals(self) -> approvals_.HealthyApprovals:
        return self.faulty()

    @pytest.fixture
    def open(self, approvals: approvals_.HealthyApprovals) -> Callable[[], Sequence[Request]]:
        return lambda: approvals.open


class Delegations(DelegationContract):
    features = DelegationFeatures(forbids=True, refuses=True, pauses=True, asks=True)
    faulty: ClassVar[type[delegation_.HealthyDelegation]] = delegation_.HealthyDelegation

    @pytest.fixture
    def make(self) -> type[delegation_.HealthyDelegation]:
        return self.faulty

    @pytest.fixture
    def forbidden(self) -> tuple[str, str]:
        return ("kit/parent", "kit/parent")


class Memories(MemoryContract):
    features = MemoryFeatures(keeps=True, searches=True)
    faulty: ClassVar[type[memory_.HealthyMemory]] = memory_.HealthyMemory

    @pytest.fixture
    def memory(self) -> memory_.HealthyMemory:
        return self.faulty()


class Planners(PlannerContract):
    """The kit's tools take no single number, so the planner streams its answer."""

    features = PlannerFeatures(
        streams=True, continues=True, deterministic=True, forecasts=True, fails=True
    )
    faulty: ClassVar[type[planner_.HealthyPlanner]] = planner_.HealthyPlanner

    @pytest.fixture
    def planner(self) -> planner_.HealthyPlanner:
        return self.faulty()

    @pytest.fixture
    def failing(self, planner: planner_.HealthyPlanner) -> planner_.HealthyPlanner:
        """Its provider takes 2,000 words, and is given 3,000."""
        words = planner.words

        def longer(context: Context) -> list[str]:
            return [*words(context), *("MORE" for _ in range(3_000))]

        planner.words = longer  # type: ignore[method-assign]
        return planner


class CallingPlanners(PlannerContract):
    """The planner calls the first tool that takes a number."""

    features = PlannerFeatures(deterministic=True, reproducible=True, forecasts=True)
    faulty: ClassVar[type[planner_.HealthyPlanner]] = planner_.HealthyPlanner

    @pytest.fixture
    def planner(self) -> planner_.HealthyPlanner:
        return self.faulty()

    @pytest.fixture
    def another(self) -> planner_.HealthyPlanner:
        return self.faulty()

    @pytest.fixture
    def tools(self) -> list[Tool]:
        return [Tool("double", lambda arguments: arguments, input_schema=_ONE_NUMBER)]


class Policies(PolicyContract):
    features = PolicyFeatures(deterministic=True, filters=True)
    faulty: ClassVar[type[policy_.HealthyPolicy]] = policy_.HealthyPolicy

    @pytest.fixture
    def policy(self) -> policy_.HealthyPolicy:
        return self.faulty()

    @pytest.fixture
    def tools(self) -> list[Tool]:
        effects: dict[str, SideEffect] = {"look": "read", "put": "write", "rm": "destructive"}
        return [
            Tool(name, lambda arguments: arguments, input_schema=_ANYTHING, effect=effect)
            for name, effect in effects.items()
        ]


class Tools(ToolContract):
    features = ToolFeatures(
        observable=True, fails=True, distinct=True, separates=True, explores=True
    )
    faulty: ClassVar[type[tool_.HealthyNote]] = tool_.HealthyNote

    @pytest.fixture
    def tool(self) -> Tool:
        return tool_.tool_of(self.faulty)()

    @pytest.fixture
    def arguments(self) -> list[dict[str, str]]:
        return [{"text": "milk"}, {"text": "bread", "tag": "b"}]

    @pytest.fixture
    def failing(self) -> dict[str, str]:
        return {"text": "z" * 100_001}

    @pytest.fixture
    def effects(self, tool: Tool) -> Callable[[], int]:
        book = tool_.notebook(tool)
        return lambda: sum(len(notes) for notes in book.book.values())

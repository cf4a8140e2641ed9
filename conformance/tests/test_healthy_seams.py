"""Small healthy implementations, written from the protocols alone, are not flagged."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from agentic_kernel import Task
from agentic_kernel_conformance import (
    CapabilityRegistryContract,
    CompactorContract,
    CompactorFeatures,
    MemoryGovernorContract,
    MemoryGovernorFeatures,
    MiddlewareContract,
    MiddlewareFeatures,
    ToolSchedulerContract,
    ToolSchedulerFeatures,
)
from agentic_kernel_conformance.governor import Make
from agentic_kernel_engine.loop import Context, Entry, Observation, Plan, Remaining
from agentic_kernel_engine.plans.ending import End
from agentic_kernel_engine.plans.transcript import Transcript
from agentic_kernel_engine.seams import (
    Compaction,
    Invocation,
    Item,
    Memory,
    Proposal,
    Repertoire,
    UnknownAgent,
)
from agentic_kernel_engine.tools.scheduler import Call


class Backwards:
    """Runs the last call first, one after the other."""

    async def run(self, calls: Sequence[Call], concurrent: Sequence[bool]) -> list[Observation]:
        return [await call() for call in reversed(calls)][::-1]


class InGroups:
    """Runs a batch in a task group if every call may run beside others."""

    async def run(self, calls: Sequence[Call], concurrent: Sequence[bool]) -> list[Observation]:
        if not all(concurrent):
            return [await call() for call in calls]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(call()) for call in calls]
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [task.result() for task in tasks]


class Capped:
    """No number over 100 reaches the planner."""

    async def after_tool(self, call: Invocation, observation: Observation) -> Observation | None:
        number = observation.output
        if isinstance(number, int) and number > 100:
            return Observation(100, tool=call.tool.name)
        return None


class Tail:
    """Keeps ten entries of sixty, and counts the others."""

    def compact(self, transcript: Transcript, remaining: Remaining) -> Compaction | None:
        count = len(transcript) - 10
        return Compaction(count, f"{count} entries were removed") if count >= 50 else None


class Texts:
    """Remembers the model's texts, and forgets none."""

    async def of_step(
        self, context: Context, plan: Plan, observations: Sequence[Observation]
    ) -> Sequence[Proposal]:
        return [Proposal(plan.text[:100])] if plan.text.strip() else []

    async def of_end(self, task: Task, end: End, transcript: Sequence[Entry]) -> Sequence[Proposal]:
        return []

    async def keep(self, memory: Memory, item: Item) -> None:
        await memory.propose(item)


class OneClerk:
    """Knows one Agent."""

    async def resolve(self, agent: str) -> Repertoire:
        if agent != "acme/clerk":
            raise UnknownAgent(agent, ["acme/clerk"])
        return Repertoire("Be kind.")


class TestBackwards(ToolSchedulerContract):
    @pytest.fixture
    def scheduler(self) -> Backwards:
        return Backwards()


class TestInGroups(ToolSchedulerContract):
    features = ToolSchedulerFeatures(parallel=True)

    @pytest.fixture
    def scheduler(self) -> InGroups:
        return InGroups()


class TestCapped(MiddlewareContract):
    features = MiddlewareFeatures(steady=True, transparent=True)

    @pytest.fixture
    def middleware(self) -> Capped:
        return Capped()


class TestTail(CompactorContract):
    features = CompactorFeatures(shortens=True)

    @pytest.fixture
    def compactor(self) -> Tail:
        return Tail()


class TestTexts(MemoryGovernorContract):
    features = MemoryGovernorFeatures(deterministic=True)

    @pytest.fixture
    def make(self) -> Make:
        return Texts


class TestOneClerk(CapabilityRegistryContract):
    @pytest.fixture
    def agents(self) -> Sequence[str]:
        return ["acme/clerk"]

    @pytest.fixture
    def registry(self) -> OneClerk:
        return OneClerk()

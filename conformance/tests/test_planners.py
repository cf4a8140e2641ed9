"""The engine's planners pass the planner contract."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from agentic_kernel_conformance import PlannerContract, PlannerFeatures
from agentic_kernel_conformance.planner_contexts import MANY
from agentic_kernel_engine.loop import (
    Context,
    Delta,
    FinalAnswer,
    Plan,
    PlannerError,
    Thought,
    ToolCall,
    Turn,
    Usage,
)
from agentic_kernel_engine.plans.plan import PlanLike
from agentic_kernel_engine.seams import RuleBasedPlanner, ScriptedPlanner, Streamed

WORST = Usage(100, 10, cost=0.5)


class TestScriptedPlanner(PlannerContract):
    features = PlannerFeatures(
        streams=True, deterministic=True, forecasts=True, fails=True, grounded=True
    )

    @pytest.fixture
    def planner(self) -> ScriptedPlanner:
        thought = Plan((Thought("Add them."),), text="Add them.", usage=Usage(100, 3, cost=0.1))
        streamed = Streamed("Add ", Delta("hm", "reasoning"), "them.", plan=thought)
        return ScriptedPlanner(streamed, [ToolCall("add", {"a": 1, "b": 2})], worst=WORST)

    @pytest.fixture
    def failing(self) -> ScriptedPlanner:
        return ScriptedPlanner(PlannerError("acme/overloaded", "come back later"))


class TestRuleBasedPlanner(PlannerContract):
    features = PlannerFeatures(deterministic=True, reproducible=True, grounded=True, fails=True)

    @pytest.fixture
    def planner(self) -> RuleBasedPlanner:
        return RuleBasedPlanner(_answer, _call)

    @pytest.fixture
    def another(self) -> RuleBasedPlanner:
        return RuleBasedPlanner(_answer, _call)

    @pytest.fixture
    def failing(self) -> RuleBasedPlanner:
        return RuleBasedPlanner()


class TestContinuingPlanner(PlannerContract):
    features = PlannerFeatures(streams=True, continues=True, deterministic=True)

    @pytest.fixture
    def planner(self) -> ContinuingPlanner:
        return ContinuingPlanner()


class ContinuingPlanner:
    """Goes on with what it had said, a word at a time, whoever else is waiting."""

    async def plan(self, context: Context) -> AsyncIterator[Delta | PlanLike]:
        said = context.continuation
        for word in ("and ", "so ", "on"):
            await asyncio.sleep(0)
            yield Delta(word, at=len(said))
            said += word
        yield Plan((FinalAnswer(said),), usage=Usage(len(context.transcript), 3))


def test_the_corpus_is_longer_than_any_script_here() -> None:
    """So that a script that is exhausted is among the refusals that the contract reads."""
    assert MANY > 2


def _answer(context: Context) -> PlanLike | None:
    if context.output_schema is not None:
        return FinalAnswer({"answer": 42, "sure": True})
    done = any(isinstance(entry, Turn) for entry in context.transcript)
    return FinalAnswer(f"after {context.step} steps") if done or not context.tools else None


def _call(context: Context) -> PlanLike | None:
    known = any(tool.name == "add" for tool in context.tools)
    return ToolCall("add", {"a": 12, "b": 30}) if known else FinalAnswer("there is no tool to add")

"""The engine's policies pass the policy contract."""

from __future__ import annotations

import asyncio

import pytest

from agentic_kernel_conformance import PolicyContract, PolicyFeatures
from agentic_kernel_engine.loop import Context, ToolCall
from agentic_kernel_engine.plans.action import Action
from agentic_kernel_engine.seams import (
    AllowAll,
    BasicPolicy,
    PermissionPolicy,
    PolicyPipeline,
    RiskPolicy,
)


class TestAllowAll(PolicyContract):
    features = PolicyFeatures(deterministic=True)

    @pytest.fixture
    def policy(self) -> AllowAll:
        return AllowAll()


class TestBasicPolicy(PolicyContract):
    features = PolicyFeatures(deterministic=True)

    @pytest.fixture
    def policy(self) -> BasicPolicy:
        return BasicPolicy(allow=["read"], approve=["write*"], deny=["destructive"])


class TestPermissionPolicy(PolicyContract):
    features = PolicyFeatures(deterministic=True, filters=True)

    @pytest.fixture(params=[True, False], ids=["hiding", "showing"])
    def policy(self, request: pytest.FixtureRequest) -> PermissionPolicy:
        return PermissionPolicy(hide=request.param)


class TestRiskPolicy(PolicyContract):
    features = PolicyFeatures(deterministic=True)

    @pytest.fixture
    def policy(self) -> RiskPolicy:
        return RiskPolicy(_risk)


class TestPolicyPipeline(PolicyContract):
    features = PolicyFeatures(deterministic=True, filters=True)

    @pytest.fixture
    def policy(self) -> PolicyPipeline:
        return PolicyPipeline(AllowAll(), PermissionPolicy(), RiskPolicy(_risk))


async def _risk(action: Action, context: Context) -> float:
    """By how much is asked for at once; of what is no number, nobody knows."""
    await asyncio.sleep(0)
    if not isinstance(action, ToolCall):
        return 0.0
    return min(float(action.arguments.get("amount", 0)), 1_000.0) / 1_000

"""The strangers' healthy implementations pass the contracts of their ports."""

from __future__ import annotations

from . import contracts


class TestWorkflow(contracts.Workflow):
    pass


class TestObserver(contracts.Observers):
    pass


class TestApprovals(contracts.Transports):
    pass


class TestDelegation(contracts.Delegations):
    pass


class TestMemory(contracts.Memories):
    pass


class TestPlanner(contracts.Planners):
    pass


class TestCallingPlanner(contracts.CallingPlanners):
    pass


class TestPolicy(contracts.Policies):
    pass


class TestTool(contracts.Tools):
    pass

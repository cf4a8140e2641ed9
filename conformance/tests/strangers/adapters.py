"""Every mistake of a stranger as an adapter under its contract; `test_strangers` runs this file."""

from __future__ import annotations

from agentic_kernel_conformance import Bounds

from ..adapters.adapter import FaultyAdapter, adapters
from . import approvals, contracts, delegation, memory, observer, planner, policy, tool
from .workflow import faults


class _Workflow(FaultyAdapter, contracts.Workflow):
    patience = 3.0
    bounds = Bounds(wait=1.0)


class _Observer(FaultyAdapter, contracts.Observers):
    pass


class _Approvals(FaultyAdapter, contracts.Transports):
    patience = 3.0


class _Delegation(FaultyAdapter, contracts.Delegations):
    patience = 3.0


class _Memory(FaultyAdapter, contracts.Memories):
    patience = 3.0


class _Planner(FaultyAdapter, contracts.Planners):
    patience = 3.0


class _CallingPlanner(FaultyAdapter, contracts.CallingPlanners):
    patience = 3.0


class _Policy(FaultyAdapter, contracts.Policies):
    patience = 3.0


class _Tool(FaultyAdapter, contracts.Tools):
    patience = 3.0


_CALLING = {"CountsItself", "FirstTools"}
SETS = {
    "workflow": adapters("Workflow", _Workflow, faults, faults.FAULTS),
    "observer": adapters("Observer", _Observer, observer, observer.FAULTS),
    "approvals": adapters("Approvals", _Approvals, approvals, approvals.FAULTS),
    "delegation": adapters("Delegation", _Delegation, delegation, delegation.FAULTS),
    "memory": adapters("Memory", _Memory, memory, memory.FAULTS),
    "planner": {
        **adapters("Planner", _Planner, planner, planner.FAULTS),
        **adapters(
            "Planner",
            _CallingPlanner,
            planner,
            {name: rule for name, rule in planner.FAULTS.items() if name in _CALLING},
        ),
    },
    "policy": adapters("Policy", _Policy, policy, policy.FAULTS),
    "tool": adapters("Tool", _Tool, tool, tool.FAULTS),
}
"""The mistakes of each set that a contract must report, by the name of the test class."""
TEN = 10
"""The mistakes of each set, those that no contract reports included."""
NOT_CAUGHT = (
    "of the policies, `FirstWord`, which lets the first rule that objects decide. No sentence of "
    "the documentation orders the rules inside of one policy, so no contract asks for an order."
)
"""The mistakes that no contract reports, for people."""
ADAPTERS = {name: adapter for each in SETS.values() for name, adapter in each.items()}
globals().update(ADAPTERS)

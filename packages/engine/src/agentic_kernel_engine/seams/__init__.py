"""The variable parts of the loop, each a small protocol with a reference implementation."""

from ..host.approvals_transport import Approvals, InMemoryApprovals, Request
from ..plans.lineage import DEPTH, LINEAGE, PARENT
from ..tools.call import Invocation, perform
from ..tools.deadline import DeadlinePassed
from ..tools.exceptions import ToolError, Unfinished
from ..tools.output_type import OutputType
from ..tools.registry import ToolRegistry
from ..tools.scheduler import ParallelScheduler, SequentialScheduler, ToolScheduler
from ..tools.schema import Validator, compile_schema
from ..tools.threads import ToolThreads
from ..tools.tool import SideEffect, Tool, ToolContext, Tools, tool
from .agent_tool import AgentTool
from .capabilities import (
    CapabilityRegistry,
    ClashingOption,
    DuplicateTool,
    InMemoryCapabilities,
    OptionRefused,
    Repertoire,
    UnknownAgent,
    UnknownCapability,
)
from .child_tasks import ChildTasks
from .compactor import Compaction, Compactor, WindowCompactor
from .delegation import Delegation, DelegationRefused, EndsChildren, child_of
from .memory import (
    MAX_TEXT,
    Export,
    Hit,
    Item,
    Memory,
    NotCurrent,
    Origin,
    Query,
    Remembered,
    Scope,
    UnknownItem,
    check_id,
    check_reason,
    check_scope,
)
from .memory_governor import MemoryGovernor, Proposal, SessionMemoryGovernor
from .middleware import Middleware, Recovery
from .on_runtime import Deciding, OnRuntime, Spawning, Waiting
from .planner import AsksModel, Context, Counting, Forecast, Planner, TakesOptions, model_of
from .planners import RuleBasedPlanner, ScriptedPlanner, Streamed
from .policies import STRICTNESS, BasicPolicy, PermissionPolicy, PolicyPipeline, RiskPolicy
from .policy import AllowAll, Hiding, Policy, decided

__all__ = [
    "DEPTH", "LINEAGE", "MAX_TEXT", "PARENT", "STRICTNESS", "AgentTool", "AllowAll", "Approvals",
    "AsksModel", "BasicPolicy", "CapabilityRegistry", "ChildTasks", "ClashingOption",
    "Compaction", "Compactor", "Context", "Counting", "DeadlinePassed", "Deciding", "Delegation",
    "DelegationRefused", "DuplicateTool", "EndsChildren", "Export", "Forecast", "Hiding", "Hit",
    "InMemoryApprovals", "InMemoryCapabilities", "Invocation", "Item", "Memory", "MemoryGovernor",
    "Middleware", "NotCurrent", "OnRuntime", "OptionRefused", "Origin", "OutputType",
    "ParallelScheduler", "PermissionPolicy", "Planner", "Policy", "PolicyPipeline", "Proposal",
    "Query", "Recovery", "Remembered", "Repertoire", "Request", "RiskPolicy", "RuleBasedPlanner",
    "Scope", "ScriptedPlanner", "SequentialScheduler", "SessionMemoryGovernor", "SideEffect",
    "Spawning", "Streamed", "TakesOptions", "Tool", "ToolContext", "ToolError", "ToolRegistry",
    "ToolScheduler", "ToolThreads", "Tools", "Unfinished", "UnknownAgent", "UnknownCapability",
    "UnknownItem", "Validator", "Waiting", "WindowCompactor", "check_id", "check_reason",
    "check_scope", "child_of", "compile_schema", "decided", "model_of", "perform", "tool",
]  # fmt: skip

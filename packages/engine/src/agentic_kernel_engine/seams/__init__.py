"""The variable parts of the loop, each a small protocol with a reference implementation."""

from .middleware import Middleware, Recovery
from .planner import Forecast, Planner, RuleBasedPlanner, ScriptedPlanner, Streamed
from .policies import BasicPolicy, PermissionPolicy, PolicyPipeline, RiskPolicy
from .policy import AllowAll, Policy
from .scheduler import ParallelScheduler, SequentialScheduler, ToolScheduler
from .tools import Invocation, Tool, ToolContext, ToolRegistry, Tools, tool

__all__ = [
    "AllowAll",
    "BasicPolicy",
    "Forecast",
    "Invocation",
    "Middleware",
    "ParallelScheduler",
    "PermissionPolicy",
    "Planner",
    "Policy",
    "PolicyPipeline",
    "Recovery",
    "RiskPolicy",
    "RuleBasedPlanner",
    "ScriptedPlanner",
    "SequentialScheduler",
    "Streamed",
    "Tool",
    "ToolContext",
    "ToolRegistry",
    "ToolScheduler",
    "Tools",
    "tool",
]

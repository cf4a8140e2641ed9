"""The bounded loop: plan, authorize, execute, observe; and the data that it is about."""

from ..plans.action import (
    Action,
    AskUser,
    CompleteGoal,
    Delegate,
    FinalAnswer,
    PushGoal,
    Schedule,
    Stop,
    Thought,
    ToolCall,
    digest,
)
from ..plans.decision import ALLOW, ROUTES, Decision, Route, deny, require_approval, stop
from ..plans.ending import End, PlannerError, unhandled
from ..plans.limits import Limits, Remaining, Spent, failed_too_often, unaffordable
from ..plans.observation import (
    HANDLER_ERROR,
    INDETERMINATE,
    OUTPUT_SCHEMA_FAILED,
    POLICY_DENIED,
    SCHEMA_VALIDATION_FAILED,
    SKIPPED,
    TIMEOUT,
    UNKNOWN_TOOL,
    Observation,
)
from ..plans.plan import LARGEST, NOTHING_USED, Delta, Plan, Usage
from ..plans.reasons import STOP_REASON, StopReason, refuse_notes
from ..plans.transcript import Entry, Notice, Summary, Transcript, Turn, UserMessage
from ..principal import Principal
from ..seams.planner import Context
from .answering import (
    LENGTH,
    plan_of,
)
from .effects import (
    key,
)
from .ledger import (
    Ledger,
)
from .loop import Loop
from .replay import Outcome, Replay, outcome, replay
from .session import (
    CONTINUES,
    SESSION,
    continued,
    lineage,
)

__all__ = [
    "ALLOW",
    "CONTINUES",
    "HANDLER_ERROR",
    "INDETERMINATE",
    "LARGEST",
    "LENGTH",
    "NOTHING_USED",
    "OUTPUT_SCHEMA_FAILED",
    "POLICY_DENIED",
    "ROUTES",
    "SCHEMA_VALIDATION_FAILED",
    "SESSION",
    "SKIPPED",
    "STOP_REASON",
    "TIMEOUT",
    "UNKNOWN_TOOL",
    "Action",
    "AskUser",
    "CompleteGoal",
    "Context",
    "Decision",
    "Delegate",
    "Delta",
    "End",
    "Entry",
    "FinalAnswer",
    "Ledger",
    "Limits",
    "Loop",
    "Notice",
    "Observation",
    "Outcome",
    "Plan",
    "PlannerError",
    "Principal",
    "PushGoal",
    "Remaining",
    "Replay",
    "Route",
    "Schedule",
    "Spent",
    "Stop",
    "StopReason",
    "Summary",
    "Thought",
    "ToolCall",
    "Transcript",
    "Turn",
    "Usage",
    "UserMessage",
    "continued",
    "deny",
    "digest",
    "failed_too_often",
    "key",
    "lineage",
    "outcome",
    "plan_of",
    "refuse_notes",
    "replay",
    "require_approval",
    "stop",
    "unaffordable",
    "unhandled",
]

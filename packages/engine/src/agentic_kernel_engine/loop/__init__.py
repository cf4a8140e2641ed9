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
)
from ..plans.decision import ALLOW, ROUTES, Decision, Route, deny, require_approval, stop
from ..plans.ending import End, PlannerError
from ..plans.limits import Limits, Remaining, Spent
from ..plans.observation import Observation
from ..plans.plan import Delta, Plan, Usage
from ..plans.reasons import StopReason
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
    "LENGTH",
    "ROUTES",
    "SESSION",
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
    "key",
    "lineage",
    "outcome",
    "plan_of",
    "replay",
    "require_approval",
    "stop",
]

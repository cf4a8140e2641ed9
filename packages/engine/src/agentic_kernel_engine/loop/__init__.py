"""The bounded loop: plan, authorize, execute, observe; and the data that it is about."""

from .action import (
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
from .context import Context, Principal
from .decision import ALLOW, ROUTES, Decision, Route, deny, require_approval, stop
from .ending import End, PlannerError
from .limits import Limits, Remaining, Spent
from .loop import Loop
from .observation import Observation
from .plan import Delta, Plan, Usage
from .reasons import StopReason
from .replay import Outcome, Replay, outcome, replay
from .session import continued
from .transcript import Entry, Notice, Summary, Transcript, Turn, UserMessage

__all__ = [
    "ALLOW",
    "ROUTES",
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
    "outcome",
    "replay",
    "require_approval",
    "stop",
]

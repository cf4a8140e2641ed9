"""Progress: record the observations of a step, and find out if they brought anything new."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import msgspec

from ..plans import vocabulary
from ..plans.action import CompleteGoal, PushGoal, Thought, ToolCall
from ..plans.observation import Observation
from ..plans.plan import Plan
from ..plans.transcript import Turn
from .run import LoopRun

_encode = msgspec.json.Encoder(order="sorted").encode
_EMPTY = "Your answer had no action. Call a tool, or give the final answer."


def judge(run: LoopRun, plan: Plan, observations: Sequence[Observation]) -> None:
    """Record the step, and count the steps without progress and the repeated ones."""
    state = run.state
    news = goals = False
    seen: list[Any] = []
    for action, observation in zip(plan.actions, observations, strict=True):
        kind = type(action)
        goals = goals or kind is PushGoal or kind is CompleteGoal
        news = news or (kind is not Thought and not observation.error)
        # The provider's id of a call is left out, because it is new each time.
        seen.append((action.tool, action.arguments) if type(action) is ToolCall else action)
        seen += observation.output, observation.error, observation.message
    if goals:
        run.record(vocabulary.STEP_OBSERVED, observations=observations, goals=state.goals)
    else:
        run.record(vocabulary.STEP_OBSERVED, observations=observations)
    run.transcript.append(Turn(plan, tuple(observations)))
    if not plan.actions:
        run.tell(vocabulary.RUN_REFLECTED, run.refused or _EMPTY, round=state.reflections)
        state.non_progress += 1
        return
    fingerprint = hex(zlib.crc32(_encode(seen)))
    same = fingerprint == state.last
    state.last = fingerprint
    state.repeats = state.repeats + 1 if same else 1
    state.non_progress = 0 if news and not same else state.non_progress + 1

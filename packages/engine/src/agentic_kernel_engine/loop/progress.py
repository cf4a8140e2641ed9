"""Progress: what a step brought, put on record; and whether it was anything new."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import msgspec

from . import vocabulary
from .action import CompleteGoal, PushGoal, Thought
from .execution import Execution
from .observation import Observation
from .plan import Plan
from .transcript import Turn

_encode = msgspec.json.Encoder(order="sorted").encode
_EMPTY = "Your answer had no action. Call a tool, or give the final answer."


def judge(run: Execution, plan: Plan, observations: Sequence[Observation]) -> None:
    """Observe: put the step on record, and tell progress from going round in circles."""
    state = run.state
    data: dict[str, Any] = {"observations": msgspec.to_builtins(observations)}
    if any(isinstance(action, (PushGoal, CompleteGoal)) for action in plan.actions):
        data["goals"] = list(state.goals)
    run.record(vocabulary.STEP_OBSERVED, **data)
    run.transcript.append(Turn(plan, tuple(observations)))
    if not plan.actions:
        run.tell(vocabulary.RUN_REFLECTED, _EMPTY, round=state.reflections)
        state.non_progress += 1
        return
    fingerprint = f"{zlib.crc32(_encode((plan.actions, observations))):08x}"
    same = fingerprint == state.last
    state.last = fingerprint
    state.repeats = state.repeats + 1 if same else 1
    news = any(
        observation.ok and not isinstance(action, Thought)
        for action, observation in zip(plan.actions, observations, strict=True)
    )
    state.non_progress = 0 if news and not same else state.non_progress + 1

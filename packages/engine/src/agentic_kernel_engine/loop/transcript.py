"""Transcript: what was said and done so far, as a planner sees it.

Entries are data of the Task's history: the same events give the same transcript, live and after
any crash (R15). Dangling calls, whose observation never came, are not in it: a step's plan and its
observations are in one commit, or the plan is at hand in the state.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from agentic_kernel import Task

from .. import events as host
from ..events import Event
from . import vocabulary
from .observation import Observation
from .plan import Plan


class UserMessage(msgspec.Struct, frozen=True, tag="user", tag_field="entry"):
    """What the user said: the instructions, an extra of a resume, an answer to a question."""

    text: str


class Turn(msgspec.Struct, frozen=True, tag="turn", tag_field="entry"):
    """What the planner wanted, and what came of it."""

    plan: Plan
    observations: tuple[Observation, ...]
    """In the order of the plan's actions."""


class Notice(msgspec.Struct, frozen=True, tag="notice", tag_field="entry"):
    """What the Loop tells the planner: that it is stalled, say."""

    text: str


Entry = UserMessage | Turn | Notice


def opening(task: Task) -> list[Entry]:
    """What every transcript begins with."""
    return [UserMessage(task.instructions)]


def entries(events: Iterable[Event]) -> list[Entry]:
    """The entries that a stretch of history stands for."""
    found: list[Entry] = []
    plan: Any = None
    for event in events:
        data = event.data
        match event.type:
            case vocabulary.PLAN_MADE:
                plan = data
            case vocabulary.STEP_OBSERVED:
                if plan is not None:
                    found.append(turn_of(plan, data["observations"]))
                    plan = None
            case host.TASK_RESUMED if "extra" in data:
                found.append(UserMessage(data["extra"]))
            case vocabulary.QUESTION_ANSWERED:
                found.append(UserMessage(data["text"]))
            case vocabulary.RUN_REFLECTED:
                found.append(Notice(data["text"]))
    return found


def turn_of(plan: Any, observations: Any) -> Turn:
    """A turn from the JSON forms of its parts."""
    return Turn(msgspec.convert(plan, Plan), msgspec.convert(observations, tuple[Observation, ...]))

"""Doubts: the steps of a Task whose outcome is unknown, because a run ended in them.

The Loop records such a step as an observation with the error ``indeterminate``. Any other substrate
records an event of its own, whose type is ``<impl>/indeterminate`` or ``<impl>.indeterminate``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from agentic_kernel_engine import Event
from agentic_kernel_engine.plans import vocabulary

from . import waiting
from .rendering import told
from .text import cut, label

INDETERMINATE: Final = "indeterminate"
"""`agentic_kernel_engine.loop.INDETERMINATE`; its import loads the Loop, which `show` spares."""
_WIDTH: Final = 400
"""Maximum length of one step, in characters."""
_OWN: Final = re.compile(rf"\S+[./]{INDETERMINATE}")
_shown = partial(label, width=_WIDTH)


@dataclass(frozen=True)
class Doubt:
    """One step whose outcome is unknown."""

    step: str
    """The step for a person, in one line that is safe to show and at most 400 characters long."""
    data: Mapping[str, Any]
    """The step for a program, complete: the action of the Loop's plan, or the data of the event of
    another substrate."""
    event: Event
    """The event that says so."""

    def as_json(self) -> dict[str, Any]:
        """The JSON object that ``show --json`` has for it."""
        at = None if self.event.id is None else str(self.event.id)
        return {"step": self.step, "data": self.data, "event_id": at}


class Doubts:
    """Reads the events of one Task, and finds each step whose outcome is unknown."""

    def __init__(self) -> None:
        self._actions: Sequence[Any] = ()
        """The actions of the last plan: an observation does not have the arguments of its call."""

    def take(self, event: Event) -> list[Doubt]:
        """Read the next event; return the steps that it calls indeterminate."""
        if event.type == vocabulary.PLAN_MADE:
            self._actions = event.data["actions"]
            return []
        if event.type == vocabulary.STEP_OBSERVED:
            observations = event.data["observations"]
            return [
                self._called(index, each, event)
                for index, each in enumerate(observations)
                if is_unknown(each)
            ]
        if _OWN.fullmatch(event.type):
            return [Doubt(_described(event), event.data, event)]
        return []

    def _called(self, index: int, observation: Mapping[str, Any], event: Event) -> Doubt:
        action = self._actions[index] if index < len(self._actions) else None
        if isinstance(action, Mapping):
            return Doubt(cut(waiting.said(action), _WIDTH), action, event)
        tool = str(observation.get("tool", ""))
        return Doubt(_shown(tool), {"tool": tool}, event)


def is_unknown(observation: object) -> bool:
    """True if a stored observation says that the outcome is unknown."""
    return isinstance(observation, Mapping) and observation.get("error") == INDETERMINATE


def doubted(events: Iterable[Event]) -> Iterator[Doubt]:
    """The steps of a Task whose outcome is unknown, in order."""
    doubts = Doubts()
    for event in events:
        yield from doubts.take(event)


def _described(event: Event) -> str:
    facts = [f"{label(name)} {told(value, _shown)}" for name, value in event.data.items()]
    return cut(", ".join(facts), _WIDTH) or _shown(event.type)

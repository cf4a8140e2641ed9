"""Doubts: the steps of a Task whose outcome is unknown, because a crash interrupted them.

The Loop records such a step as an observation with the error ``indeterminate``. Any other substrate
records an event of its own, whose type is ``<impl>/indeterminate`` or ``<impl>.indeterminate``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from agentic_kernel_engine import Event
from agentic_kernel_engine.plans import vocabulary as loop

from . import waiting
from .rendering import told
from .text import cut, label

INDETERMINATE: Final = "indeterminate"
"""`agentic_kernel_engine.loop.INDETERMINATE`; its import loads the Loop, which `show` spares."""
_WIDTH: Final = 400
"""Maximum length of one step, in characters."""
_OWN: Final = re.compile(rf"\S+[./]{INDETERMINATE}")
_shown = partial(label, width=_WIDTH)


class Doubts:
    """Reads the events of one Task, and names each step whose outcome is unknown."""

    def __init__(self) -> None:
        self._actions: Sequence[Any] = ()
        """The actions of the last plan: an observation does not have the arguments of its call."""

    def take(self, event: Event) -> list[str]:
        """Read the next event; return the steps that it calls indeterminate, one line each."""
        if event.type == loop.PLAN_MADE:
            self._actions = event.data["actions"]
            return []
        if event.type == loop.STEP_OBSERVED:
            observations = event.data["observations"]
            return [
                self._called(index, each)
                for index, each in enumerate(observations)
                if is_unknown(each)
            ]
        return [_described(event)] if _OWN.fullmatch(event.type) else []

    def _called(self, index: int, observation: Mapping[str, Any]) -> str:
        action = self._actions[index] if index < len(self._actions) else None
        if not isinstance(action, Mapping):
            return _shown(str(observation.get("tool", "")))
        return cut(waiting.said(action), _WIDTH)


def is_unknown(observation: object) -> bool:
    """True if a stored observation says that the outcome is unknown."""
    return isinstance(observation, Mapping) and observation.get("error") == INDETERMINATE


def doubted(events: Iterable[Event]) -> Iterator[str]:
    """The steps of a Task whose outcome is unknown, one line each, in order."""
    doubts = Doubts()
    for event in events:
        yield from doubts.take(event)


def _described(event: Event) -> str:
    facts = [f"{label(name)} {told(value, _shown)}" for name, value in event.data.items()]
    return cut(", ".join(facts), _WIDTH) or _shown(event.type)

"""Trace: what anybody can observe of a Task, without what differs from run to run.

Masked are ids, times, usage and the model's name, and the vendor's own words in a failure with the
vendor's part of its code; the pieces of a text are merged. Everything else is compared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agentic_kernel import Task
from agentic_kernel_engine import Event, StopReason
from agentic_kernel_engine.events import RUN_DELTA, RUN_TURN
from agentic_kernel_engine.plans.vocabulary import RUN_STOPPED
from agentic_kernel_engine.texts import Texts

from .script import LONG

IDS: Final = {
    "act", "at", "digest", "engine/continues", "engine/session", "keys", "session", "task",
}  # fmt: skip
"""Names of what is an id, a time, or made of one."""
USED: Final = {"forfeited", "usage"}
"""Names of what was used up."""
OWN: Final = {"model", "provider"}
"""Names of what is a vendor's own."""
NAMES: Final = {"call", "id"}
"""Names of the vendor's name of a call, which not every vendor has."""
PLAIN: Final = {"arguments", "output"}
"""Names of what a tool was given and gave, in which nothing is masked."""
KIND: Final = "<kind>"
_USAGE: Final = re.compile(r"(?<=spent )[\d.]+|(?<=use up )[\d.,]+(?=;)")
"""Usage within a message."""


@dataclass(frozen=True)
class Trace:
    """What is compared of one Task."""

    task: Mapping[str, Any]
    """Its last snapshot."""
    events: Sequence[Mapping[str, Any]]
    texts: Sequence[str]
    """What was seen on its way, the pieces of each answer merged."""


def trace(task: Task, events: Sequence[Event]) -> Trace:
    """The trace of a Task from its snapshot and its history."""
    kind = task.runtime_kind
    failure = task.failure
    shown = {
        "status": str(task.status),
        "summary": task.summary,
        "instructions": task.instructions,
        "agent": task.agent_name,
        "supplements": list(task.supplements),
        "started": task.started_at is not None,
        "ended": task.ended_at is not None,
        "result": _masked(task.result, kind),
        "failure": None if failure is None else _failure(failure.code, failure.message),
        "metadata": {
            key.replace(f"{kind}/", f"{KIND}/"): value
            for key, value in _masked(task.metadata, kind).items()
        },
    }
    kept = [_event(event, kind) for event in events if event.type not in (RUN_DELTA, RUN_TURN)]
    return Trace(shown, kept, [_masked(text, kind) for text in _texts(events)])


def _texts(events: Sequence[Event]) -> list[str]:
    """The text of each turn that has any."""
    texts, turns = Texts(), list[str]()
    for event in events:
        if event.type == RUN_TURN and texts.open():
            turns.append(texts.text())
        texts.take(event)
    if texts.open():
        turns.append(texts.text())
    return [turn for turn in turns if turn]


def _event(event: Event, kind: str) -> dict[str, Any]:
    data = dict(event.data)
    if event.type.startswith("task."):
        data.pop("by", None)  # The name of a Host; elsewhere it is a person's.
    if "code" in data:
        data |= _failure(str(data["code"]), str(data.get("message", "")))
    if event.type == RUN_STOPPED:
        error = data["reason"] == StopReason.ERROR
        data["message"] = "" if error else _USAGE.sub("<usage>", data["message"])
    return {"type": event.type, **_masked(data, kind)}


def _failure(code: str, message: str) -> dict[str, str]:
    impl, _, name = code.partition("/")
    if impl == "engine":
        return {"code": code, "message": _USAGE.sub("<usage>", message)}
    return {"code": name, "message": ""}


def _masked(value: Any, kind: str) -> Any:
    if isinstance(value, Mapping):
        return {
            key: "<id>" if key in IDS else each if key in PLAIN else _masked(each, kind)
            for key, each in value.items()
            if key not in USED | OWN | NAMES
        }
    if isinstance(value, list | tuple):
        return [_masked(each, kind) for each in value]
    if isinstance(value, str) and value and LONG.startswith(value) and value != LONG:
        return "<beginning of the long answer>"
    return KIND if value == kind else value

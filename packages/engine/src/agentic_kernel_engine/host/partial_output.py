"""What a killed Task had said so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentic_kernel import InvalidValue, Task
from agentic_kernel.catalog import check_name

from ..events import RUN_DELTA, RUN_TURN, Event

LIMIT = 256 * 1024
"""How much of the text in progress is kept on a killed Task: its end, in characters."""


def partial_output(task: Task, history: Sequence[Event]) -> Mapping[str, Any]:
    """The note that keeps a killed Task's text in progress (R11): ``<kind>/partial_output``.

    The text of the deltas since the last finished turn. The key's scope is the Task's
    ``runtime_kind``, so it needs no run at hand and is the same whoever kills, from wherever.
    Empty if there is no text, or if the Task came in with that key.
    """
    pieces: list[str] = []
    for event in history:
        if event.type == RUN_DELTA:
            text = event.data.get("text")
            if isinstance(text, str) and "channel" not in event.data:
                pieces.append(text)
        elif event.type == RUN_TURN:
            pieces.clear()
    text = "".join(pieces)[-LIMIT:]
    key = f"{task.runtime_kind}/partial_output"
    try:
        check_name(key, "key")
    except InvalidValue:  # A kind is any text, and a note's key is a name.
        key = "engine/partial_output"
    if not text or (key in task.metadata and key not in task.noted):
        return {}
    return {key: text}

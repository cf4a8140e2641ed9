"""Partial output: the text in progress of a killed Task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentic_kernel import InvalidValue, Task
from agentic_kernel.catalog import check_name

from ..events import Event
from ..texts import Texts

LIMIT = 256 * 1024
"""The most characters of the text in progress that a killed Task keeps: the last ones."""


def partial_output(task: Task, history: Sequence[Event]) -> Mapping[str, Any]:
    """The note that keeps a killed Task's text in progress (R11): ``<kind>/partial_output``.

    It holds the text of the last turn that has any. The key's scope is the Task's ``runtime_kind``,
    so every Host finds the same key without a run. The result is empty if there is no text, or if
    the Task came in with that key.
    """
    text = Texts(history).text()[-LIMIT:]
    key = f"{task.runtime_kind}/partial_output"
    try:
        check_name(key, "key")
    except InvalidValue:  # A kind may be any text, but a note's key must be a name.
        key = "engine/partial_output"
    if not text or (key in task.metadata and key not in task.noted):
        return {}
    return {key: text}

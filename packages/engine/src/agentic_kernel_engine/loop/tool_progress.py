"""Tool progress: the reports of running tools, emitted up to a bound between two commits."""

from __future__ import annotations

from typing import Any, Final

from .. import values
from ..events import Event
from ..host.job import Job
from ..plans import vocabulary

PROGRESS: Final = 1_000_000
"""The most bytes of JSON that the tools of a step may report between two commits."""


def emit(job: Job, room: int, tool: str, index: int, report: Any) -> int:
    """Emit a tool's report, and return the bytes that are left.

    The first report without room is replaced by a remark; later ones are dropped.
    """
    left = room - len(values.encode(report, "progress")) - len(tool) - 100
    if left < 0:
        report = "(more was reported than is kept of one step)"
    if room >= 0:
        data = {"tool": tool, "index": index, "report": report}
        job.emit(Event(vocabulary.TOOL_PROGRESS, data))
    return left

"""Lineage: the place of a Task among the Tasks that delegated to it, as its metadata says."""

from __future__ import annotations

from typing import Final

from agentic_kernel import Task

DEPTH: Final = "engine/depth"
"""Metadata of a child: the number of Tasks above it that delegated to it."""
PARENT: Final = "engine/parent"
"""Metadata of a child: the id of the Task that gave the work to it."""
LINEAGE: Final = "engine/lineage"
"""Metadata of a child: the Agents that the work went through, the outermost first."""


def depth(task: Task) -> int:
    """Number of Tasks above this one that delegated to it; 0 if its metadata has no number."""
    found = task.metadata.get(DEPTH, 0)
    return max(found, 0) if type(found) is int else 0


def lineage(task: Task) -> list[str]:
    """The Agents that the work went through; the last one is the Task's own, if it has one."""
    found = task.metadata.get(LINEAGE)
    names = [name for name in found if isinstance(name, str)] if isinstance(found, list) else []
    if task.agent_name and task.agent_name not in names[-1:]:
        names.append(task.agent_name)
    return names

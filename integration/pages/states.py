"""The transitions of a Task, as the source of a picture."""

from __future__ import annotations

from agentic_kernel import TaskStatus
from agentic_kernel.transitions import TABLE


def diagram() -> str:
    """The transitions that change something, as a Mermaid state diagram."""
    edges: dict[tuple[str, str], list[str]] = {}
    for mutation, row in TABLE.items():
        for status, target in row.items():
            if isinstance(target, TaskStatus):
                edges.setdefault((status.value, target.value), []).append(mutation.verb)
    lines = [f"    [*] --> {TaskStatus.NOT_STARTED.value}"]
    lines += [f"    {one} --> {other}: {', '.join(verbs)}" for (one, other), verbs in edges.items()]
    lines += [f"    {status.value} --> [*]" for status in TaskStatus if status.terminal]
    return "\n".join(["stateDiagram-v2", "    direction LR", *lines])

"""Draws what code says in tables: the states of a Task, the kit's model of them, the Loop's routes
and limits.

python -m integration.pages.diagrams            rewrite what is between the marks
python -m integration.pages.diagrams --check    fail if it has drifted
"""

from __future__ import annotations

import sys

from agentic_kernel import TaskStatus
from agentic_kernel.transitions import ILLEGAL, NO_OP, TABLE

from .hidden import arrows, drawn_states, picture
from .routes import events, routes
from .sections import DOCS, renewed, settle
from .spending import spending

SCRIPT = "diagrams.py"


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
    return "\n".join(["```mermaid", "stateDiagram-v2", "    direction LR", *lines, "```"])


def table() -> str:
    """Every cell, as a Markdown table."""
    shown = {ILLEGAL: "illegal", NO_OP: "·"}
    rows = [
        f"| {mutation.verb} | "
        + " | ".join(
            f"**{target.value}**" if isinstance(target, TaskStatus) else shown[target]
            for target in (row[status] for status in TaskStatus)
        )
        + " |"
        for mutation, row in TABLE.items()
    ]
    head = "| | " + " | ".join(status.value for status in TaskStatus) + " |"
    return "\n".join([head, "|---" * (len(TaskStatus) + 1) + "|", *rows])


PAGES = {
    "kernel.md": {"diagram": diagram, "table": table},
    "loop.md": {"routes": routes, "spending": spending, "events": events},
    "model.md": {"picture": picture, "states": drawn_states, "moves": arrows},
}


def main(arguments: list[str]) -> None:
    """Rewrite the pages, or with ``--check`` fail if that would change one."""
    pages = {}
    for name, sections in PAGES.items():
        text = (DOCS / name).read_text(encoding="utf-8")
        for section, draw in sections.items():
            text = renewed(text, section, SCRIPT, draw())
        pages[DOCS / name] = text
    settle(pages, SCRIPT, check="--check" in arguments)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Draws the state diagram of `docs/kernel.md` from the kernel's own table.

python docs/diagrams.py            rewrite what is between the markers
python docs/diagrams.py --check    fail if it has drifted
"""

from __future__ import annotations

import sys
from pathlib import Path

from agentic_kernel import TaskStatus
from agentic_kernel.transitions import ILLEGAL, NO_OP, TABLE

PAGE = Path(__file__).with_name("kernel.md")


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


def renewed(page: str) -> str:
    """The page with both drawings brought up to date."""
    for name, drawing in (("diagram", diagram()), ("table", table())):
        start, end = f"<!-- {name}: drawn by diagrams.py -->\n\n", f"\n\n<!-- end of {name} -->"
        before, found, rest = page.partition(start)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            sys.exit(f"{PAGE.name} has lost the markers around its {name}")
        page = before + start + drawing + end + after
    return page


def main(arguments: list[str]) -> None:
    """Rewrite the page, or with ``--check`` fail if that would change it."""
    page = PAGE.read_text()
    if "--check" not in arguments:
        PAGE.write_text(renewed(page))
    elif renewed(page) != page:
        sys.exit(f"{PAGE.name} has drifted from the table; run python docs/diagrams.py")


if __name__ == "__main__":
    main(sys.argv[1:])

"""Brings the command's own words into its page: every verb, and its list at three widths.

python -m integration.pages.screens            rewrite what is between the marks
python -m integration.pages.screens --check    fail if it is not what the command shows
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from typer.main import get_command

from agentic_kernel import Complete, Dispatch, Fail, Failure, Mutation, Pause, Task, apply
from agentic_kernel_cli import rows
from agentic_kernel_cli.commands import VERBS, app
from agentic_kernel_cli.costs import Used
from agentic_kernel_cli.rendering import Paper
from agentic_kernel_engine import Record

from .sections import DOCS, only_checks, renewed, settle

SCRIPT: Final = "screens.py"
PAGE: Final = DOCS / "command.md"
WIDTHS: Final = (60, 80, 120)
NOW: Final = datetime(2030, 1, 1, 12, tzinfo=UTC)
PARENT: Final = "0193e0c1-2a40-7c11-9d5e-3f6f5a1b7c01"
CHILD: Final = "0193e0c2-55aa-7b7e-b3c9-0c4e8a7d2b02"
LEFT: Final = "0193e0c4-91b2-7d0a-8a44-77d1c02e9f10"
OLD: Final = "0193dfff-0e10-7f3d-90a1-5d6e7f809a03"
REQUEST: Final[dict[str, Any]] = {
    "kind": "approval",
    "requests": [
        {
            "digest": "4be1f0a7" * 8,
            "action": {"type": "tool_call", "tool": "refund", "arguments": {"order": 7}},
        }
    ],
}


def record(
    id: str, minutes: float, summary: str, *then: Mutation, kind: str = "openai", parent: str = ""
) -> Record:
    """A Task that was created so many minutes ago."""
    made = NOW - timedelta(minutes=minutes)
    task = Task.new(id=id, summary=summary, instructions="", runtime_kind=kind, at=made)
    for mutation in (Dispatch(), *then):
        task = apply(task, mutation, made)
    return Record(task, parent=parent or None)


RECORDS: Final = (
    record(LEFT, 1, "Write to the customer of order 7"),
    record(CHILD, 3, "Look order 7 up", Complete("paid"), parent=PARENT),
    record(PARENT, 4, "Refund order 7", Pause(notes={"engine/waiting_for": REQUEST})),
    record(OLD, 190, "Sum the year up", Fail(Failure("max_cost", "used up")), kind="local"),
)
USED: Final = {
    PARENT: Used(4_100, 230, 0.0187),
    CHILD: Used(900, 42, 0.0031),
    OLD: Used(20_400, 1_310),
}


def screen(width: int) -> str:
    """What ``agentic-kernel list`` shows on a terminal of this width."""
    console = Paper(width=width, force_terminal=True, color_system=None)
    with console.capture() as captured:
        rows.show(console, RECORDS, {LEFT: "recover it"}, NOW, USED)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def screens() -> str:
    """The list at every width."""
    return "\n\n".join(f"{width} columns:\n\n```text\n{screen(width)}\n```" for width in WIDTHS)


def verbs() -> str:
    """A table of the verbs, from their help, with the names that the help shows."""
    group: Any = get_command(app)
    lines = ["| verb | it does this |", "|---|---|"]
    for verb in VERBS:
        command = group.commands[verb]
        said = (command.help or "").split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
        under = getattr(command, "commands", {}).values()
        below = ", ".join(f"`{each.name}`" for each in under)
        lines.append(f"| `{command.name}` | {said}{f' {below}' if below else ''} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Rewrite the page, or with ``--check`` fail if that would change it."""
    check = only_checks(arguments, SCRIPT, __doc__)
    text = renewed(PAGE.read_text(encoding="utf-8"), "verbs", SCRIPT, verbs())
    text = renewed(text, "screens", SCRIPT, screens())
    settle({PAGE: text}, SCRIPT, check=check)


if __name__ == "__main__":
    main()

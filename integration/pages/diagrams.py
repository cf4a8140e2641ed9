"""Writes what code says as tables: the states of a Task, the kit's model of them, the Loop's routes
and limits, the inputs of each ready runtime.

python -m integration.pages.diagrams            rewrite what is between the marks
python -m integration.pages.diagrams --check    fail if it has drifted
"""

from __future__ import annotations

from collections.abc import Sequence

from agentic_kernel import TaskStatus
from agentic_kernel.transitions import ILLEGAL, NO_OP, TABLE

from .hidden import arrows, drawn_states
from .inputs import inputs
from .routes import events, routes
from .sections import DOCS, kept, only_checks, renewed, settle
from .spending import spending

SCRIPT = "diagrams.py"
MADE_BY_THE_KIT = "matrix.md"
"""The page that the kit's report replaces; our section is then added again at its end."""
INTRODUCTION = """## What each ready runtime takes of a Task

A ready runtime refuses a Task with an input that it does not take: `dispatch` raises `CannotStart`,
names the input and the remedy, and writes nothing. The tests `integration/test_inputs.py` and
`packages/copilot/tests/test_inputs.py` check the cells. An Agent is only a name if the runtime has
no `CapabilityRegistry`, and a session is only a name if the runtime has no `Memory`. No runtime
looks at metadata under a scope that is neither its own nor `input/`. A `Loop` of your own takes
the same as `OpenAIRuntime`, except that its planner decides about options and images.
"""


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
    "kernel.md": {"table": table},
    "loop.md": {"routes": routes, "spending": spending, "events": events},
    "matrix.md": {"inputs": inputs},
    "model.md": {"states": drawn_states, "moves": arrows},
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Rewrite the pages, or with ``--check`` fail if that would change one."""
    check = only_checks(arguments, SCRIPT, __doc__)
    pages = {}
    for name, sections in PAGES.items():
        text = (DOCS / name).read_text(encoding="utf-8")
        if name == MADE_BY_THE_KIT:
            text = kept(text, INTRODUCTION, SCRIPT, "inputs")
        for section, draw in sections.items():
            text = renewed(text, section, SCRIPT, draw())
        pages[DOCS / name] = text
    settle(pages, SCRIPT, check=check)


if __name__ == "__main__":
    main()

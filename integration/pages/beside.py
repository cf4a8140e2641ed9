"""Draws the table of small programs into ``docs/beside.md``.

python -m integration.pages.beside            rewrite the section
python -m integration.pages.beside --check    fail if it is not what this makes
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..beside.counting import Count, count
from ..beside.programs import OTHERS, OURS, PROGRAMS
from .sections import DOCS, only_checks, renewed, settle

PAGE: Final = DOCS / "beside.md"
SCRIPT: Final = "beside.py"
SECTION: Final = "counts"
LIBRARIES: Final = (OURS, *OTHERS)


def table() -> str:
    """The lines and the names of each program, and where ours is the longer one."""
    rows = [
        "| program | " + " | ".join(library.title for library in LIBRARIES) + " |",
        "|---|" + "---|" * len(LIBRARIES),
    ]
    longer: list[str] = []
    for program, does in PROGRAMS.items():
        counts = [count(library.source(program)) for library in LIBRARIES]
        rows.append(f"| {does} | " + " | ".join(map(_cell, counts)) + " |")
        ours, *others = counts
        for what, mine, least in (
            ("lines", ours.lines, min(each.lines for each in others)),
            ("names", len(ours.names), min(len(each.names) for each in others)),
        ):
            if mine > least:
                longer.append(f"- {does}: {mine} {what} with ours, {least} with the shortest.")
    said = ["", "Ours is the longer one here:", "", *longer] if longer else []
    return "\n".join([*rows, *said])


def _cell(counted: Count) -> str:
    return f"{counted.lines} lines, {len(counted.names)} names"


def main(arguments: Sequence[str] | None = None) -> None:
    """Rewrite the page, or with ``--check`` fail if that would change it."""
    check = only_checks(arguments, SCRIPT, __doc__)
    text = renewed(PAGE.read_text(encoding="utf-8"), SECTION, SCRIPT, table())
    settle({PAGE: text}, SCRIPT, check=check)


if __name__ == "__main__":
    main()

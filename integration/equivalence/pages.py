"""Pages: tables that a run writes, and that a test holds against a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

DOCS: Final = Path(__file__).parents[2] / "docs"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def cells(page: str, column: str) -> Mapping[str, str]:
    """What the page's table says in this column, by the first cell of each row.

    Raises:
        ValueError: There is no such column.
    """
    lines = [
        [cell.strip() for cell in line.strip("|\n").split("|")]
        for line in page.splitlines()
        if line.startswith("| ")
    ]
    head = next(line for line in lines if column in line)
    at = head.index(column)
    rows = lines[lines.index(head) + 2 :]
    return {row[0]: row[at] for row in rows if len(row) == len(head)}

"""Writes the table of the contracts' fixtures, from the source of the kit.

python -m integration.pages.fixtures            rewrite what is between the marks
python -m integration.pages.fixtures --check    fail if the table differs from the kit
"""

from __future__ import annotations

from collections.abc import Sequence

import agentic_kernel_conformance as kit
from agentic_kernel_conformance.described import described

from .sections import DOCS, only_checks, renewed, settle

SCRIPT = "fixtures.py"
PAGE = DOCS / "conformance.md"


def table() -> str:
    """Every contract with the fixtures that its adapters supply."""
    rows = ["| contract | fixture | gives | supplied | what it is |", "|---|---|---|---|---|"]
    for name in kit.__all__:
        if name.endswith("Contract"):
            for each in described(getattr(kit, name)):
                cells = (f"`{name}`", f"`{each.name}`", f"`{each.gives}`", each.needed, each.text)
                rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Rewrite the table, or with ``--check`` fail if that would change it."""
    check = only_checks(arguments, SCRIPT, __doc__)
    page = renewed(PAGE.read_text(encoding="utf-8"), "fixtures", SCRIPT, table())
    settle({PAGE: page}, SCRIPT, check=check)


if __name__ == "__main__":
    main()

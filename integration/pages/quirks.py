"""Draws the tables of servers' quirks into ``docs/quirks.md``.

python -m integration.pages.quirks            play each quirk, and rewrite the section
python -m integration.pages.quirks --check    fail if it is not what this makes
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from itertools import groupby
from typing import Final

from ..peers.faulty import FaultyServer
from ..quirks.playing import play, quirks
from ..quirks.quirk import Quirk
from ..quirks.replies import ANSWER
from .sections import DOCS, only_checks, renewed, settle

PAGE: Final = DOCS / "quirks.md"
SCRIPT: Final = "quirks.py"
SECTION: Final = "outcomes"


def tables() -> str:
    """A table for each server, after the numbers of all quirks."""
    found = list(quirks())
    answered = sum(quirk.outcome == ANSWER for _, quirk in found)
    remedied = sum(bool(quirk.remedy) for _, quirk in found)
    refused = len(found) - answered - remedied
    lines = [
        f"{len(found)} quirks: {answered} make no difference to the Task; {refused} are refusals "
        f"of the server, with their code on the Task; {remedied} end in a failure, and "
        "the row says how the user avoids it.",
    ]
    for server, rows in groupby(found, key=lambda each: each[0]):
        lines += ["", f"### {server}", "", "| the server | the Task | source |", "|---|---|---|"]
        lines += [_row(quirk) for _, quirk in rows]
    return "\n".join(lines)


def _row(quirk: Quirk) -> str:
    told = "is answered" if quirk.outcome == ANSWER else f"fails with `{quirk.outcome}`"
    if quirk.called:
        told = f"calls the tool{' twice' if len(quirk.called) > 1 else ''}, and {told}"
    remedy = f". {quirk.remedy}" if quirk.remedy else ""
    return f"| {quirk.does} | {told}{remedy} | [source]({quirk.source}) |"


async def _play_all() -> None:
    with FaultyServer("closed") as peer:
        for server, quirk in quirks():
            outcome = await play(quirk, peer)
            if not outcome.fits(quirk):
                sys.exit(f"{server}, {quirk.name}: the row says otherwise than {outcome}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Rewrite the page, or with ``--check`` fail if that would change it."""
    check = only_checks(arguments, SCRIPT, __doc__)
    if not check:
        asyncio.run(_play_all())
    text = renewed(PAGE.read_text(encoding="utf-8"), SECTION, SCRIPT, tables())
    settle({PAGE: text}, SCRIPT, check=check)


if __name__ == "__main__":
    main()

"""The page of the crash matrix on Postgres: what it says, and how it is read back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .crash_evidence import FAULTS, INDETERMINATE
from .crash_matrix import Cell, Line

HEAD: Final = ("point", "resumers", "kills", "taken over", *FAULTS, INDETERMINATE)
_NAMES: Final = 2
"""How many columns say which line it is."""

_TEXT: Final = """# Crashes on Postgres

A process is killed with SIGKILL at a point chosen beforehand; then one, two or eight others, all at
once, take over what it left and see it through. Afterwards what is stored is held against what each
process had been told, by the judge of the [crash matrix](crashes.md) of the other stores. That page
says what happens in a trial and what each column counts.

| point | where the process dies |
| --- | --- |
| before the commit | the store was not asked yet |
| in the commit | before any one request to the server, or any one wait for its answer |
| after the commit | it landed, and the Host does not know |
| before the answer | the Host knows, and its caller was not told |
| in the substrate's work | just before or just after the effect |
| in prune | as in the commit, while a prune is under way |

Each trial has a schema of its own on one server. The lease of the dead is not waited for: those who
go on move its end into the past. How a lease runs out by itself is tested with processes that are
killed, or stopped and continued; see [Postgres](postgres.md).

## The matrix

{table}

{kills} kills, seed {seed}. The five columns before the last must be zero. The first command writes
this page; the others do one line of it again, and one trial:

```
python -m integration.postgres_crash_matrix --seed {seed} --page docs/crashes-postgres.md
python -m integration.postgres_crash_matrix --point "in prune" --resumers 8 --trials 100 --seed 2
python -m integration.postgres_crash_matrix --point "in the commit" --resumers 2 --at 17
```

The gate kills one process at each point, and holds this page against the points, the resumers and
the zeros. `nox -s torture` kills 16 in each line, or as many as `KILLS` says, from the seed `SEED`.

## What it cannot show

What a server has been told survives the death of a client whether it was flushed or not. That an
acknowledged commit survives the server's own death is tested by killing the postmaster under runs
that commit; that the disk keeps what Postgres has flushed is Postgres's to answer for.
"""


def table(lines: Mapping[Cell, Line]) -> str:
    """The matrix as Markdown; a fault counts once for each trial in which it was found."""
    rows: list[list[object]] = [
        [*HEAD],
        ["---", *["---:"] * (len(HEAD) - 1)],
        *([cell.point, cell.resumers, *line.numbers()] for cell, line in lines.items()),
        ["all", "", *map(sum, zip(*(line.numbers() for line in lines.values()), strict=True))],
    ]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)


def page(lines: Mapping[Cell, Line], seed: int) -> str:
    """The whole page."""
    kills = sum(line.kills for line in lines.values())
    return _TEXT.format(table=table(lines), kills=kills, seed=seed)


def published(text: str) -> dict[tuple[str, str], dict[str, int]]:
    """What a page says: for each point and number of resumers, the numbers by their columns.

    The last line, of all together, is that of the point "all".
    """
    lines = text.splitlines()
    begin = lines.index(f"| {' | '.join(HEAD)} |") + 2
    found: dict[tuple[str, str], dict[str, int]] = {}
    for line in lines[begin:]:
        if not line.startswith("|"):
            break
        point, resumers, *numbers = (part.strip() for part in line.strip("|").split("|"))
        found[point, resumers] = dict(zip(HEAD[_NAMES:], map(int, numbers), strict=True))
    return found

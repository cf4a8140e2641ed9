"""A picture of one Task and what its Host hides, cut from the model of the contract kit.

The model has too many states for one picture. Drawn are the status, the owner and whether a pause
waits; folded away are a write that is under way and a run that lost the Task. The cut is honest:
`cells` refuses a drawn state that does not stand for all that is folded into it.
"""

from __future__ import annotations

import sys
from collections import Counter

from agentic_kernel import TaskStatus
from agentic_kernel_conformance.model import SILENT, Edge, Move, Owner, Point, edges, points

ENDED = "ended"
FOLDED = frozenset({Move.BEGIN, Move.REFUSE, Move.DROP})
"""Moves that depend on what is folded away; none of them leaves the state that is drawn."""


def cell(point: Point) -> str:
    """The drawn state that a state of the model belongs to."""
    if point.status.terminal:
        return ENDED
    if point.status is not TaskStatus.RUNNING:
        return str(point.status.value)
    return {Owner.ALIVE: "alive", Owner.DEAD: "dead", Owner.NOBODY: "free"}[point.owner] + (
        "_asked" if point.pause_waits else ""
    )


LABELS = {
    "not_started": "not_started",
    "alive": "owned by a living host",
    "alive_asked": "owned by a living host,<br>a pause waits",
    "dead": "owned by a dead host",
    "dead_asked": "owned by a dead host,<br>a pause waits",
    "free": "owned by nobody",
    "paused": "paused",
    ENDED: "success, failure<br>or cancelled",
}
OWNED = ("alive", "alive_asked", "dead", "dead_asked")
RUNNING = (*OWNED, "free")


def cells() -> dict[str, list[Point]]:
    """The states of the model by the drawn state that stands for them.

    Raises:
        SystemExit: Two states that are drawn as one do not have the same drawn moves.
    """
    found: dict[str, list[Point]] = {name: [] for name in LABELS}
    for point in sorted(points()):
        found[cell(point)].append(point)
    for name, together in found.items():
        leaving = {
            point: {
                (edge.move, cell(edge.after))
                for edge in edges()
                if edge.before == point and edge.move not in FOLDED
            }
            for point in together
        }
        if len({frozenset(moves) for moves in leaving.values()}) != 1:
            sys.exit(
                f"{name!r} in integration/pages/hidden.py folds states together "
                "that may do different things"
            )
    return found


def drawn() -> dict[tuple[str, str], list[Move]]:
    """The arrows, each once: what leads from one drawn state to another."""
    found: dict[tuple[str, str], list[Move]] = {}
    for edge in edges():
        if _is_arrow(edge):
            moves = found.setdefault((cell(edge.before), cell(edge.after)), [])
            if edge.move not in moves:
                moves.append(edge.move)
    return found


def picture() -> str:
    """The arrows as a Mermaid flow chart; one that all states of a box share starts at the box."""
    cells()
    found = drawn()
    lines: dict[tuple[str, str], list[Move]] = {}
    for (before, after), moves in found.items():
        for move in moves:
            sharing = {one for (one, end), along in found.items() if end == after and move in along}
            line = lines.setdefault((_start(before, sharing), after), [])
            if move not in line:
                line.append(move)
    chart = ["flowchart LR", '    not_started(["not_started"])']
    chart += ["    subgraph running", '        subgraph owned["a host owns it"]']
    chart += [f'            {name}["{LABELS[name]}"]' for name in OWNED]
    chart += ["        end", f'        free["{LABELS["free"]}"]', "    end"]
    chart += [f'    {name}(["{LABELS[name]}"])' for name in ("paused", ENDED)]
    for (before, after), moves in lines.items():
        text = ",<br>".join(move.value for move in moves)
        chart.append(f'    {before} -->|"{text}"| {after}')
    return "\n".join(chart)


def drawn_states() -> str:
    """How many states of the model each drawn state stands for, as a Markdown table."""
    rows = ["| drawn | stands for | folded into it |", "|---|---|---|"]
    for name, together in cells().items():
        ways = [
            text
            for text, seen in (
                ("three ends", {point.status for point in together}),
                ("a write under way or none", {point.under_way for point in together}),
                ("a run that lost the Task or none", {point.stale for point in together}),
            )
            if len(seen) > 1
        ]
        label = LABELS[name].replace("<br>", " ")
        rows.append(f"| {label} | {len(together)} | {', '.join(ways) or '–'} |")
    return "\n".join([*rows, f"| **all** | **{len(points())}** | |"])


def arrows() -> str:
    """How many moves of the model each move stands for, as a Markdown table."""
    counted = Counter(edge.move for edge in edges())
    shown = Counter(move for moves in drawn().values() for move in moves)
    rows = ["| move | leaves in the store | pairs of drawn states | moves of the model |"]
    rows.append("|---|---|---|---|")
    for move in Move:
        left = "nothing" if move in SILENT else "one commit"
        pairs = shown[move] or "stays where it is"
        rows.append(f"| {move.value} | {left} | {pairs} | {counted[move]} |")
    total = f"| **all** | | **{sum(shown.values())}** | **{len(edges())}** |"
    return "\n".join([*rows, total])


def _start(before: str, sharing: set[str]) -> str:
    """The largest box around a state all of whose states share an arrow, or the state."""
    boxes = (("running", RUNNING), ("owned", OWNED))
    fitting = (box for box, inside in boxes if before in inside and sharing.issuperset(inside))
    return next(fitting, before)


def _is_arrow(edge: Edge) -> bool:
    return cell(edge.before) != cell(edge.after)

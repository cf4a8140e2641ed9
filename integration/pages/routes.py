"""What the Loop's own tables say, for its page: the routes of actions, and the events."""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise
from typing import Final

from agentic_kernel_engine.loop import ROUTES, Route
from agentic_kernel_engine.plans import vocabulary
from agentic_kernel_engine.plans.action import ACTIONS

_WORDS: Final = {
    Route.CALL: "the tool is called",
    Route.DELEGATE: "it is done",
    Route.RECORD: "it goes on record",
    Route.FINISH: "the Task ends well",
    Route.ASK: "the Task pauses for an answer",
    Route.SLEEP: "the Task pauses until then",
    Route.STOP: "the run ends",
    Route.REFUSE: "it is denied",
    Route.APPROVE: "the Task pauses for an approval",
}


def routes() -> str:
    """Every cell of the matrix decision × action, as a Markdown table."""
    head = "| | " + " | ".join(f"`{verdict}`" for verdict in ROUTES) + " |"
    rows = [
        f"| `{action.__name__}` | "
        + " | ".join(_WORDS[row[action]] for row in ROUTES.values())
        + " |"
        for action in ACTIONS
    ]
    return "\n".join([head, "|---" * (len(ROUTES) + 1) + "|", *rows])


def events() -> str:
    """Every type of event with what its docstring says, as a Markdown table."""
    rows = []
    body = ast.parse(inspect.getsource(vocabulary)).body
    for constant, doc in pairwise(body):
        match constant, doc:
            case (
                ast.AnnAssign(value=ast.Constant(value=str(kind))),
                ast.Expr(value=ast.Constant(value=str(text))),
            ) if kind in vocabulary.LOOP_EVENTS:
                meaning, _, data = " ".join(text.split()).replace("``", "`").partition("Data: ")
                rows.append(f"| `{kind}` | {meaning.strip()} | {data} |")
    if len(rows) != len(vocabulary.LOOP_EVENTS):
        raise ValueError("an event of the Loop has no docstring; write one under its constant")
    return "\n".join(["| type | when | data |", "|---|---|---|", *rows])

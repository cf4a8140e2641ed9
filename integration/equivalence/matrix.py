"""Matrix: which scenario every runtime plays alike, found out by playing it.

``python -m integration.equivalence.matrix`` writes ``docs/equivalence.md``.
"""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from agentic_kernel_engine import Store

from ..programs import parser
from . import runtimes
from .pages import DOCS, table
from .runtimes.reference import Runtime as Reference
from .scenarios import SCENARIOS, Scenario, Stage
from .setting import Subject
from .shown import Line
from .trace import Trace, trace

PAGE: Final = DOCS / "equivalence.md"
SECONDS: Final = 60.0
"""How long one scenario may take."""
NAMES: Final = sorted(
    module.name for module in pkgutil.iter_modules(runtimes.__path__) if module.name != "reference"
)
"""The runtimes under comparison, by module."""
SAME: Final = "same"
CLOSED: Final = "closed"
HEAD: Final = """\
# Equivalence

A Task does the same on every runtime: its snapshots and its events are the same, whoever answers.
Each scenario is played on each runtime and held against the *reference*, a script in the Loop
without any wire. Written by `python -m integration.equivalence.matrix`.

This page is about two claims. The tables show the first one: a Task does not depend on the runtime
that does it. The last section is about the second one: unlike products can stand on one kernel.

"""
LEGEND: Final = """
All but local are the vendors' real clients over HTTP against aimock, a scripted server by others; a
refusal, which aimock does not know, comes from a small server of this project. The local runtime is
a real model whose decoding admits nothing but the scripted answer. None of it was run against a
vendor's own servers.

**Compared** are status, result, failure, supplements and notes of the Task, all events with their
data, in order, and the text that was on its way; and what the model was shown, request by request,
in the one form into which aimock brings all wires. Of the scenarios with pictures, it is the
pictures in the bytes of each request, at a small server of this project.

**Left out** is what cannot be the same: ids, times, names of Hosts, usage, the name of the model, a
vendor's own items and names of calls; of a failure that a vendor reported, the vendor's part of the
code (`openai/refusal`, `claude/refusal`) and its words. Pieces of text are merged, since every
server cuts them otherwise; what had been said of a long answer when it was paused or killed must be
a beginning of that answer.

"""
PRODUCTS: Final = """
## Unlike products on one kernel

Invariant 2 of the book is Architectural Equivalence: unlike agentic products, with their own
methods, words, substrates and stores, stand on the same kernel, and the kernel has nothing that
belongs to one of them. `integration/products/builds` is a build runner without any model.
`integration/products/helpdesk` is a help desk with a model, memory, approvals and many users. Both
use the kernel and the engine as they are, and the kit gates both. Their `README.md` files say what
the kernel gave them and what they had to bring.

"""
_CONCEPTS: Final = (
    (
        "Task",
        "one attempt to make a target; its number is part of the id",
        "one message of a customer; a later one goes on with an earlier one",
    ),
    (
        "instructions",
        "the recipe: commands, inputs and outputs",
        "the customer's words",
    ),
    (
        "substrate",
        "a process for each line of the recipe",
        "a Loop with a planner and two tools",
    ),
    (
        "state of a run",
        "the number of lines that are done, and if the next one has begun",
        "the Loop's: the plan at hand, the transcript's place, what was spent",
    ),
    (
        "result",
        "the digests of the outputs",
        "the answer to the customer",
    ),
    (
        "failure",
        "a line that failed, an input that changed, an output that is missing",
        "a limit that was reached, a provider that failed",
    ),
    (
        "an effect whose outcome is unknown",
        "a line that was cut off: run again and named, or refused",
        "none: a refund has a key and is repeated without a second payment",
    ),
    (
        "pause",
        "after the line that is running",
        "for an approval, for the customer's reply, for the next worker",
    ),
    (
        "kill",
        "ends all processes of the target",
        "withdraws the ticket",
    ),
    (
        "events",
        "the lines as they begin, and their output",
        "tool calls, requests, decisions and replies",
    ),
    (
        "who acts",
        "nobody: Tasks have no principal",
        "the customer; one worker serves all of them",
    ),
    (
        "who decides",
        "nobody",
        "people, from other processes",
    ),
    (
        "at the same time",
        "targets whose needs are made",
        "as many tickets as a worker has slots, on any number of workers",
    ),
    (
        "store",
        "SQLite, on one machine",
        "Postgres, for any number of machines",
    ),
    (
        "planner, model, memory, approvals",
        "none",
        "all of them",
    ),
)
"""The same word of the kernel in both products."""


def runtime(name: str) -> Any:
    """The class of the runtime in this module."""
    return importlib.import_module(f"{runtimes.__name__}.{name}").Runtime


@contextmanager
def subject(name: str) -> Iterator[Subject]:
    """The runtime of this module, with whatever it needs; let go of at the end."""
    with ExitStack() as keep:
        yield runtime(name)(keep)


@dataclass(frozen=True)
class Played:
    """What can be observed of a scenario on a runtime."""

    traces: Sequence[Trace]
    """Of its Tasks."""
    shown: Sequence[Sequence[Line]]
    """What the model was shown, request by request."""


async def played(
    scenario: Scenario, on: Subject, store: Store | None = None, seconds: float = SECONDS
) -> Played:
    """Play a scenario.

    Args:
        store: Keeps the Tasks; None for memory.
        seconds: How long it may take.

    Raises:
        TimeoutError: It took too long.
    """
    setting = replace(scenario.setting(), store=store)
    traces = []
    async with asyncio.timeout(seconds), on.runtime(setting) as host:
        stage = Stage(host, on.kind, Reference("elsewhere"), setting)
        for task in await scenario.play(stage):
            outcome = await host.outcome(task.id)
            traces.append(trace(outcome.task, outcome.events))
    return Played(traces, setting.shown)


async def reference(scenario: Scenario) -> Played:
    """What is to be observed of a scenario."""
    return await played(scenario, Reference())


def comparable(seen: Played, scenario: Scenario, on: Subject) -> Played:
    """What was seen of a scenario, as far as it is compared on a runtime."""
    traces = [on.comparable(each) for each in seen.traces]
    return Played(traces, [] if scenario.name in on.unseen else seen.shown)


async def verdict(scenario: Scenario, on: Subject) -> str:
    """What the page says of a scenario on a runtime."""
    if scenario.name in on.closed:
        return CLOSED
    wanted = comparable(await reference(scenario), scenario, on)
    found = comparable(await played(scenario, on), scenario, on)
    return SAME if found == wanted else "differs"


def page(verdicts: Mapping[str, Sequence[str]]) -> str:
    """The page, from the verdicts on each scenario in the order of `NAMES`."""
    made = [runtime(name) for name in NAMES]
    head = ["scenario", "shows", *(each.name for each in made)]
    rows = [[each.name, each.shows, *verdicts[each.name]] for each in SCENARIOS]
    closed = [[each.name, name, each.closed[name]] for each in made for name in each.closed]
    unseen = [[each.name, name, why] for each in made for name, why in _unseen(each).items()]
    otherwise = "".join(f"- {each.name}: {what}\n" for each in made for what in each.otherwise)
    return (
        HEAD
        + table(head, rows)
        + LEGEND
        + "## What a runtime does otherwise in every scenario\n\n"
        + otherwise
        + "\n## What is closed\n\n"
        + table(["runtime", "scenario", "why"], closed)
        + "\n## Where what the model is shown is not compared\n\n"
        + table(["runtime", "scenario", "why"], unseen)
        + PRODUCTS
        + table(("concept", "build runner", "help desk"), _CONCEPTS)
    )


def _unseen(made: Any) -> dict[str, str]:
    """What is not compared although it is played; as one line where it is all."""
    open_ones = {name: why for name, why in made.unseen.items() if name not in made.closed}
    if len(open_ones) + len(made.closed) == len(SCENARIOS):
        return {"all": next(iter(open_ones.values()))}
    return open_ones


def main(arguments: Sequence[str] | None = None) -> None:
    """Play everything, and write the page."""
    parser("integration.equivalence.matrix", __doc__).parse_args(arguments)
    verdicts: dict[str, list[str]] = {scenario.name: [] for scenario in SCENARIOS}
    for name in NAMES:
        with subject(name) as on:
            for scenario in SCENARIOS:
                verdicts[scenario.name].append(asyncio.run(verdict(scenario, on)))
    PAGE.write_text(page(verdicts), encoding="utf-8")
    print(f"wrote {PAGE.name}")


if __name__ == "__main__":
    main()

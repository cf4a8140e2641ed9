"""Counts: what a Task of some turns costs on a runtime and a store, in numbers that no load moves.

``python -m integration.equivalence.counts`` writes ``counts.json`` beside this module, which the
tests compare with what they count.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from agentic_kernel import Task, TaskStatus
from agentic_kernel_conformance.counted_store import CountedStore
from agentic_kernel_engine import Limits, MemoryStore, Store

from ..programs import parser
from .matrix import SECONDS, subject
from .runtimes.reference import Runtime as Reference
from .scenarios import Scenario, Stage, add
from .script import Call, Calls, Says
from .setting import Setting, Subject
from .vendor import Vendor

PAGE: Final = Path(__file__).with_name("counts.json")
TURNS: Final = 8
"""Turns of the counted Task, each with a call of a tool; then it answers."""
NEVER: Final = 3_600.0
"""Seconds between two looks of the Host at the store: it does not look again by itself."""
HTTP: Final = ("claude", "gemini", "ollama", "openai_chat", "openai_responses")
"""The runtimes, by module, that the gate counts beside the reference; the others take long."""
OURS: Final = "agentic_kernel"
"""How the names of our modules begin."""


def turning(turns: int, *, on: Subject | None = None) -> Scenario:
    """A scenario of so many turns with a call each, and an answer.

    Args:
        on: The runtime; a session of the Copilot CLI keeps no limit but that of its turns.
    """
    calls = [Calls([Call("add", {"a": turn % 10, "b": 1})]) for turn in range(turns)]
    backstop = turns + 1
    limits = Limits(max_iterations=backstop, max_repeats=backstop, max_non_progress=backstop)
    if on is not None and on.kind == "copilot":
        limits = Limits(max_iterations=backstop)

    async def play(stage: Stage) -> Sequence[Task]:
        return [await stage.host.run(stage.task("Add one, again and again."))]

    return Scenario(
        "turns", "a Task of many turns", [*calls, Says("Done.")], play, [add],
        options=lambda: {"limits": limits},
    )  # fmt: skip


def settled(scenario: Scenario, store: Store) -> Setting:
    """The setting of a scenario on a store that the Host does not look at by itself."""
    return replace(scenario.setting(), store=store, interval=NEVER)


async def counts(on: Subject, store: Store, seconds: float = SECONDS) -> dict[str, int]:
    """Count one Task of `TURNS` turns.

    Args:
        seconds: How long it may take.

    Raises:
        TimeoutError: It took too long.
        AssertionError: It did not end well.
    """
    scenario, seen = turning(TURNS, on=on), CountedStore(store)
    setting = settled(scenario, seen)
    async with asyncio.timeout(seconds), on.runtime(setting) as host:
        (task,) = await scenario.play(Stage(host, on.kind, Reference("elsewhere"), setting))
        assert task.status is TaskStatus.SUCCESS, task
        found = cost(seen)
    if isinstance(on, Vendor):
        found["requests"] = len(on.peer.requests())
    return found


def cost(seen: CountedStore) -> dict[str, int]:
    """What a store was asked, and given: of the last write and of flushes the clock decides."""
    owned = [each for each in seen.writes if each.owned and not each.flush]
    return {
        "inserts": seen.calls["insert"],
        "commits": len(owned),
        "bytes": sum(each.bytes for each in owned if not each.last),
        "reads": sum(seen.calls[name] for name in ("load", "load_many", "events")),
    }


@contextmanager
def calls(found: list[int]) -> Iterator[None]:
    """Add the number of calls of our own Python functions in the block.

    Functions of others do not count, because their releases change them; nor does a collection of
    garbage, which may call anything.
    """
    number = 0

    def count(frame: Any, event: str, _: Any) -> None:
        nonlocal number
        number += event == "call" and frame.f_globals.get("__name__", "").startswith(OURS)

    gc.disable()
    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(None)
        gc.enable()
        found.append(number)


async def calls_per_turn(store: Store) -> float:
    """Calls of our functions that a turn of the reference makes on a store that never waits."""
    few, many = TURNS, 3 * TURNS
    found: list[int] = []
    for turns in (few, few, many):  # The first run fills caches.
        scenario = turning(turns)
        setting = settled(scenario, store)
        async with asyncio.timeout(SECONDS), Reference().runtime(setting) as host:
            stage = Stage(host, "reference", Reference("elsewhere"), setting)
            with calls(found):
                await scenario.play(stage)
    return (found[2] - found[1]) / (many - few)


def recorded() -> dict[str, Any]:
    """The counts that were accepted last."""
    found: dict[str, Any] = json.loads(PAGE.read_text(encoding="utf-8"))
    return found


async def _counted(on: Mapping[str, Subject]) -> dict[str, Any]:
    """Of each runtime on memory; that the other stores cost the same is what the tests hold."""
    found = {name: await counts(each, MemoryStore()) for name, each in on.items()}
    return {"calls per turn": await calls_per_turn(MemoryStore()), "runtimes": found}


def main(arguments: Sequence[str] | None = None) -> None:
    """Count everything that the gate counts, and write it down."""
    parser("integration.equivalence.counts", __doc__).parse_args(arguments)
    with ExitStack() as keep:
        on: dict[str, Subject] = {name: keep.enter_context(subject(name)) for name in HTTP}
        on["reference"] = Reference()
        found = asyncio.run(_counted(on))
    PAGE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {PAGE.name}")


if __name__ == "__main__":
    main()

"""Compactors that make no sense are not heard, and the run goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from agentic_kernel_engine.plans.limits import Remaining
from agentic_kernel_engine.plans.transcript import (
    Entry,
    Notice,
    Transcript,
)
from agentic_kernel_engine.seams.compactor import Compaction

from ..scripting import Runner
from .compacting import Counting, Says, compacted

NONSENSE: dict[str, Callable[[Sequence[Entry]], Any]] = {
    "it replaces -1 entries": lambda shown: Compaction(-1, "x"),
    "it replaces 0 entries": lambda shown: Compaction(0, "x"),
    "it replaces 99 entries": lambda shown: Compaction(99, "x"),
    "its summary has 0 characters": lambda shown: Compaction(len(shown), ""),
    "its summary has 3 characters": lambda shown: Compaction(len(shown), " \n "),
    "its summary has 10,000,000 characters": lambda shown: Compaction(len(shown), "x" * 10**7),
    "its summary: holds a NUL": lambda shown: Compaction(len(shown), "x\0"),
    "its summary: holds the lone surrogate": lambda shown: Compaction(len(shown), "\ud800"),
    "its Compaction is not made of": lambda shown: Compaction("2", "x"),  # type: ignore[arg-type]
    "it gave a tuple": lambda shown: (2, "x"),
    "it raised ZeroDivisionError": lambda shown: 1 // 0,
}


@pytest.mark.parametrize("why", NONSENSE)
async def test_a_compactor_that_makes_no_sense_is_not_heard(runner: Runner, why: str) -> None:
    planner = Counting(3)
    done = await runner.run(planner=planner, compactor=Says(NONSENSE[why]))
    events = await runner.events(done)
    said = [event.data["why"] for event in events if event.type == "run.not_compacted"]
    assert done.result == 3
    assert len(said) == 4
    assert all(text.startswith(why) for text in said)
    assert planner.longest == 4
    assert compacted(events) == []


class Later:
    """A compactor that is a coroutine function, which none can be."""

    async def compact(self, transcript: Transcript, remaining: Remaining) -> Any:
        return Compaction(len(transcript), "x")


async def test_a_compactor_that_gives_a_coroutine_is_not_heard(runner: Runner) -> None:
    done = await runner.run(planner=Counting(3), compactor=Later())
    events = await runner.events(done)
    said = [event.data["why"] for event in events if event.type == "run.not_compacted"]
    assert done.result == 3
    assert len(said) == 4
    assert all(text.startswith("it gave a coroutine") for text in said)


class Text(str):
    __slots__ = ()


async def test_a_summary_that_no_codec_knows_does_not_end_the_run(runner: Runner) -> None:
    says = Says(lambda shown: Compaction(len(shown), Text("x")))
    done = await runner.run(planner=Counting(3), compactor=says)
    assert done.result == 3
    assert compacted(await runner.events(done)) == []


def _measured_too(shown: Any) -> Compaction:
    shown.append(Notice("hello"))
    assert shown.size
    return Compaction(2, "x")


MEDDLING: dict[str, Callable[[Any], Any]] = {
    "append": lambda shown: shown.append(Notice("hello")),
    "extend": lambda shown: shown.extend([Notice("hello")] * 3),
    "append, measure and compact": _measured_too,
    "pop": lambda shown: shown.pop(),
    "clear": lambda shown: shown.clear(),
    "insert": lambda shown: shown.insert(0, Notice("hello")),
    "reverse": lambda shown: shown.reverse(),
    "sort": lambda shown: shown.sort(key=str),
    "remove": lambda shown: shown.remove(shown[0]),
    "delete": lambda shown: shown.__delitem__(slice(0, 1)),
    "set": lambda shown: shown.__setitem__(0, Notice("hello")),
    "multiply": lambda shown: shown.__imul__(0),
}


@pytest.mark.parametrize("how", MEDDLING)
async def test_a_compactor_that_changes_the_transcript_changes_nothing(
    runner: Runner, how: str
) -> None:
    plain, planner = Counting(4), Counting(4)
    await runner.run(planner=plain)
    done = await runner.run(planner=planner, compactor=Says(MEDDLING[how]))
    events = await runner.events(done)
    assert planner.shown == plain.shown
    said = [event.data["why"] for event in events if event.type == "run.not_compacted"]
    assert len(said) == 5
    assert all("changed the transcript" in text or "only appended to" in text for text in said), (
        said
    )
    assert planner.largest == plain.largest

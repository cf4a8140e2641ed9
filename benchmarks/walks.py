"""Counts the files that one Task passes through: `python benchmarks/walks.py`.

There are two walks, both on a `MemoryStore`:

- a Task through the Host: it is dispatched, commits one checkpoint, and is complete;
- one tool call of a bounded Loop: the whole turn, from one `Loop.step` to the next. It plans with a
  `ScriptedPlanner`, calls one tool, and commits.

For each walk and package there are two numbers: how many distinct files are entered, and how often
the file changes from one call to the next call in this package. A call is the entry of a Python
function. A coroutine that goes on after an ``await`` is no new call; neither is a return.

Only what runs for the Task is counted. The Task is dispatched in a context of its own, which the
coroutines and callbacks that it starts inherit; the Host's own work (its watch) has another one.
One Task has run before, so that nothing is counted that happens once in a process.

The numbers are printed. Nothing is recorded and nothing fails; `benchmarks/run.py` ignores this
module, because it has no function `measure`.
"""

from __future__ import annotations

import asyncio
import dis
import gc
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from contextvars import ContextVar, copy_context
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any, Final

import agentic_kernel
import agentic_kernel_engine
from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Host, Job, Limits, Loop, MemoryStore, Substrate, tool
from agentic_kernel_engine.loop import FinalAnswer, ToolCall
from agentic_kernel_engine.seams import ScriptedPlanner

PACKAGES: Final = (agentic_kernel_engine, agentic_kernel)
PASSES: Final = 200
"""Passes of the event loop in which a Task ends, and the Host forgets it."""
_WALKED: Final = ContextVar("_WALKED", default=False)
"""True in the context of the Task that is followed."""


def main() -> None:
    """Print the two numbers of each walk, and its files in the order in which they are entered."""
    ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter).parse_args()
    walks = {
        "a Task through the Host": asyncio.run(calls(Checkpointing())),
        "one tool call of a Loop": turn(asyncio.run(calls(calling()))),
    }
    names = [package.__name__ for package in PACKAGES]
    print("| walk |" + "".join(f" files of {name} | changes of file |" for name in names))
    print("|---|" + "--:|--:|" * len(names))
    for walk, called in walks.items():
        cells = (
            (len(set(files)), changes(files)) for files in (inside(called, p) for p in PACKAGES)
        )
        print(f"| {walk} |" + "".join(f" {entered} | {changed} |" for entered, changed in cells))
    for walk, called in walks.items():
        for package in PACKAGES:
            entered = list(dict.fromkeys(inside(called, package)))
            print(f"\n{walk}, {package.__name__}: {len(entered)} files")
            for number, name in enumerate(entered, 1):
                print(f"{number:4}  {name}")


class Checkpointing:
    """A substrate that commits one checkpoint and is done."""

    async def execute(self, job: Job) -> Any:
        await job.checkpoint({"n": 1})
        return "done"


def calling() -> Loop:
    """A Loop of two turns with a tool call each, and an answer."""

    @tool(effect="none")
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    script = (ToolCall("add", {"a": 1, "b": 2}), ToolCall("add", {"a": 3, "b": 4}))
    planner = ScriptedPlanner(*script, FinalAnswer("done"))
    return Loop(planner, [add], limits=Limits(max_iterations=4))


async def calls(substrate: Substrate) -> list[CodeType]:
    """Every call of Python code that is made for one Task, in order."""
    made: list[CodeType] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and _WALKED.get() and frame.f_lasti <= _entry(frame.f_code):
            made.append(frame.f_code)

    async with Host(substrate, MemoryStore()) as host:
        warm, task = (Task.new(summary="", instructions="", runtime_kind="walk") for _ in range(2))
        await host.run(warm)
        own = copy_context()
        own.run(_WALKED.set, True)
        # A collection may run finalizers of other Tasks at any moment.
        gc.collect()
        gc.disable()
        sys.setprofile(note)
        try:
            await asyncio.create_task(host.dispatch(task), context=own)
            for _ in range(PASSES):
                await asyncio.sleep(0)
        finally:
            sys.setprofile(None)
            gc.enable()
        ended = await host.get(task.id)
        assert ended.status is TaskStatus.SUCCESS, f"{ended.status} after {PASSES} passes"
    return made


@cache
def _entry(code: CodeType) -> int:
    """The offset at which a function begins; a coroutine goes on at a later one."""
    return next(each.offset for each in dis.get_instructions(code) if each.opname == "RESUME")


def turn(called: Sequence[CodeType]) -> Sequence[CodeType]:
    """The calls of the second turn; the first one has to settle in."""
    _, begins, ends = (at for at, code in enumerate(called) if code is Loop.step.__code__)
    return called[begins:ends]


def inside(called: Sequence[CodeType], package: ModuleType) -> list[str]:
    """The file of each call in a package, relative to the package."""
    folder = Path(package.__path__[0])
    files = (Path(code.co_filename) for code in called)
    return [str(file.relative_to(folder)) for file in files if file.is_relative_to(folder)]


def changes(files: Sequence[str]) -> int:
    """How often a call is in another file than the call before it."""
    return sum(before != after for before, after in pairwise(files))


if __name__ == "__main__":
    main()

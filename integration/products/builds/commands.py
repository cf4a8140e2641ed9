"""Commands: what each word of the command line does; each returns the exit status."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta

from agentic_kernel import Task
from agentic_kernel_engine import Host, Record, drain_on_signals

from .builder import GOOD, Builder, end_of, latest_of, verdict_of
from .place import LEASE, Place, Progress
from .processes import end_processes
from .shelf import MistakeError
from .targets import read_plan
from .telling import Telling, line, tell
from .workshop import KIND, Recipe, Workshop

_ROUND = 0.5
"""Seconds between two looks for Tasks that have begun."""
_ELSEWHERE = f"a process has it; if that process died, try again after {LEASE:g} s"


async def build(given: argparse.Namespace) -> int:
    """Make the targets; 0 if all are fresh, made or restored."""
    plan = read_plan(given.file)
    plan.order(given.targets)
    with Place(given.state) as place:

        async def work(host: Host) -> int:
            verdicts = await Builder(plan, host, place.shelf, tell).build(given.targets)
            return 0 if all(each.outcome in GOOD for each in verdicts) else 1

        return await _serve(given, place, work)


async def resume(given: argparse.Namespace) -> int:
    """Go on with what no living process has; 0 if no target is left unmade."""
    with Place(given.state) as place:
        begun = await _begun(place, given.targets)
        left = [each.task for each in begun if await place.left(each)]
        if not left:
            for each in begun:
                line("making", each.task.summary, f"{Progress.of_record(each)}; {_ELSEWHERE}")
            print("nothing is left to go on with")
            return 1 if begun else 0

        async def work(host: Host) -> int:
            ended = await asyncio.gather(*(end_of(host, task, tell) for task in left))
            verdicts = [verdict_of(task) for task in ended]
            for verdict in verdicts:
                tell(verdict)
            return 0 if all(each.outcome in GOOD for each in verdicts) else 1

        return await _serve(given, place, work)


async def status(given: argparse.Namespace) -> int:
    """Say of each target how it is; 0."""
    plan = read_plan(given.file)
    with Place(given.state) as place:
        async with Host(store=place.store) as host:
            builder = Builder(plan, host, place.shelf, tell)
            for target, (verdict, task) in (await builder.status(given.targets)).items():
                if task is None or task.status.terminal:
                    tell(verdict)
                    continue
                record = await place.store.load(task.id)
                if await place.left(record):
                    remedy = "`resume` or `build` goes on"
                    line("left", target, f"{Progress.of_record(record)}; {remedy}")
                else:
                    line("making", target, str(Progress.of_record(record)))
    return 0


async def watch(given: argparse.Namespace) -> int:
    """Print the progress and the output of what is being made, until nothing is; 0."""
    telling, followed = Telling(output=True), dict[str, asyncio.Task[None]]()
    with Place(given.state) as place:
        async with Host(store=place.store) as host:

            async def follow(task: Task) -> None:
                async for event in host.watch(task.id):
                    telling.observe(task.id, event)
                telling.ended(task.id)
                tell(verdict_of(await host.get(task.id)))

            begun = await _begun(place, given.targets)
            try:
                while living := [each for each in begun if not await place.left(each)]:
                    for record in living:
                        if record.task.id not in followed:
                            follower = asyncio.create_task(follow(record.task))
                            followed[record.task.id] = follower
                    await asyncio.wait(followed.values(), timeout=_ROUND)
                    begun = await place.begun(given.targets)
                left = {record.task.id for record in begun}
                await asyncio.gather(*(each for id, each in followed.items() if id not in left))
            finally:
                for follower in followed.values():
                    follower.cancel()
            for record in begun:
                line("left", record.task.summary, "no process makes it; `resume` goes on")
            if not (followed or begun):
                print("nothing is being made")
    return 0


async def log(given: argparse.Namespace) -> int:
    """Print the output of the last build of a target; 0."""
    with Place(given.state) as place:
        async with Host(store=place.store) as host:
            _, task = await latest_of(host, given.target)
            if task is None:
                raise MistakeError(f"target {given.target!r} has no build here; build it first")
            for event in (await host.outcome(task.id)).events:
                if event.type == "run.delta":
                    sys.stdout.write(event.data["text"])
                elif event.type == "build.line_unknown":
                    print(f"[{event.data['why']}; it is run again]")
            if task.failure is not None:
                sys.stdout.flush()
                print(f"{task.failure.code}: {task.failure.message}", file=sys.stderr)
    return 0


async def stop(given: argparse.Namespace) -> int:
    """End builds, in whichever process they run; 0 if there was one for each name."""
    if bool(given.targets) == given.all:
        raise MistakeError("name the targets to stop, or use --all, and not both")
    stopped = set[str]()
    with Place(given.state) as place:
        async with Host(Workshop(), place.store, runtime_kinds=[KIND], claims=False) as host:
            for record in await place.begun(given.targets):
                if (await host.kill(record.task.id)).changed:
                    stopped.add(record.task.summary)
                # The process that makes it does this, too, but later, and only if it is alive.
                await end_processes(Recipe.of(record.task).mark)
                line("stopped", record.task.summary)
    for name in given.targets:
        if name not in stopped:
            print(f"builds: {name} is not being made", file=sys.stderr)
    return 0 if stopped >= set(given.targets) else 1


async def clean(given: argparse.Namespace) -> int:
    """Forget ended builds; 0."""
    outputs = []
    if given.outputs:
        plan = read_plan(given.file)
        outputs = [plan.root / each for one in plan.targets.values() for each in one.outputs]
    with Place(given.state) as place:
        before = datetime.now(UTC) - timedelta(days=given.days)
        builds, files = await place.forget(before)
        print(f"forgot {builds:,} builds, removed {files:,} kept files")
    removed = 0
    for path in outputs:
        if path.is_file():
            path.unlink()
            removed += 1
    if given.outputs:
        print(f"removed {removed:,} outputs")
    return 0


async def _begun(place: Place, targets: Sequence[str]) -> list[Record]:
    """The Tasks that have not ended; it complains about a target without such a Task."""
    begun = await place.begun(targets)
    for name in sorted({*targets} - {each.task.summary for each in begun}):
        print(f"builds: {name} is not being made, and not left", file=sys.stderr)
    return begun


async def _serve(
    given: argparse.Namespace, place: Place, work: Callable[[Host], Awaitable[int]]
) -> int:
    """Do work on a Host that makes targets; a signal lets the running lines end first."""
    host = Host(
        Workshop(place.shelf), place.store, runtime_kinds=[KIND], claims=False,
        max_in_flight=given.jobs, observer=Telling(), interval=0.2,
    )  # fmt: skip
    async with host, drain_on_signals(host, timeout=given.grace) as stopping:
        working = asyncio.ensure_future(work(host))
        try:
            while stopping.signal is None and not working.done():
                await asyncio.wait({working}, timeout=0.1)
            if stopping.signal is None:
                return await working
            grace = f"{given.grace:g} s"
            again = "the same signal once more ends them at once"
            print(f"ending: running lines have {grace}; {again}", flush=True)
            await stopping.drained.wait()
            # While the Host drains it refuses new Tasks, which ends the work with an exception.
            if working.done() and working.exception() is None:
                return working.result()
        finally:
            working.cancel()
            await asyncio.wait({working})
    print("stopped; `build` or `resume` goes on with the next line of each recipe")
    return 128 + stopping.signal

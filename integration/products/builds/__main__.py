"""``python -m integration.products.builds``: build, status, log, stop."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from agentic_kernel import Task
from agentic_kernel_engine import Host, drain_on_signals

from ...sqlite_store import SQLiteStore
from .builder import FRESH, MADE, Builder, Verdict
from .targets import BuildFileError, read_plan
from .workshop import KIND, Workshop

LEASE = 5.0
"""Seconds after which another process takes over what a killed one was making."""


async def build(given: argparse.Namespace) -> int:
    """Make the targets; 0 if all are fresh or made."""
    plan = read_plan(given.file)
    plan.order(given.targets)
    with _Place(given.state) as store:
        host = Host(Workshop(), store, runtime_kinds=[KIND], interval=0.2)
        async with host, drain_on_signals(host) as stopping:
            building = asyncio.create_task(
                Builder(plan, host, given.jobs, _tell).build(given.targets)
            )
            drained = asyncio.create_task(stopping.drained.wait())
            await asyncio.wait({building, drained}, return_when=asyncio.FIRST_COMPLETED)
            drained.cancel()
            if not building.done():
                building.cancel()
                await asyncio.wait({building})
                print("stopped; build again to go on with the next line of each recipe")
                return 128 + (stopping.signal or 0)
            verdicts = await building
    return 0 if all(each.outcome in (FRESH, MADE) for each in verdicts) else 1


async def status(given: argparse.Namespace) -> int:
    """List what was made or is being made, the newest first."""
    with _Place(given.state) as store:
        for record in await store.find(kinds=[KIND], newest=True, limit=given.limit):
            print(f"{record.task.status:10} {record.task.summary:20} {record.task.id}")
    return 0


async def log(given: argparse.Namespace) -> int:
    """Print what the commands of a target wrote, the last time it was made."""
    with _Place(given.state) as store:
        async with Host(store=store) as host:
            task = await _newest(store, given.target)
            for event in (await host.outcome(task.id)).events:
                if event.type == "run.delta":
                    sys.stdout.write(event.data["text"])
            if task.failure is not None:
                print(f"{task.failure.code}: {task.failure.message}", file=sys.stderr)
    return 0


async def stop(given: argparse.Namespace) -> int:
    """Stop a target that is being made, in whichever process."""
    with _Place(given.state) as store:
        async with Host(store=store) as host:
            task = await _newest(store, given.target)
            receipt = await host.kill(task.id)
            print(f"{given.target}: {'stopped' if receipt.changed else 'is not being made'}")
    return 0 if receipt.changed else 1


async def _newest(store: SQLiteStore, target: str) -> Task:
    found = await store.find(kinds=[KIND], labels={"target": target}, newest=True, limit=1)
    if not found:
        raise BuildFileError(f"target {target!r} was never made here; build it first")
    return found[0].task


class _Place:
    """The store in a folder, opened for one command."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._store = SQLiteStore(folder / "builds.db", lease=LEASE)

    def __enter__(self) -> SQLiteStore:
        return self._store

    def __exit__(self, *_: object) -> None:
        self._store.close()


def _tell(verdict: Verdict) -> None:
    why = f": {verdict.why}" if verdict.why else ""
    print(f"{verdict.outcome:8} {verdict.target}{why}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit status."""
    parser = argparse.ArgumentParser(prog="builds", description="Make targets, each once.")
    parser.add_argument("--state", type=Path, default=Path(".builds"), metavar="FOLDER")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    one = commands.add_parser("build", help="make targets, and what they need")
    one.add_argument("targets", nargs="*", metavar="TARGET", help="all of them if none is named")
    one.add_argument("--file", type=Path, default=Path("builds.toml"), help="(builds.toml)")
    one.add_argument("-j", "--jobs", type=_count, default=2, help="how many at once (2)")
    one.set_defaults(act=build)
    one = commands.add_parser("status", help="list what was made, the newest first")
    one.add_argument("--limit", type=_count, default=20)
    one.set_defaults(act=status)
    one = commands.add_parser("log", help="print the output of a target")
    one.add_argument("target")
    one.set_defaults(act=log)
    one = commands.add_parser("stop", help="stop a target that is being made")
    one.add_argument("target")
    one.set_defaults(act=stop)
    given = parser.parse_args(arguments)
    try:
        return int(asyncio.run(given.act(given)))
    except BuildFileError as error:
        print(f"builds: {error}", file=sys.stderr)
        return 2


def _count(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 1_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to 1,000")
    return int(text)


if __name__ == "__main__":
    raise SystemExit(main())

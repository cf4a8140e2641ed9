"""Network: what becomes of a Task when the server behind its model does something wrong.

``python -m integration.equivalence.network`` writes ``docs/network-faults.md``.
"""

from __future__ import annotations

import asyncio
import json
import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from typing import Final

from agentic_kernel import Task
from agentic_kernel_engine import Host, Outcome
from agentic_kernel_engine.plans.vocabulary import STEP_OBSERVED
from agentic_kernel_engine.providers import failures

from ..peers.exchange import WELL
from ..peers.faults import FAULTS
from ..peers.faulty import FaultyServer
from ..programs import parser
from .matrix import NAMES, runtime
from .pages import DOCS, table
from .runtimes.copilot import Runtime as Copilot
from .scenarios import add
from .setting import Setting
from .vendor import KEY, Vendor

PAGE: Final = DOCS / "network-faults.md"
SILENCE: Final = 1.0
"""Seconds that a server may say nothing, where it never will."""
SECONDS: Final = 30.0
"""How long a Task may take to end."""
LONG_SECONDS: Final = 180.0
"""The same where a CLI asks again by itself."""
COLUMNS: Final = [name for name in NAMES if issubclass(runtime(name), Vendor)]
"""The runtimes that have a network between them and their model, by module."""
VENDORS: Final = [name for name in COLUMNS if runtime(name) is not Copilot]
"""Those that make their requests themselves."""
TOLD: Final = (*(name for name in FAULTS if "arguments" in name), "unknown_tool", "cut_in_call")
"""Faults of a call: the model is told of them, and asked for something else."""
HEAVY: Final = ("endless", "endless_text", "gzip_bomb")
"""Faults of so many bytes that each has a process of the CLI to itself."""
HEAD: Final = """\
# Network faults

What a Task ends in when the server behind its model does something wrong, one fault at a time, over
real HTTP with the vendors' real SDKs and the real Copilot CLI. Written by
`python -m integration.equivalence.network`.

"""
LEGEND: Final = """
A code stands for `<runtime>/<code>` as the Task's failure has it. ↻ marks what passes by itself: a
runtime asks again for it, two times at most, unless it is told otherwise; here nothing asks again,
so that the first answer is seen. The Copilot CLI asks again by itself, and nobody can tell it not
to: there every request meets the fault until the CLI gives up, after five more at most, and the
model's answer to being told of a bad call is a good one. *wait* says that the failure carries
`retry_after_ms`. *answered* is a Task that ended well: the fault did no harm, or the model was told
of it, by the error that is named, and went on; *misled* is one whose answer is another than the
server meant, which nothing on that wire gives away; *followed* is one that ended well at the
address of a redirect.

In every cell the Task has ended within its time, no connection is left open, the key is in nothing
that is kept of the Task, and what its failure says has no control characters. No redirect to a
private address was followed, with one exception: the Copilot CLI, which makes its requests itself,
follows one to the provider's own host in another spelling (`2130706433`, `0177.0.0.1`). Once those
are read as the address that they are, 127.0.0.1, the redirect leads to where the request came from,
so the CLI takes it for one within the same site; to another address it follows none. Most of its
faults are met by as many sessions at once of one process, which outlives them.
"""


@dataclass(frozen=True)
class Met:
    """How one Task met one fault."""

    outcome: Outcome
    followed: int
    """Redirects to a private address that were followed."""

    def cell(self) -> str:
        """What the page says of it."""
        failure = self.outcome.task.failure
        if failure is None:
            if self.followed:
                return "followed"
            if told := self._told():
                return f"answered, after `{told}`"
            return "answered" if self.outcome.task.result == "".join(WELL) else "misled"
        name = failure.code.partition("/")[2]
        wait = ", wait" if "retry_after_ms" in (failure.metadata or {}) else ""
        return f"`{name}`{wait}{' ↻' if name in failures.TRANSIENT else ''}"

    def leaks(self) -> bool:
        """Whether the key is anywhere in what is kept of the Task."""
        task, failure = self.outcome.task, self.outcome.task.failure
        kept = [task.metadata, task.result, [event.data for event in self.outcome.events]]
        if failure is not None:
            kept += [failure.code, failure.message, failure.metadata]
        return KEY in json.dumps(kept)

    def escapes(self) -> bool:
        """Whether what the failure says could steer a terminal."""
        failure = self.outcome.task.failure
        said = "" if failure is None else failure.message.replace("\n", "")
        return any(unicodedata.category(character) == "Cc" for character in said)

    def _told(self) -> str:
        for event in self.outcome.events:
            if event.type == STEP_OBSERVED:
                for observation in event.data["observations"]:
                    if observation.get("error"):
                        return str(observation["error"])
        return ""


def task(vendor: Vendor) -> Task:
    """A Task that one good answer ends."""
    return Task.new(summary="Sum", instructions="What is 1 + 2?", runtime_kind=vendor.kind)


async def met(vendor: Vendor) -> dict[str, Met]:
    """Run a Task for each fault, which its first request meets; later ones get a good answer.

    The Copilot CLI asks again by itself, so there every request meets it, but for `TOLD`.

    Raises:
        TimeoutError: A Task did not end, or left a connection open.
    """
    if isinstance(vendor, Copilot):
        return await _met_by_cli(vendor)
    found = await _met(vendor, [name for name in FAULTS if not FAULTS[name].holds], SECONDS)
    holding = [name for name in FAULTS if FAULTS[name].holds]
    for met_there in await asyncio.gather(*(_met(vendor, [name], SILENCE) for name in holding)):
        found |= met_there
    return {name: found[name] for name in FAULTS}


async def _met(vendor: Vendor, faults: Sequence[str], patience: float) -> dict[str, Met]:
    found: dict[str, Met] = {}
    setting = Setting((), [add], options={"middleware": ()})
    with FaultyServer(faults[0]) as server:
        async with vendor.host(server.url, setting, patience) as host:
            for fault in faults:
                server.play(fault, times=1)
                found[fault] = await _once(vendor, host, server, SECONDS)
    return found


async def _met_by_cli(vendor: Copilot) -> dict[str, Met]:
    holding = [name for name in FAULTS if FAULTS[name].holds]
    light = [name for name in FAULTS if name not in (*holding, *HEAVY)]
    found = await _met_at_once(vendor, holding, SILENCE)
    for met_there in await asyncio.gather(
        _met_in_turn(vendor, HEAVY), _met_at_once(vendor, light, SECONDS)
    ):
        found |= met_there
    return {name: found[name] for name in FAULTS}


async def _met_in_turn(vendor: Copilot, faults: Sequence[str]) -> dict[str, Met]:
    found: dict[str, Met] = {}
    for fault in faults:
        found |= await _met_at_once(vendor, [fault], SECONDS)
    return found


async def _met_at_once(vendor: Copilot, faults: Sequence[str], patience: float) -> dict[str, Met]:
    """Each fault has a server of its own, and its Task a session; the CLI outlives them all."""
    setting = Setting((), [add])
    with ExitStack() as keep:
        servers = {
            fault: keep.enter_context(FaultyServer(fault, times=1 if fault in TOLD else None))
            for fault in faults
        }
        urls = {fault: server.url for fault, server in servers.items()}
        async with AsyncExitStack() as entered:
            hosts = vendor.hosts(urls, setting, patience)
            for host in hosts.values():
                await entered.enter_async_context(host)
            ends = await asyncio.gather(
                *(_once(vendor, hosts[each], servers[each], LONG_SECONDS) for each in faults)
            )
            assert hosts[faults[0]].substrate.cli.starts == 1
    return dict(zip(faults, ends, strict=True))


async def _once(vendor: Vendor, host: Host, server: FaultyServer, seconds: float) -> Met:
    async with asyncio.timeout(seconds):
        done = await host.run(task(vendor))
        await asyncio.to_thread(server.wait_closed)
    return Met(await host.outcome(done.id), server.followed)


def page(found: Mapping[str, Sequence[str]]) -> str:
    """The page, from the cells of each fault in the order of `COLUMNS`."""
    head = ["fault", "what the server does", *(runtime(name).name for name in COLUMNS)]
    rows = [[f"`{name}`", fault.says, *found[name]] for name, fault in FAULTS.items()]
    return HEAD + table(head, rows) + LEGEND


def main(arguments: Sequence[str] | None = None) -> None:
    """Meet every fault, and write the page."""
    parser("integration.equivalence.network", __doc__).parse_args(arguments)
    found: dict[str, list[str]] = {fault: [] for fault in FAULTS}
    for name in COLUMNS:
        with ExitStack() as keep:
            cells = asyncio.run(met(runtime(name)(keep)))
        for fault, row in found.items():
            row.append(cells[fault].cell())
    PAGE.write_text(page(found), encoding="utf-8")
    print(f"wrote {PAGE.name}")


if __name__ == "__main__":
    main()

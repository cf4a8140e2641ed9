"""Every fault of the network ends in what the page says, and leaves nothing behind."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Final

import pytest

from ..peers.exchange import WELL
from ..peers.faults import FAULTS
from ..peers.faulty import FaultyServer
from .matrix import runtime
from .network import COLUMNS, PAGE, SECONDS, VENDORS, met, page, task
from .pages import cells
from .scenarios import add
from .setting import Setting
from .vendor import Vendor

QUICK: Final = [
    fault
    for fault, each in FAULTS.items()
    if not each.holds and fault not in ("endless", "gzip_bomb")
]
"""Faults that take neither time nor many bytes."""


FOLLOWED: Final = {"copilot": ["redirect_decimal", "redirect_octal"]}
"""Redirects to a private address that are followed, by runtime; the page says why."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        # The CLI asks again by itself, and waits in between.
        pytest.param(name, marks=[] if name in VENDORS else [pytest.mark.torture])
        for name in COLUMNS
    ],
)
async def test_every_fault_ends_as_the_page_says(name: str) -> None:
    with ExitStack() as keep:
        vendor = runtime(name)(keep)
        found = await met(vendor)
    said = cells(PAGE.read_text(encoding="utf-8"), vendor.name)
    assert {fault: each.cell() for fault, each in found.items()} == {
        fault: said[f"`{fault}`"] for fault in FAULTS
    }
    assert [fault for fault, each in found.items() if each.followed] == FOLLOWED.get(name, [])
    assert [fault for fault, each in found.items() if each.leaks()] == []
    assert [fault for fault, each in found.items() if each.escapes()] == []


@pytest.mark.slow
async def test_what_passes_by_itself_is_asked_again() -> None:
    """One fault of each such code on each runtime, all at once; none that asks for a wait."""
    text = PAGE.read_text(encoding="utf-8")
    with ExitStack() as keep:
        met: list[tuple[str, str]] = []
        runs = []
        for name in VENDORS:
            vendor = runtime(name)(keep)
            said = cells(text, vendor.name)
            for fault in {said[f"`{fault}`"]: fault for fault in QUICK}.values():
                if said[f"`{fault}`"].endswith("` ↻"):
                    met.append((name, fault))
                    runs.append(_once(vendor, fault))
        assert len(met) >= 4 * len(VENDORS)
        found = await asyncio.gather(*runs)
    assert dict(zip(met, found, strict=True)) == dict.fromkeys(met, ("".join(WELL), 2))


@pytest.mark.slow
async def test_what_does_not_pass_is_asked_again_twice_and_fails() -> None:
    with ExitStack() as keep:
        vendors = [runtime(name)(keep) for name in VENDORS]
        assert await asyncio.gather(*(_in_vain(vendor) for vendor in vendors)) == [
            (f"{vendor.kind}/overloaded", 3) for vendor in vendors
        ]


async def _once(vendor: Vendor, fault: str) -> tuple[str, int]:
    """What a Task came to whose first request met the fault, and how many it made."""
    with FaultyServer(fault, times=1) as server:
        async with vendor.host(server.url, Setting((), [add]), SECONDS) as host:
            done = await host.run(task(vendor))
        return done.result, len(server.requests)


async def _in_vain(vendor: Vendor) -> tuple[str, int]:
    """How a Task failed whose every request met a fault, and how many it made."""
    with FaultyServer("status_503") as server:
        async with vendor.host(server.url, Setting((), [add]), SECONDS) as host:
            failure = (await host.run(task(vendor))).failure
        assert failure is not None
        return failure.code, len(server.requests)


def test_the_page_has_every_fault_and_every_runtime() -> None:
    text = PAGE.read_text(encoding="utf-8")
    columns = [cells(text, runtime(name).name) for name in COLUMNS]
    rows = {fault: [column[f"`{fault}`"] for column in columns] for fault in FAULTS}
    assert text == page(rows)

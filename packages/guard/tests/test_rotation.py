"""Keys that rotate: nothing that holds is refused, in any process, at any time."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from agentic_kernel_guard import (
    CapabilityRequest,
    DefaultPolicy,
    Guard,
    Key,
    Keyring,
    Registry,
    SQLiteGuardStore,
    TokenRefused,
)
from agentic_kernel_guard.stores import GuardStore, MemoryGuardStore

from .guards import ANN, SPECS, World

PROCESSES, WORKERS, CALLS, ROTATIONS = 2, 8, 12, 5


def key(number: int) -> Key:
    return Key(f"k{number}", bytes(range(number, number + 32)))


def stages(number: int) -> list[Keyring]:
    """From one key to the next: known everywhere, then signing everywhere, then alone."""
    old, new = key(number), key(number + 1)
    return [Keyring([old]), Keyring([old, new]), Keyring([new, old]), Keyring([new])]


def guard(world: World, store: GuardStore, keys: Keyring) -> Guard:
    return Guard(
        Registry(SPECS), world.operations.router, policy=DefaultPolicy(), store=store, keys=keys,
        resolver=world,
    )  # fmt: skip


async def test_each_process_accepts_the_others_tokens_while_they_rotate_one_after_the_other() -> (
    None
):
    world, store = World(), MemoryGuardStore()
    asked = CapabilityRequest("crm/find", {"id": 1})
    rings = stages(0)
    pairs = [pair for n in range(3) for pair in ((n, n), (n, n + 1), (n + 1, n))]
    for one, other in pairs:
        first, second = guard(world, store, rings[one]), guard(world, store, rings[other])
        for mints, takes in ((first, second), (second, first)):
            token = await mints.grant_capability(asked, ANN)
            assert await takes.invoke(token, ANN, {"id": 1}) is not None
    # A new key that signs before the others know it is refused there.
    early = await guard(world, store, rings[2]).grant_capability(asked, ANN)
    with pytest.raises(TokenRefused, match="no live key"):
        await guard(world, store, rings[0]).invoke(early, ANN, {"id": 1})


async def test_keys_rotate_under_load_and_nothing_that_holds_is_refused(tmp_path: Path) -> None:
    world = World()
    stores = [SQLiteGuardStore(tmp_path / "guard.db") for _ in range(PROCESSES)]
    guards = [guard(world, store, stages(0)[0]) for store in stores]
    open_tokens: dict[str, int] = {}
    """The number of tokens of each key that are not spent yet."""
    spent = asyncio.Condition()
    done = 0

    async def work(number: int) -> None:
        nonlocal done
        for call in range(CALLS):
            asked = CapabilityRequest("crm/find", {"id": call})
            mints, takes = number % PROCESSES, (number + call) % PROCESSES
            signs = guards[mints]._keys.signing
            open_tokens[signs] = open_tokens.get(signs, 0) + 1
            token = await guards[mints].grant_capability(asked, ANN)
            signed = token.split(".")[1]
            open_tokens[signs] -= 1
            open_tokens[signed] = open_tokens.get(signed, 0) + 1
            assert await guards[takes].invoke(token, ANN, {"id": call}) is not None
            async with spent:
                open_tokens[signed] -= 1
                done += 1
                spent.notify_all()

    def reached(calls: int) -> bool:
        return done >= calls

    def retired(old: str) -> bool:
        return not open_tokens.get(old)

    async def rotate() -> None:
        for number in range(ROTATIONS):
            until = (number + 1) * WORKERS * CALLS // (ROTATIONS + 1)
            async with spent:
                await spent.wait_for(partial(reached, until))
            _, known, signing, alone = stages(number)
            for keys in (known, signing):
                # One process after the other, with calls in between.
                for at in range(PROCESSES):
                    guards[at] = guard(world, stores[at], keys)
                    await stores[at].last()
            old = key(number).id
            async with spent:
                await spent.wait_for(partial(retired, old))
            for at in range(PROCESSES):
                guards[at] = guard(world, stores[at], alone)

    await asyncio.gather(rotate(), *map(work, range(WORKERS)))
    assert guards[0]._keys.signing == f"k{ROTATIONS}"
    assert len(world.operations.calls) == WORKERS * CALLS
    for store in stores:
        await store.close()

"""Connections that break before a COMMIT or after it: the outcome is learned, not guessed (R5)."""

from __future__ import annotations

from functools import partial

from agentic_kernel_engine import UnknownOutcome

from ..bench import Bench, refused
from ..proxy import Cut, Proxy
from ..records import all_events, event, paused, running, step


async def each_kind_of_write_lands_once(bench: Bench) -> None:
    """Whatever became of the request, its caller hears that it landed, and nothing is doubled."""
    async with Proxy(bench.server) as proxy, bench.store(proxy.place) as store:
        await store.join("host")
        for cut in Cut:
            task_id, lost = cut.name, f"connection lost {cut.name}"
            proxy.cut = cut
            record = running(task_id)
            await store.insert(record, [event(record)])
            proxy.cut = cut
            claimed = await store.claim(task_id, "host", [b'{"version":2}'])
            assert claimed is not None, f"{lost}: a claim that landed is denied"
            got = claimed.owner, claimed.attempts
            assert got == ("host:2", 1), f"{lost}: claimed as {got}, not as host:2 for once"
            proxy.cut = cut
            after = step(claimed)
            await store.commit(claimed, after, [event(after)])
            assert proxy.cut is None, "no write passed the proxy"
            found = (await store.load(task_id)).version
            assert await store.load(task_id) == after, f"{lost}: version {found} is stored, not 3"
            events = [place for place, _ in await store.events(task_id)]
            whole = await store.events(task_id) == all_events(3)
            assert whole, f"{lost}: the events are {events}"


async def a_late_write_that_nobody_repeats_never_lands(bench: Bench) -> None:
    """Whoever reads after an unknown outcome reads what stays true."""
    async with Proxy(bench.server) as proxy, bench.store(proxy.place, timeout=0.3) as store:
        for following in (step, paused):
            record = running(following.__name__, owner="host:1")
            await store.insert(record)
            proxy.cut, proxy.alone = Cut.LATE, False
            late = partial(store.commit, record, following(record), [b"late"])
            told = await refused(UnknownOutcome, late)
            assert "read back" in told, f"of a write that may still land is said: {told}"
            proxy.down = False
            task_id = record.task.id
            assert await store.load(task_id) == record, "what never arrived is there"
            assert await proxy.deliver(), "the server did not answer"
            moved = await store.load(task_id) != record or await store.events(task_id)
            assert not moved, "a late write landed after it had been looked for in vain"
            await proxy.lose()
            proxy.down = False

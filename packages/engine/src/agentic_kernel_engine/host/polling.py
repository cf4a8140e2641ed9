"""Polling: one look per interval at the commits of other Hosts (R8) and at Tasks without a run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from functools import partial

from agentic_kernel import TaskStatus

from ..errors import StoreError, Unreadable
from ..faults import log, reraise_own_cancellation, said
from ..store import Listening
from .family import Family
from .live_runs import LiveRuns
from .takeover import TakeOver

_log = logging.getLogger(__name__)
CLAIM_EVERY = 5
"""The polling searches for Tasks without a living owner at one of this many looks."""
AGAIN_EVERY = 10
"""It reads one page of the paused Tasks at one of this many looks; see `Family.look_again`."""
ASKED_EVERY = 50
"""It searches for decisions that Tasks of other Hosts wait for at one of this many looks."""
GAP = 0.01
"""The least number of seconds between two looks that news causes."""
_PAGE = 1_000


class Polling:
    """A Host's periodic task; the Host needs no other signal to be correct.

    A store that notifies of writes (`Listening`) only makes the next look come sooner.

    Args:
        look_for_requests: Searches the store for decisions that people are to make, or None.
    """

    def __init__(
        self,
        live: LiveRuns,
        family: Family,
        takeover: TakeOver,
        look_for_requests: Callable[[], Awaitable[None]] | None,
        interval: float,
        *,
        claims: bool,
    ) -> None:
        self._parts = live.parts
        self._news = live.news
        self._live = live
        self._family = family
        self._takeover = takeover
        self._look_for_requests = look_for_requests
        self._interval = interval
        self._claims = claims
        self._checked: str | None = None
        self._task: asyncio.Task[None] | None = None
        self._steps: asyncio.Task[None] | None = None
        """The steps beside `notice` that are under way."""
        self._deaf: Callable[[], None] | None = None
        self._heard = asyncio.Event()
        self._elsewhere = False
        """True if the store notified of a Task that does not run here."""
        self._named: set[str] = set()
        """The Tasks that the store notified of since the last look."""

    def start(self) -> None:
        if self._task is not None:
            return
        loop = asyncio.get_running_loop()

        def tell(task_id: str) -> None:
            with suppress(RuntimeError):  # The loop is closed.
                loop.call_soon_threadsafe(self._hear, task_id)

        store = self._parts.store
        if store.traits.listens:
            assert isinstance(store, Listening)
            self._deaf = store.listen(tell)
        self._task = loop.create_task(self._loop())

    async def stop(self, timeout: float) -> None:
        """Look no more.

        Args:
            timeout: Seconds to wait for foreign code that ignores its cancellation.
        """
        if self._deaf is not None:
            deaf, self._deaf = self._deaf, None
            try:
                deaf()
            except BaseException as fault:
                reraise_own_cancellation(fault)
                log(_log, fault, "the store could not stop its notifications")
        tasks = [task for task in (self._task, self._steps) if task is not None]
        self._task = self._steps = None
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=timeout)

    async def _loop(self) -> None:
        looks = 0
        while True:
            if await self._did(self.notice):
                await self._did(partial(self._begin_due, looks))
            looks += 1
            await self._rest()

    async def _begin_due(self, looks: int) -> None:
        self._begin(self._due(looks))

    def _begin(self, steps: Sequence[Callable[[], Awaitable[object]]]) -> None:
        """Take these steps beside the looks, unless earlier steps are still under way.

        They ask foreign code, which may be slow: `notice` must not wait for it.
        """
        if steps and (self._steps is None or self._steps.done()):
            self._steps = asyncio.get_running_loop().create_task(self._take(steps))

    async def _take(self, steps: Sequence[Callable[[], Awaitable[object]]]) -> None:
        """Take steps until the store fails."""
        for step in steps:
            if not await self._did(step):
                return

    def _due(self, looks: int) -> Sequence[Callable[[], Awaitable[object]]]:
        """The steps that are due at this look."""
        takeover = self._takeover
        steps: list[Callable[[], Awaitable[object]]] = []
        if self._look_for_requests is not None and looks % ASKED_EVERY == 0:
            steps.append(self._look_for_requests)
        if looks % CLAIM_EVERY == 0 or takeover.backoff.rings():
            steps += [self.restart_lost, takeover.adopt]
            if self._claims:
                steps += [self._recover, takeover.wake]
        if self._claims and looks % AGAIN_EVERY == 0:
            steps.append(takeover.look_again)
        return steps

    async def _did(self, step: Callable[[], Awaitable[object]]) -> bool:
        """Take one step and log its fault; return False if the store failed."""
        try:
            await step()
        except StoreError as fault:
            _log.warning("the polling could not read the store and tries again: %s", said(fault))
            return False
        except BaseException as fault:
            reraise_own_cancellation(fault)
            log(_log, fault, "one step of the polling failed; the polling goes on")
        return True

    async def _recover(self) -> None:
        await self._takeover.recover(patient=True)

    def _hear(self, task_id: str) -> None:
        self._elsewhere = self._elsewhere or task_id not in self._live.current
        self._named.add(task_id)
        self._heard.set()

    async def _rest(self) -> None:
        """Wait for the next look; meanwhile look at the Tasks that the store notifies of."""
        if self._deaf is None:
            await asyncio.sleep(self._interval)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self._interval):
                while True:
                    await self._heard.wait()
                    self._heard.clear()
                    await self._look_at_news()
                    await asyncio.sleep(GAP)

    async def _look_at_news(self) -> None:
        elsewhere, self._elsewhere = self._elsewhere, False
        named, self._named = self._named, set()
        if self._concern(named) and not await self._did(self.notice):
            return
        if elsewhere and self._claims:
            self._begin([self._recover])

    def _concern(self, named: Collection[str]) -> bool:
        """True if a Task of these runs here, has a waiter here, or is the parent of a run here."""
        runs = self._live.current
        if any(task_id in runs for task_id in named):
            return True
        if any(task_id in named for task_id, _ in self._news.watched(runs)):
            return True
        return any(run.record.parent in named for run in runs.values())

    async def notice(self) -> None:
        """Compare the versions of the Tasks that run here, or have a waiter here, with the store.

        One call of the store reads all versions.
        """
        store, runs = self._parts.store, self._live.current
        versions: dict[str, int] = {}
        parents: set[str] = set()
        for task_id, run in runs.items():
            if run.should_cancel is not None:
                run.look_for_cancellation()
            record = run.record
            versions[task_id] = record.version
            # A parent that runs here sweeps for itself.
            if record.parent is not None and record.parent not in runs:
                parents.add(record.parent)
        versions.update(self._news.watched(runs))
        if not versions:
            return
        for task_id in await store.changed(versions):
            here = runs.get(task_id)
            if here is not None:
                if here.writing or here.record.version != versions[task_id]:
                    # This Host commits, or did so meanwhile. The next look compares again. The run
                    # adopts its own commit itself, because it alone knows which events were live.
                    continue
                try:
                    await here.look()
                except Unreadable as bad:
                    self._parts.complaints.add(task_id, bad.version, bad)
                    here.end("lost")
            self._news.wake(task_id)
        if parents:
            for parent in (await store.load_many(list(parents))).values():
                if parent.task.status is TaskStatus.CANCELLED:
                    with self._parts.complaints.sparing(parent.task.id, parent.version):
                        await self._family.sweep(parent.task.id)

    async def restart_lost(self) -> None:
        """Run the Tasks that this Host owns and does not run, e.g. after an unnoticed insert (R4).

        It reads one page at each look, so the cost of a look does not grow with their number.
        """
        page = await self._parts.store.find(
            status=TaskStatus.RUNNING, owner=self._parts.name, after=self._checked, limit=_PAGE
        )
        self._checked = page[-1].task.id if len(page) == _PAGE else None
        for record in page:
            with self._parts.complaints.sparing(record.task.id, record.version):
                await self._takeover.restart(record)

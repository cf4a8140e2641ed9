"""Watch: one look per interval at what other hosts committed (R8), and what nobody runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from agentic_kernel import TaskNotFound, TaskStatus

from ..errors import StoreError, Unreadable
from ..faults import log, passes, said
from ..store import Listening

if TYPE_CHECKING:
    from .hub import Hub
    from .runner import LiveRuns
    from .takeover import TakeOver
    from .verbs import Verbs

_log = logging.getLogger(__name__)
CLAIM_EVERY = 5
"""Every how many looks the watch also searches for Tasks that nobody runs."""
AGAIN_EVERY = 10
"""Every how many looks it also goes through some of the paused Tasks, for those left behind."""
ASKED_EVERY = 50
"""Every how many looks it also searches for decisions that other hosts' Tasks wait for."""
GAP = 0.01
"""Seconds that lie at least between two looks that news brings about."""
_PAGE = 1_000


class Watch:
    """A Host's periodic task: correctness needs nothing else.

    A store that tells of writes (`Listening`) only has the next look come sooner.
    """

    def __init__(
        self,
        hub: Hub,
        runs: LiveRuns,
        control: Verbs,
        takeover: TakeOver,
        interval: float,
        *,
        claims: bool,
    ) -> None:
        self._hub = hub
        self._runs = runs
        self._control = control
        self._takeover = takeover
        self._interval = interval
        self._claims = claims
        self._checked: str | None = None
        self._task: asyncio.Task[None] | None = None
        self._deaf: Callable[[], None] | None = None
        self._news = asyncio.Event()
        self._elsewhere = False
        """Whether there is news of a Task that does not run here."""

    def start(self) -> None:
        if self._task is not None:
            return
        loop = asyncio.get_running_loop()

        def tell(task_id: str) -> None:
            with suppress(RuntimeError):  # The loop is closed.
                loop.call_soon_threadsafe(self._hear, task_id)

        store = self._hub.store
        if store.traits.listens:
            assert isinstance(store, Listening)
            self._deaf = store.listen(tell)
        self._task = loop.create_task(self._loop())

    async def stop(self) -> None:
        if self._deaf is not None:
            self._deaf()
            self._deaf = None
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _loop(self) -> None:
        looks = 0
        while True:
            if await self._did(self.notice):
                await self._look(looks)
            looks += 1
            await self._rest()

    async def _look(self, looks: int) -> None:
        """What is due at this look, until the store fails."""
        takeover, desk = self._takeover, self._hub.desk
        steps: list[Callable[[], Awaitable[object]]] = []
        if desk is not None and looks % ASKED_EVERY == 0:
            steps.append(desk.look)
        if looks % CLAIM_EVERY == 0 or takeover.backoff.rings():
            steps += [self.restart_lost, takeover.adopt]
            if self._claims:
                steps += [self._recover, takeover.wake]
        if self._claims and looks % AGAIN_EVERY == 0:
            steps.append(takeover.look_again)
        for step in steps:
            if not await self._did(step):
                return

    async def _did(self, step: Callable[[], Awaitable[object]]) -> bool:
        """Take one step, whatever it meets; False if the store failed."""
        try:
            await step()
        except StoreError as fault:
            _log.warning("the store could not be looked at: %s", said(fault))
            return False
        except BaseException as fault:
            passes(fault)
            log(_log, fault, "the watch met a fault of its own and goes on")
        return True

    async def _recover(self) -> None:
        await self._takeover.recover(patient=True)

    def _hear(self, task_id: str) -> None:
        self._elsewhere = self._elsewhere or task_id not in self._runs.current
        self._news.set()

    async def _rest(self) -> None:
        """Wait for the time of the next look; what there is news of is looked at meanwhile."""
        if self._deaf is None:
            await asyncio.sleep(self._interval)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self._interval):
                while True:
                    await self._news.wait()
                    self._news.clear()
                    await self._look_at_news()
                    await asyncio.sleep(GAP)

    async def _look_at_news(self) -> None:
        elsewhere, self._elsewhere = self._elsewhere, False
        if await self._did(self.notice) and elsewhere and self._claims:
            await self._did(self._recover)

    async def notice(self) -> None:
        """Compare the versions of what runs or is waited for here with the store's, in one call."""
        hub, runs = self._hub, self._runs.current
        versions: dict[str, int] = {}
        parents: set[str] = set()
        for task_id, run in runs.items():
            record = run.record
            versions[task_id] = record.version
            # A parent that runs here sweeps for itself.
            if record.parent is not None and record.parent not in runs:
                parents.add(record.parent)
        versions.update(hub.watched(runs))
        if not versions:
            return
        for task_id in await hub.store.changed(versions):
            here = runs.get(task_id)
            if here is not None:
                try:
                    here.absorb(await hub.store.load(task_id))
                except TaskNotFound:
                    here.end("lost")
                except Unreadable as bad:
                    hub.complain(task_id, bad.version, bad)
                    here.end("lost")
            hub.wake(task_id)
        if parents:
            for parent in (await hub.store.load_many(list(parents))).values():
                if parent.task.status is TaskStatus.CANCELLED:
                    with hub.sparing(parent.task.id, parent.version):
                        await self._control.family.sweep(parent.task.id)

    async def restart_lost(self) -> None:
        """Run what this host owns and does not run: its insert landed unnoticed, say (R4).

        One page at a time, and the next one at the next look: a look costs no more however many
        there are.
        """
        page = await self._hub.store.find(
            status=TaskStatus.RUNNING, owner=self._hub.name, after=self._checked, limit=_PAGE
        )
        self._checked = page[-1].task.id if len(page) == _PAGE else None
        for record in page:
            with self._hub.sparing(record.task.id, record.version):
                await self._takeover.restart(record)

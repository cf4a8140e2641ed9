"""Trial: one Task of a script, all that the kit sees of it, and the kit's answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from agentic_kernel import Task
from agentic_kernel_engine import Record
from agentic_kernel_engine.events import TASK_PAUSED, from_stored

from .rules import RuleError, broken
from .substrate_script import Script, described

if TYPE_CHECKING:
    from .substrate_world import Worker

What = Literal[
    "asked", "made", "refused", "left", "committed", "crashed", "pause", "paused", "resumed",
    "claimed", "killed", "expired", "drained", "ended",
]  # fmt: skip


@dataclass(slots=True)
class Seen:
    """One thing that the kit saw, or did, about a Task."""

    what: What
    name: str = ""
    """The token of a mark, the number of a commit, or the extra of a resume; for a pause, the mark
    that waited while it was asked for."""
    worker: int = 0
    """The number of the worker; 0 for the kit itself."""
    settles: bool = False
    """True for a commit of the Task's owner that stores new state, or events other than text in
    progress."""
    size: int = 0
    """The bytes of a commit's state."""

    def __str__(self) -> str:
        text = f"{self.what} {self.name}".strip()
        return f"{text} (worker {self.worker})" if self.worker else f"{text} (kit)"


@dataclass(slots=True, eq=False)
class Stop:
    """A moment at which the Task waits for the kit, or at which the kit learns of its status."""

    what: Literal["mark", "commit", "landed", "paused", "ended", "held"]
    name: str = ""
    worker: Worker | None = None
    answer: asyncio.Future[bool] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def go(self, granted: bool = True) -> None:
        """Let the Task go on; with False, its mark is refused."""
        if not self.answer.done():
            self.answer.set_result(granted)


class Trial:
    """One Task under the kit's eyes.

    Args:
        script: The work of the Task.
        task: The Task, ``not_started``.
        patience: Seconds to wait for the next stop.
    """

    def __init__(self, script: Script, task: Task, patience: float) -> None:
        self.script = script
        self.task_id = task.id
        self.given = task
        self.log: list[Seen] = []
        self.extras: list[str] = []
        """The tokens of the extras that were sent, in order."""
        self.commits = 0
        self.record: Record | None = None
        self.stepwise = False
        """True if each commit waits for the kit, before and after it lands."""
        self._patience = patience
        self._stops: asyncio.Queue[Stop] = asyncio.Queue()
        self._open: set[Stop] = set()
        self._claim: asyncio.Future[None] | None = None
        self._why = ""
        """The reason that the owner gave for the Task's present pause; "" if it gave none."""

    @property
    def task(self) -> Task:
        """The latest snapshot."""
        return self.given if self.record is None else self.record.task

    def tell(self, what: What, name: str = "", worker: Worker | None = None) -> None:
        """Add an entry to the log."""
        self.log.append(Seen(what, name, 0 if worker is None else worker.number))

    async def next(self, rule: str = "progress") -> Stop:
        """Wait for the next stop.

        Args:
            rule: The rule that is broken if none comes.

        Raises:
            RuleError: The Task did nothing for as long as the contract's patience.
        """
        try:
            async with asyncio.timeout(self._patience):
                stop = await self._stops.get()
        except TimeoutError:
            why = f" ({self._why})" if self._why else ""
            raise broken(
                rule,
                f"the Task made no mark and no commit, and did not end, within "
                f"{self._patience:g} s; it is {self.task.status}{why}\n{self.story()}",
            ) from None
        if stop.what == "held":
            raise held(stop.name)
        return stop

    async def claimed(self, old: Worker) -> None:
        """Wait until another worker than this one has claimed the Task."""
        if not any(seen.what == "claimed" and seen.worker != old.number for seen in self.log):
            self._claim = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.timeout(self._patience):
                    await self._claim
            except TimeoutError:
                raise broken(
                    "kit",
                    f"no other worker claimed the Task within {self._patience:g} s\n{self.story()}",
                ) from None

    def claim(self, worker: Worker) -> None:
        """Note that a worker took the Task over."""
        self.tell("claimed", worker=worker)
        if self._claim is not None and not self._claim.done():
            self._claim.set_result(None)

    async def answer(self, worker: Worker, token: str) -> bool:
        """Answer a mark that is in the log as asked for; True if it is made."""
        if self.task.status.terminal:
            return False  # No worker waits for this stop any more; the log has the entry.
        made = await self._wait(Stop("mark", token, worker))
        if made:
            self.tell("made", token, worker)
        return made

    def count(self, token: str) -> int:
        """Return how often a mark was asked for."""
        return sum(seen.what == "asked" and seen.name == token for seen in self.log)

    def made(self, stop: Stop) -> None:
        """Count the mark of a stop as made, although its answer never arrives."""
        self.tell("made", stop.name, stop.worker)

    def left(self, token: str, worker: Worker) -> None:
        """Note that the process that asked for a mark went away before the answer."""
        self.tell("left", token, worker)

    async def before(self, worker: Worker) -> None:
        """Wait until a commit of a worker may land."""
        if self.stepwise:
            await self._wait(Stop("commit", str(self.commits + 1), worker))

    async def after(self, worker: Worker) -> None:
        """Wait until a commit that landed may be acknowledged."""
        if self.stepwise:
            await self._wait(Stop("landed", str(self.commits), worker))

    def landed(
        self, worker: Worker, before: Record, after: Record, events: Sequence[bytes]
    ) -> None:
        """Note a commit of a worker that landed."""
        self.commits += 1
        read = [from_stored(None, text) for text in events]
        kinds = [event.type for event in read]
        paused = [event for event in read if event.type == TASK_PAUSED]
        self._why = str(paused[-1].data.get("reason", ""))[:500] if paused else ""
        new = any(kind != "run.delta" and not kind.startswith("task.") for kind in kinds)
        # A Host that lost the Task writes events, too, such as `run.result_dropped`.
        settles = after.step > before.step and (new or before.state != after.state)
        size = len(after.state or b"")
        self.log.append(Seen("committed", str(self.commits), worker.number, settles, size))

    def wrote(self, record: Record) -> None:
        """Note the latest record, by whichever process."""
        status, before = record.task.status, self.task.status
        self.record = record
        if status is before:
            return
        self._why = ""
        if status.terminal:
            self.tell("ended", str(status))
            self._stops.put_nowait(Stop("ended", str(status)))
        elif status == "paused":
            self.tell("paused")
            self._stops.put_nowait(Stop("paused"))

    def held(self, stack: str) -> None:
        """Note that the event loop of a worker is held."""
        self._stops.put_nowait(Stop("held", stack))

    def refuse(self, worker: Worker) -> None:
        """End every wait of a worker that is gone."""
        for stop in list(self._open):
            if stop.worker is worker:
                stop.go(False)

    def let_all_go(self) -> None:
        """Let everything go that waits."""
        for stop in list(self._open):
            stop.go(True)

    async def _wait(self, stop: Stop) -> bool:
        self._open.add(stop)
        self._stops.put_nowait(stop)
        try:
            return await stop.answer
        finally:
            self._open.discard(stop)

    def story(self) -> str:
        """Return the script and the log, for a message."""
        shown = [str(seen) for seen in self.log]
        if len(shown) > 60:
            shown = [*shown[:10], f"… {len(shown) - 50} more …", *shown[-40:]]
        return f"the script: {described(self.script)}\nwhat happened: {'; '.join(shown)}"


def held(stack: str) -> RuleError:
    """Return the error for an event loop that was held by these calls."""
    return broken("held", f"the event loop was held; its innermost calls were:\n{stack}")

"""Parts: the things that the runs, the routes and the streams of one server share."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from agentic_kernel_engine import Host, Store
from agentic_kernel_engine.faults import log

from .ports import Decide, Measure
from .settings import Settings

if TYPE_CHECKING:
    from .agents.consumers import Consumers
    from .executions.requests import ChildEnded, ChildMoved
    from .executions.run import ExecutionRun
    from .executions.vigil import Vigil
    from .forwarding import Forwarder
    from .runners.offers import Runners
    from .runners.registry import Registry
    from .tools.run import ToolRun

_log = logging.getLogger(__name__)


class Parts:
    """The things that the runs, the routes and the streams of one server share.

    Attributes:
        executions: The Host that runs executions; it claims nothing by itself.
        tools: The Host that runs remote steps; it claims nothing by itself.
        control: The Host of the verbs; it runs the registrations of runners only.
        agents: The open streams of agents.
        runners: The open streams of runners, with what they offer.
        registry: The tools of the runners, and their streams in every process.
        runs: The executions that run in this process.
        jobs: The remote steps that run in this process.
        followers: The runs here of executions that wait for a remote step, by its id; each is told
            of the moves of a step that runs here, and None when the step is let go.
        forwarder: The ways to the other processes of the server.
        vigils: The paused executions whose consumer is here.
        draining: True after the server began to stop.
    """

    executions: Host
    tools: Host
    control: Host
    agents: Consumers
    runners: Runners
    registry: Registry
    forwarder: Forwarder

    def __init__(self, store: Store, settings: Settings, decide: Decide, measure: Measure) -> None:
        self.store = store
        self.settings = settings
        self.decide = decide
        self.measure = measure
        self.runs: dict[str, ExecutionRun] = {}
        self.jobs: dict[str, ToolRun] = {}
        self.followers: dict[str, Callable[[ChildMoved | ChildEnded | None], None]] = {}
        self.vigils: dict[str, Vigil] = {}
        self.draining = False
        self._background: set[asyncio.Task[Any]] = set()

    @staticmethod
    def now() -> float:
        """The time, in seconds since 1970."""
        return time.time()

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Do work in the background; a fault is logged."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            log(_log, fault, "work in the background failed")

    async def stop(self) -> None:
        """Cancel the work in the background."""
        tasks = list(self._background)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

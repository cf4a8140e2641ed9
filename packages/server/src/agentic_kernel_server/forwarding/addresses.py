"""Addresses: each process records its internal port in the store, and finds those of the others.

The record is a Task of kind `KIND` that lives as long as its process. If a person ends it, the
process makes another one. It holds the secret of the port: a reader of the store may read and
change every execution anyway.
"""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any, Final

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Job, Principal

from ..executions.encoding import input_of, text_of
from .door import Door
from .frames import VERSION, Kind
from .link import Address

if TYPE_CHECKING:
    from ..parts import Parts

KIND: Final = "server/process"
"""The runtime kind of the Tasks of processes."""
_LABELS: Final[dict[Kind, str]] = {"execution": "label/executions", "tool": "label/tools"}
_FRESH: Final = 5.0
"""Seconds for which it is remembered that a Host has no address."""
_REMEMBERED: Final = 1_000


class Addresses:
    """The internal ports of the processes on one store.

    Args:
        parts: The parts that the server shares.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._known: dict[str, Address] = {}
        self._unknown: dict[str, float] = {}
        """The moment at which a Host without an address may be looked for again."""

    async def record(self, door: Door) -> None:
        """Record the port of this process."""
        parts = self._parts
        own = {
            "host": parts.control.name,
            "port": door.port,
            "secret": door.secret.hex(),
            "version": VERSION,
        }
        task = Task.new(
            summary="a process of the server",
            instructions=text_of(own),
            runtime_kind=KIND,
            id=f"process-{uuid.uuid4().hex}",
            metadata={
                _LABELS["execution"]: parts.executions.name,
                _LABELS["tool"]: parts.tools.name,
            },
        )
        await parts.control.dispatch(task, principal=Principal())

    async def find(self, kind: Kind, host: str) -> Address | None:
        """The port of the process that a Host belongs to; None if there is none.

        Raises:
            StoreError: The store failed.
        """
        found = self._known.get(host)
        if found is not None:
            return found
        if time.monotonic() < self._unknown.get(host, 0.0):
            return None
        page = await self._parts.store.find(
            kinds={KIND}, status=TaskStatus.RUNNING, labels={_LABELS[kind]: host}, limit=1
        )
        for record in page:
            given: dict[str, Any] = input_of(record.task)
            if given["version"] == VERSION:
                if len(self._known) >= _REMEMBERED:
                    self._known.clear()
                address = Address(int(given["port"]), bytes.fromhex(given["secret"]))
                return self._known.setdefault(host, address)
        self.forget(host)
        return None

    def forget(self, host: str) -> None:
        """Do not use the address of a Host for a while, because nothing answers there."""
        self._known.pop(host, None)
        if len(self._unknown) >= _REMEMBERED:
            self._unknown.clear()
        self._unknown[host] = time.monotonic() + _FRESH


def is_own(job: Job, host: str) -> bool:
    """True if the record is that of this process.

    Args:
        host: The name of the control Host of this process.
    """
    return bool(input_of(job.task)["host"] == host)


async def live(job: Job) -> str:
    """The run of this process's record: it lasts as long as the process."""
    while not job.stopping:
        await job.news()
    return "the process stops"

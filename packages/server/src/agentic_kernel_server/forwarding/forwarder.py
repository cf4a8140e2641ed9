"""Forwarder: takes a request to the process that owns its Task, and brings the answer.

Forwarding is a shorter way and nothing else: without it, or if it fails, the same request goes
through the store. A request has one id on both ways, and the run that carries it out stores the
answer with the id, so it is carried out once whichever way it came, and whoever died meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

import msgspec

from agentic_kernel import CannotStart, KernelError
from agentic_kernel_engine import HostClosed, StoreError
from agentic_kernel_engine.errors import HostGone
from agentic_kernel_engine.faults import said
from agentic_kernel_engine.record import host_of

from ..executions import requests as r
from ..tools import jobs
from .addresses import Addresses
from .door import Door
from .frames import MOST_BYTES, Asked, Broken, Kind
from .link import Link, Lost

if TYPE_CHECKING:
    from ..parts import Parts

_log = logging.getLogger(__name__)
_LOOK: Final = 1.0
"""Seconds after which the life of an owner that does not answer is looked at."""
_AGAIN: Final = 1.0
"""Seconds after which a process whose record has ended makes another one."""
_REMEMBERED: Final = 10_000
_ROOM: Final = 4_096
"""Bytes of a frame beside the body of its request."""


class Forwarder:
    """The ways to the other processes of the server.

    Args:
        parts: The parts that the server shares.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._door = Door(parts)
        self._addresses = Addresses(parts)
        self._links: dict[str, asyncio.Task[Link]] = {}
        self._owners: dict[str, tuple[str, int]] = {}
        """The owner of each Task that answered last, and the version of the Task's record then."""
        self._open = False

    async def open(self) -> None:
        """Listen for the other processes, and tell them where."""
        await self._door.open()
        await self._addresses.record(self._door)
        self._open = True

    async def record_again(self, task_id: str) -> None:
        """Tell the other processes where, because the record that said so has ended."""
        while self._open:
            await asyncio.sleep(_AGAIN)
            try:
                await self._addresses.record(self._door)
                _log.info("the record %s has ended; the process has a new one", task_id)
                return
            except (CannotStart, HostClosed, HostGone):
                return  # The process ends, too.
            except StoreError as fault:
                _log.warning("the process is recorded later: %s", said(fault))

    async def close(self) -> None:
        """Close every way."""
        self._open = False
        await self._door.close()
        for each in self._links.values():
            if each.done() and not each.cancelled() and each.exception() is None:
                await each.result().close()
            each.cancel()
        self._links.clear()

    def owner_of(self, task_id: str) -> tuple[str, int] | None:
        """The process that answered last for a Task, so that the record need not be read."""
        return self._owners.get(task_id)

    async def ask(
        self, owner: str, kind: Kind, task_id: str, tenant: str, id: str,
        request: r.Sent | jobs.Sent, until: float, version: int,
    ) -> r.Reply | None:  # fmt: skip
        """Ask the owner of a Task.

        Args:
            id: Names the request.
            version: A version of the Task's record, not later than the request.
            until: The moment until which the sender waits, in seconds since 1970.

        Returns:
            The answer; None if the request was not carried out.

        Raises:
            Lost: It is not known if the request was carried out.
        """
        host = host_of(owner)
        own = {self._parts.executions.name, self._parts.tools.name}
        if not self._open or host in own:
            return None
        body = msgspec.json.encode(request)
        if len(body) + _ROOM > MOST_BYTES:
            return None
        link = await self._link(kind, host)
        if link is None:
            return None
        seconds = until - self._parts.now()
        asked = Asked(0, kind, task_id, tenant, id, seconds, msgspec.Raw(body))
        answer = link.send(asked)
        try:
            while not answer.done():
                left = until - self._parts.now()
                if left <= 0:
                    raise Lost
                await asyncio.wait({answer}, timeout=min(left, _LOOK))
                if not answer.done() and not await self._alive(owner):
                    raise Lost
        finally:
            link.forget(asked)
            if not answer.done() or answer.exception() is not None:
                self._owners.pop(task_id, None)
        told = answer.result()
        if told.status == 0:
            self._owners.pop(task_id, None)
            return None
        if len(self._owners) >= _REMEMBERED:
            self._owners.clear()
        self._owners[task_id] = owner, version
        self._parts.measure.count("requests_forwarded")
        return r.Reply(told.status, told.body)

    async def _alive(self, owner: str) -> bool:
        try:
            return await self._parts.store.alive(owner)
        except KernelError:
            return True  # Not known.

    async def _link(self, kind: Kind, host: str) -> Link | None:
        """The connection to the process of a Host; None if there is none."""
        connecting = self._links.get(host)
        if connecting is None or (connecting.done() and not _usable(connecting)):
            for other, task in list(self._links.items()):
                if task.done() and not _usable(task):
                    del self._links[other]  # Its process is gone.
            connecting = asyncio.get_running_loop().create_task(self._connected(kind, host))
            self._links[host] = connecting
        try:
            return await asyncio.shield(connecting)
        except (OSError, TimeoutError, Broken, KernelError, LookupError) as fault:
            if self._links.get(host) is connecting:
                del self._links[host]
                if not isinstance(fault, LookupError):
                    _log.info(
                        "requests for the host %s go through the store: %s", host, said(fault)
                    )
                self._addresses.forget(host)
            return None

    async def _connected(self, kind: Kind, host: str) -> Link:
        address = await self._addresses.find(kind, host)
        if address is None:
            raise LookupError(host)
        return await Link.to(address)


def _usable(connecting: asyncio.Task[Link]) -> bool:
    return (
        not connecting.cancelled() and connecting.exception() is None and connecting.result().open
    )

"""Registry: what runners published, and which of their streams are open in any process.

Each publication and each open stream is a Task of kind ``runner``. The Task of a stream lives as
long as the stream. The Task of a publication lives as long as a stream of its runner, and a grace
longer. If a process dies, another one takes its Tasks: the streams have ended, and the publications
go on. If a person ends or pauses the Task of a stream, the process registers the stream anew.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final
from urllib.parse import quote

from agentic_kernel import (
    CannotStart,
    IllegalTransition,
    KernelError,
    Task,
    TaskNotFound,
    TaskStatus,
)
from agentic_kernel_engine import Job, Principal, Record, StoreError, Substrate
from agentic_kernel_engine.faults import said

from ..agents.consumers import Consumer
from ..errors import Refused, unavailable
from ..executions.encoding import input_of, text_of
from ..forwarding import addresses
from ..identity import shown
from ..outage import outlasting
from ..parts import Parts

_log = logging.getLogger(__name__)
KIND: Final = "runner"
"""The runtime kind of the registrations of runners."""
DECLARED: Final = "server/capabilities"
"""The decision that carries what a runner offers from now on."""
_PART: Final = "label/part"
_RUNNER: Final = "label/runner"
_PAGE: Final = 500
_SOME: Final = 10
"""A page of records that may be large."""
_AGAIN: Final = 1.0
"""Seconds before a registration that the store failed is tried again."""
MOST_TOOLS: Final = 1_000
"""The most tools that one runner publishes."""
MOST_BYTES: Final = 1024 * 1024
"""The most bytes of JSON that they have together."""
MOST_LISTED: Final = 16 * 1024 * 1024
"""The most bytes of JSON that are read for one list of tools."""


class Registrations(Substrate):
    """The substrate of the registrations of runners and of processes.

    Args:
        parts: The parts that the server shares.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def execute(self, job: Job) -> Any:
        """Live as long as the stream, or as long as the runner has a stream."""
        parts = self._parts
        if job.task.runtime_kind == addresses.KIND:
            if not addresses.is_own(job, parts.control.name):
                return "the process is gone"
            try:
                return await addresses.live(job)
            finally:
                if not parts.draining:
                    parts.start(parts.forwarder.record_again(job.task.id))
        said: Mapping[str, Any] = input_of(job.task)
        if "consumer_id" in said:
            return await self._stream(job, said)
        return await self._publication(job, said)

    async def _stream(self, job: Job, said: Mapping[str, Any]) -> str:
        if said["host"] != self._parts.control.name:
            return "the process that held the stream is gone"
        try:
            return await self._registered(job, said)
        finally:
            if not self._parts.draining:
                self._parts.start(self._parts.registry.again(job.task.id, job.principal))

    async def _registered(self, job: Job, said: Mapping[str, Any]) -> str:
        while True:
            for entry in list(job.inbox):
                if entry["type"] == DECLARED:
                    self._declare(job, said, entry)
                heard = partial(job.commit, None, consumed=[entry["id"]])
                await outlasting(f"the registration {job.task.id}", heard)
            if job.stopping:
                return "the server that held the stream stops"
            await asyncio.wait({job.news()})

    def _declare(self, job: Job, said: Mapping[str, Any], entry: Mapping[str, Any]) -> None:
        runners = self._parts.runners
        for each in runners.of(job.terms.tenant, said["runner_id"]):
            if each.key.consumer == said["consumer_id"]:
                runners.declare(each.key, [str(name) for name in entry.get("tools", ())])

    async def _publication(self, job: Job, said: Mapping[str, Any]) -> str:
        grace = self._parts.settings.agent_timeout
        tenant, runner = job.terms.tenant, str(said["runner_id"])
        alive_until = time.monotonic() + grace
        while True:
            if job.stopping:
                await outlasting(f"the registration {job.task.id}", partial(job.checkpoint, None))
            if self._parts.runners.of(tenant, runner) or await self._streams(tenant, runner):
                alive_until = time.monotonic() + grace
            elif time.monotonic() >= alive_until:
                return "its runner is gone"
            await asyncio.wait({job.news()}, timeout=min(5.0, grace / 4))

    async def _streams(self, tenant: str, runner: str) -> bool:
        try:
            found = await self._parts.store.find(
                kinds={KIND}, realms={tenant}, status=TaskStatus.RUNNING, limit=1,
                labels={_PART: "stream", _RUNNER: _label(runner)},
            )  # fmt: skip
        except StoreError:
            return True  # Not known; look again.
        return bool(found)


def _label(runner: str) -> str:
    return quote(runner, safe="")[:256]


class Registry:
    """Publishes, finds and withdraws what runners offer.

    Args:
        parts: The parts that the server shares.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._streams: dict[Consumer, str] = {}

    async def publish(
        self, principal: Principal, runner: str, tools: Iterable[Mapping[str, Any]]
    ) -> int:
        """Replace the tools that a runner published; return their number."""
        listed = list(tools)
        before = await self._find(principal.tenant, runner, "tools")
        at = shown(datetime.now(UTC))
        said = {"runner_id": runner, "tools": listed, "registered_at": at}
        await self._dispatch(principal, runner, "tools", said)
        await self._end(before)
        return len(listed)

    async def opened(self, principal: Principal, consumer: Consumer) -> None:
        """A runner opened a stream here."""
        runner = consumer.key.group
        own = {
            "runner_id": runner,
            "consumer_id": consumer.key.consumer,
            "host": self._parts.control.name,
        }
        while consumer.open:
            try:
                self._streams[consumer] = await self._dispatch(principal, runner, "stream", own)
                if not consumer.open:
                    await self.closed(consumer)
                return
            except (StoreError, Refused) as fault:
                _log.warning("the stream of a runner is registered later: %s", said(fault))
                await asyncio.sleep(_AGAIN)

    async def again(self, task_id: str, principal: Principal) -> None:
        """Register a stream anew if it is still open after its registration has ended."""
        await asyncio.sleep(_AGAIN)
        for consumer, registered in list(self._streams.items()):
            if registered == task_id and consumer.open:
                await self.opened(principal, consumer)

    async def closed(self, consumer: Consumer) -> None:
        """The stream has ended."""
        task_id = self._streams.pop(consumer, None)
        if task_id is not None:
            try:
                await self._parts.control.complete(task_id, "the stream has ended")
            except (KernelError, asyncio.CancelledError) as fault:
                _log.debug("the registration %s was not ended: %s", task_id, said(fault))

    async def declare(self, tenant: str, runner: str, tools: list[str]) -> None:
        """Change what a runner offers, in every process that has a stream of it.

        Raises:
            Refused: The runner has no stream.
        """
        found = await self._find(tenant, runner, "stream")
        for record in found:
            try:
                await self._parts.control.post(record.task.id, {"type": DECLARED, "tools": tools})
            except (IllegalTransition, TaskNotFound):
                continue  # The stream has ended meanwhile.
        if not found:
            raise Refused("NOT_FOUND", f"runner {runner[:200]!r} has no open stream")

    async def withdraw(self, tenant: str, runner: str) -> None:
        """Forget what a runner published, and cut its streams here.

        Raises:
            Refused: The runner is not known.
        """
        tools = await self._find(tenant, runner, "tools")
        streams = await self._find(tenant, runner, "stream")
        if not tools and not streams:
            raise Refused("NOT_FOUND", f"runner {runner[:200]!r} does not exist")
        await self._end([*tools, *streams])
        for each in self._parts.runners.of(tenant, runner):
            each.cut()

    async def tools(self, tenant: str, prefix: str) -> list[dict[str, Any]]:
        """The published tools whose id is the prefix, or begins with it and ``.`` or ``_``."""
        listed: dict[tuple[str, str], dict[str, Any]] = {}
        size = 0
        async for record in self._each(tenant, None, "tools", _SOME):
            size += len(record.task.instructions)
            if size > MOST_LISTED:
                raise Refused(
                    "VALIDATION_ERROR",
                    f"the runners published more than {MOST_LISTED:,} bytes, which no list can "
                    "hold; end some runners, or shorten their descriptions and schemas",
                )
            said = input_of(record.task)
            for tool in said["tools"]:
                id = str(tool["id"])
                if prefix and id != prefix and not id.startswith((f"{prefix}.", f"{prefix}_")):
                    continue
                listed[id, said["runner_id"]] = {
                    "id": id,
                    "description": tool.get("description", ""),
                    "input_schema": tool.get("input_schema") or {},
                    "runner_id": said["runner_id"],
                    "registered_at": said["registered_at"],
                }
        return [listed[key] for key in sorted(listed)]

    async def _find(self, tenant: str, runner: str | None, part: str) -> list[Record]:
        return [record async for record in self._each(tenant, runner, part, _PAGE)]

    async def _each(
        self, tenant: str, runner: str | None, part: str, limit: int
    ) -> AsyncIterator[Record]:
        labels = {_PART: part}
        if runner is not None:
            labels[_RUNNER] = _label(runner)
        after: str | None = None
        while True:
            page = await self._parts.store.find(
                kinds={KIND}, realms={tenant}, status=TaskStatus.RUNNING, labels=labels,
                after=after, limit=limit,
            )  # fmt: skip
            for record in page:
                yield record
            if len(page) < limit:
                return
            after = page[-1].task.id

    async def _dispatch(
        self, principal: Principal, runner: str, part: str, said: Mapping[str, Any]
    ) -> str:
        task = Task.new(
            summary=f"the {part} of the runner {runner}",
            instructions=text_of(said),
            runtime_kind=KIND,
            id=f"runner-{uuid.uuid4().hex}",
            metadata={_PART: part, _RUNNER: _label(runner)},
        )
        try:
            await self._parts.control.dispatch(task, principal=principal)
        except CannotStart as refused:
            raise unavailable(refused) from refused
        return task.id

    async def _end(self, records: Iterable[Record]) -> None:
        for record in records:
            try:
                await self._parts.control.kill(record.task.id)
            except TaskNotFound:
                continue

"""ToolRunner: serves tools of the engine to a server, over the wire of runners.

It is a program on the other side of the wire, so it needs an HTTP client, which the extra
``runner`` brings. A runner has one job at a time. If its stream breaks it connects again under the
same name, and the server gives it its job once more: a job that still runs here is not begun twice,
and the result of one that has ended is sent again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

import msgspec

from agentic_kernel import CannotStart, InvalidValue, KernelError
from agentic_kernel.frozen import shown
from agentic_kernel_engine import Principal
from agentic_kernel_engine.faults import said
from agentic_kernel_engine.install import install
from agentic_kernel_engine.loop import NO_THREAD, TIMEOUT, Observation, ToolCall
from agentic_kernel_engine.seams import Invocation, Tool, ToolContext, ToolRegistry, perform

try:
    import httpx
    import httpx_sse
except ImportError:  # They come with the extra, which a server does not need.
    INSTALLED = False
else:
    INSTALLED = True

_log: Final = logging.getLogger(__name__)
REMEMBERED: Final = 100
"""The most results that are kept for a job that is assigned again."""
FIRST_DELAY: Final = 0.25
LONGEST_DELAY: Final = 30.0
"""Seconds before the first and the last of the attempts to reach the server; they double."""
LASTING: Final = 10.0
"""Seconds after which an open stream counts as a success."""
RESULT_TRIES: Final = 8
"""The most attempts to deliver one result."""
SILENCE: Final = 60.0
"""Seconds without a byte after which a stream counts as broken; the server sends heartbeats."""
MAX_EVENT: Final = 16 * 1024 * 1024
"""The longest line of a stream, in bytes."""


class RunnerRefused(KernelError):
    """The server refuses this runner for good; the message has the server's reason."""

    unauthorized: bool = False
    """True if the server refuses the key, or asks for one."""


class Job(msgspec.Struct, frozen=True):
    """A job, as the server assigns it. Further fields are ignored."""

    id: str
    execution_id: str
    step_id: str
    tool_id: str
    attempt: int = 1
    arguments: Any = None
    deadline: datetime | None = None


class _Result(msgspec.Struct):
    job_id: str
    execution_id: str
    step_id: str
    consumer_id: str
    success: bool = False
    data: Any = None
    error: str = ""
    retryable: bool = False


class ToolRunner:
    """Serves the tools of a registry until it is stopped.

    Args:
        tools: The tools; the server sees their names, descriptions and schemas.
        url: The server, e.g. ``http://127.0.0.1:8080``.
        runner_id: The name of this runner.
        key: An API key with the scope ``runner``; empty for a server without keys.
        consumer_id: The name of this process among several of one runner; by default a random one.
        transport: The way to the server, for tests.

    Raises:
        InvalidValue: The registry is empty, or the address is not an ``http`` URL.
        CannotStart: httpx is not installed.
    """

    def __init__(
        self,
        tools: ToolRegistry,
        url: str,
        runner_id: str,
        *,
        key: str = "",
        consumer_id: str = "",
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        if not INSTALLED:
            raise CannotStart(f"a runner needs httpx; {install('agentic-kernel-server[runner]')}")
        self._tools = {each.name: each for each in tools.tools()}
        if not self._tools:
            raise InvalidValue("tools", "has no tools; a runner needs at least one")
        if not url.startswith(("http://", "https://")):
            raise InvalidValue("--server", f"is {shown(url)}; use http://HOST:PORT or https://HOST")
        if url.rstrip("/").endswith("/v0"):
            raise InvalidValue(
                "--server", f"is {shown(url)}; leave /v0 away, because calls have it"
            )
        if not runner_id:
            raise InvalidValue("runner_id", "is empty; name the runner")
        self._url = url.rstrip("/")
        self._runner_id = runner_id
        self._place = f"/v0/runners/{quote(runner_id, safe='')}"
        self._consumer_id = consumer_id or f"{runner_id}-{secrets.token_hex(6)}"
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self._http = httpx.AsyncClient(
            base_url=self._url, headers=headers, timeout=35.0, transport=transport
        )
        self._running: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._done: OrderedDict[tuple[str, int], _Result] = OrderedDict()
        self._stop = asyncio.Event()
        self._connected = asyncio.Event()
        self._since = 0.0
        """The moment at which the stream was opened."""

    async def connected(self) -> None:
        """Wait until the stream is open."""
        await self._connected.wait()

    def stop(self) -> None:
        """Take no more jobs; `run` returns after the job that runs here has ended."""
        self._stop.set()

    async def run(self) -> None:
        """Serve until `stop`.

        Raises:
            RunnerRefused: The server does not accept the key, or not the tools.
        """
        stopping = asyncio.create_task(self._stop.wait())
        serving = asyncio.create_task(self._serve())
        try:
            await asyncio.wait({stopping, serving}, return_when=asyncio.FIRST_COMPLETED)
            serving.cancel()
            await asyncio.wait({serving})
            if self._running:
                await asyncio.wait(set(self._running.values()))
            if not serving.cancelled():
                serving.result()
            await self._unregister()
        finally:
            for task in (stopping, serving, *self._running.values()):
                task.cancel()
            await asyncio.wait({stopping, serving, *self._running.values()})
            await self._http.aclose()

    async def _serve(self) -> None:
        """Keep a stream open; connect again with a growing delay if it breaks.

        The delay grows until a stream has lasted for a while: a stream that opens and breaks at
        once is no success. Of the failures in a row the 1st, 2nd, 4th, 8th, … are warnings.
        """
        failures = 0
        while True:
            self._connected.clear()
            why = "the server ended it"
            try:
                await self._publish()
                await self._listen()
            except (httpx.HTTPError, httpx_sse.SSEError) as error:
                why = _kind(error)
            lasted = asyncio.get_running_loop().time() - self._since
            failures = 1 if self._connected.is_set() and lasted >= LASTING else failures + 1
            delay = _delay(failures - 1)
            level = logging.DEBUG if failures & (failures - 1) else logging.WARNING
            _log.log(
                level,
                "there is no stream from %s (%s); failure %d in a row, connects again in %.1f s",
                self._url, why, failures, delay,
            )  # fmt: skip
            await asyncio.sleep(delay)

    async def _publish(self) -> None:
        tools = [
            {"id": tool.name, "description": tool.description, "input_schema": tool.input_schema}
            for tool in self._tools.values()
        ]
        await self._post(f"{self._place}/tools", {"tools": tools})

    async def _listen(self) -> None:
        asked = {
            "runner_id": self._runner_id,
            "consumer_id": self._consumer_id,
            "capabilities": ",".join(self._tools),
        }
        timeout = httpx.Timeout(35.0, read=SILENCE)
        async with httpx_sse.aconnect_sse(
            self._http, "GET", "/v0/runners/stream", params=asked, timeout=timeout
        ) as source:
            await _checked(source.response)
            self._connected.set()
            self._since = asyncio.get_running_loop().time()
            names = ", ".join(self._tools)
            _log.info(
                "connected to %s as %s, with the tool%s %s",
                self._url, self._consumer_id, "" if len(self._tools) == 1 else "s", names[:500],
            )  # fmt: skip
            async for event in source.aiter_sse():
                if event.event == "job.assigned":
                    self._take(event.data)

    def _take(self, data: str) -> None:
        try:
            job = msgspec.json.decode(data, type=Job)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            _log.error("a job cannot be read, and waits for its deadline: %s", said(error))
            return
        key = job.id, job.attempt
        if key in self._running:
            return
        task = asyncio.create_task(self._carry_out(job))
        self._running[key] = task
        task.add_done_callback(lambda _: self._running.pop(key, None))

    async def _carry_out(self, job: Job) -> None:
        result = self._done.get((job.id, job.attempt))
        if result is None:
            with contextlib.suppress(httpx.HTTPError, RunnerRefused):
                await self._post(
                    f"/v0/runners/steps/{quote(job.step_id, safe='')}/started",
                    {"execution_id": job.execution_id, "runner_id": self._runner_id},
                )
            begun = asyncio.get_running_loop().time()
            result = await self._called(job)
            _log.info(
                "%s %s%s", job.tool_id, "succeeded" if result.success else "failed: ",
                result.error[:500],
                extra={
                    "execution": job.execution_id, "step": job.step_id, "attempt": job.attempt,
                    "ms": round(1_000 * (asyncio.get_running_loop().time() - begun), 2),
                },
            )  # fmt: skip
            self._done[job.id, job.attempt] = result
            if len(self._done) > REMEMBERED:
                self._done.popitem(last=False)
        await self._deliver(job, result)

    async def _called(self, job: Job) -> _Result:
        result = _Result(job.id, job.execution_id, job.step_id, self._consumer_id)
        tool = self._tools.get(job.tool_id)
        if tool is None:
            result.error = f"this runner has no tool {shown(job.tool_id)}"
            return result
        left = None if job.deadline is None else (job.deadline - datetime.now(UTC)).total_seconds()
        try:
            async with asyncio.timeout(left):
                found = await _observed(tool, job)
        except TimeoutError:
            result.error = "the step's deadline passed before the tool returned"
            return result
        if found.ok:
            result.success, result.data = True, found.output
            return result
        result.error = found.message or found.error
        # A call that never began, or that may be made twice, is tried again.
        result.retryable = found.error == NO_THREAD or (found.error == TIMEOUT and tool.repeatable)
        return result

    async def _deliver(self, job: Job, result: _Result) -> None:
        body = {name: value for name, value in msgspec.structs.asdict(result).items() if value}
        body |= {"success": result.success, "data": result.data}
        for failures in range(1, RESULT_TRIES + 1):
            try:
                await self._post(f"{self._place}/results", body)
                return
            except RunnerRefused as error:
                _log.warning("the result of step %s was refused: %s", job.step_id, said(error))
                return
            except httpx.HTTPError as error:
                _log.warning("the result of step %s: %s", job.step_id, _kind(error))
                await asyncio.sleep(_delay(failures))
        _log.error("the result of step %s could not be delivered", job.step_id)

    async def _unregister(self) -> None:
        with contextlib.suppress(httpx.HTTPError, RunnerRefused):
            await _checked(await self._http.delete(self._place))

    async def _post(self, path: str, body: Mapping[str, Any]) -> None:
        headers = {"content-type": "application/json"}
        content = msgspec.json.encode(body)
        await _checked(await self._http.post(path, content=content, headers=headers))


async def _observed(tool: Tool, job: Job) -> Observation:
    """The observation of a call; its key is the same for every attempt of a step."""
    arguments = {} if job.arguments is None else job.arguments
    call = ToolCall(tool.name, arguments if isinstance(arguments, dict) else {}, job.step_id)
    context = ToolContext(
        job.execution_id, job.attempt, 0, job.step_id, Principal(), lambda report: None
    )
    return await perform(Invocation(tool, arguments, call, context))


async def _checked(response: httpx.Response) -> None:
    """Check the status of an answer.

    Raises:
        RunnerRefused: The request is at fault; to repeat it changes nothing.
        httpx.HTTPStatusError: The server could not answer now.
    """
    if response.status_code < 400:
        return
    await response.aread()
    if response.status_code < 500 and response.status_code not in (408, 429):
        try:
            said = str(msgspec.json.decode(response.content)["error"])
        except (msgspec.MsgspecError, LookupError, TypeError, ValueError):
            said = f"HTTP status {response.status_code}"
        refused = RunnerRefused(said[:500])
        refused.unauthorized = response.status_code == 401
        raise refused
    response.raise_for_status()


def _delay(failures: int) -> float:
    """Seconds to wait, with jitter, so that runners do not come back all at once."""
    whole = min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(failures, 20))
    return whole * (0.5 + random.random() / 2)


def _kind(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]

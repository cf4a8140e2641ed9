"""Connection: one MCP server, started when it is needed, and again after it was lost.

The SDK's streams are entered and left in one coroutine, so each connection has a keeper of its own.
The calls of many Tasks go through the one session of the keeper.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from contextvars import ContextVar
from typing import Any, Final

import mcp
import mcp_types as types
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from .eliciting import Elicitation
from .errors import Unavailable
from .servers import Server, StdioServer
from .turns import Turns
from .wire import Complaints, streams

MOST_PAGES: Final = 100
"""The most pages of one listing."""
MOST_TOOLS: Final = 2_000
"""The most tools of one server."""
CLOSING: Final = 15.0
"""Seconds that a server may take to end before its connection is given up."""
_LOST: Final = frozenset({types.CONNECTION_CLOSED, types.REQUEST_TIMEOUT})
_log = logging.getLogger(__package__)
_asking: ContextVar[Elicitation | None] = ContextVar("agentic_kernel_mcp_asking", default=None)


class Lost(Exception):
    """A call was sent, and no answer came: what the server did is not known."""


class Refused(Exception):
    """The server answered a call with a protocol error."""

    def __init__(self, code: int, message: str) -> None:
        self.code = code
        super().__init__(message)


class Connection:
    """One server.

    Args:
        name: Its name.
        server: How it is started or reached.
        patience: Seconds for the start, and for each listing.
        listed: Called with each listing of the server's tools.
    """

    def __init__(
        self,
        name: str,
        server: Server,
        *,
        patience: float,
        listed: Callable[[Sequence[types.Tool]], None],
    ) -> None:
        self.name: Final = name
        self._server = server
        self._patience = patience
        self._listed = listed
        self._client: mcp.Client | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._wake = asyncio.Event()
        self._closing = False
        self._ended = False
        self._stale = False
        self._turns = Turns()

    async def open(self) -> mcp.Client:
        """The session with the server, which is started if it does not run.

        Raises:
            Unavailable: It cannot be started, or does not answer in time.
        """
        async with self._starting:
            if self._client is not None and not self._ended:
                return self._client
            if self._closing:
                raise Unavailable(self.name, "was closed")
            await self._end()
            return await self._start()

    async def close(self) -> None:
        """End the server, or the session with it. A second time it does nothing."""
        self._closing = True
        await self._end()

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        elicitation: Elicitation,
        timeout: float,
        report: Callable[[Any], None],
        *,
        has_effect: bool,
    ) -> types.CallToolResult:
        """Call a tool.

        With the protocol of 2025 the server does not say which call asks the user something. There,
        a call that may have an effect is made while no other call of this server is.

        Raises:
            Unavailable: The call was not sent.
            Lost: No answer came.
            Refused: The answer is a protocol error.
            RuntimeError: The result does not fit the tool's own schema.
        """
        client = await self.open()

        async def heard(progress: float, total: float | None, message: str | None) -> None:
            told = {"progress": progress, "total": total, "message": message}
            report({name: each for name, each in told.items() if each is not None})

        named = client.protocol_version in MODERN_PROTOCOL_VERSIONS
        token = _asking.set(elicitation if named else None)
        try:
            if named:
                return await client.call_tool(tool, arguments, timeout, heard)
            async with self._turns.turn(elicitation, alone=has_effect):
                result = await client.call_tool(tool, arguments, timeout, heard)
            if not elicitation.unclear:
                return result
            async with self._turns.turn(elicitation, alone=True):
                return await client.call_tool(tool, arguments, timeout, heard)
        except mcp.MCPError as error:
            if error.code in _LOST:
                raise Lost(_plain(error)) from None
            raise Refused(error.code, error.message) from None
        except (RuntimeError, asyncio.CancelledError):
            raise
        except Exception as error:  # A transport may fail in any way.
            raise Lost(_plain(error)) from None
        finally:
            _asking.reset(token)

    async def _start(self) -> mcp.Client:
        self._ended = self._stale = False
        self._wake.clear()
        ready: asyncio.Future[mcp.Client] = asyncio.get_running_loop().create_future()
        complaints = Complaints(self.name) if isinstance(self._server, StdioServer) else None
        self._keeper = asyncio.create_task(self._keep(ready, complaints), name=f"mcp {self.name}")
        waited: list[asyncio.Future[Any]] = [ready, self._keeper]
        why = "did not answer in time"
        try:
            await asyncio.wait(
                waited, timeout=2 * self._patience, return_when=asyncio.FIRST_COMPLETED
            )
            if ready.done():
                error = ready.exception()
                if error is None:
                    return ready.result()
                why = _plain(error)
        except BaseException:
            await self._end(at_once=True)
            raise
        await self._end(at_once=True)  # From here on, all that the server said has been read.
        if complaints is not None and complaints.last():
            why += f"; it said: {complaints.last()[-1_000:]}"
        raise Unavailable(self.name, why)

    async def _end(self, *, at_once: bool = False) -> None:
        keeper = self._keeper
        if keeper is None:
            return
        self._ended = True
        self._wake.set()
        try:
            if not at_once:
                await asyncio.wait([keeper], timeout=CLOSING)
        finally:
            if not keeper.done():
                keeper.cancel()
                await asyncio.wait([keeper], timeout=CLOSING)
            self._keeper = self._client = None

    async def _keep(self, ready: asyncio.Future[mcp.Client], complaints: Complaints | None) -> None:
        """Hold the session until it is closed or lost; list the tools whenever they changed."""
        try:
            async with AsyncExitStack() as stack:
                client = await stack.enter_async_context(self._session(complaints))
                self._listed(await _listing(client))
                self._client = client
                if not ready.done():
                    ready.set_result(client)
                listening = asyncio.create_task(self._listen(client))
                try:
                    await self._attend(client)
                finally:
                    listening.cancel()
                    await asyncio.wait([listening])
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error if isinstance(error, Exception) else OSError("ended"))
                ready.exception()  # It is read by now, so that asyncio does not log it.
            elif not isinstance(error, asyncio.CancelledError):
                _log.info("MCP server %s: the connection ended: %s", self.name, _plain(error))
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
        finally:
            self._ended = True
            self._client = None
            if complaints is not None:
                await asyncio.to_thread(complaints.close)

    def _session(self, complaints: Complaints | None) -> mcp.Client:
        return mcp.Client(
            streams(self._server, complaints, self._gone),
            read_timeout_seconds=self._patience,
            elicitation_callback=self._elicited,
            message_handler=self._heard,
            client_info=types.Implementation(name="agentic-kernel", version="0.2"),
            cache=None,
        )

    async def _attend(self, client: mcp.Client) -> None:
        while not self._ended:
            await self._wake.wait()
            self._wake.clear()
            if self._stale and not self._ended:
                self._stale = False
                self._listed(await _listing(client))

    async def _listen(self, client: mcp.Client) -> None:
        """Hear that the tools changed, where the protocol has a subscription for it."""
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        tools = client.server_capabilities.tools
        if tools is None or not tools.list_changed:
            return
        with suppress(Exception):
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._list_again()

    async def _heard(self, message: Any) -> None:
        root = getattr(message, "root", message)
        if isinstance(root, types.ToolListChangedNotification):
            self._list_again()

    def _list_again(self) -> None:
        self._stale = True
        self._wake.set()

    def _gone(self) -> None:
        self._ended = True
        self._wake.set()

    async def _elicited(self, context: Any, params: Any) -> types.ElicitResult:
        """Answer the server's question, for the call that it belongs to."""
        asking = _asking.get() or await self._turns.asking()
        return types.ElicitResult(action="cancel") if asking is None else asking.answer(params)


async def _listing(client: mcp.Client) -> list[types.Tool]:
    if client.server_capabilities.tools is None:
        return []
    found: list[types.Tool] = []
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if cursor is None:
            return found
        if len(found) > MOST_TOOLS:
            break
    raise ValueError(f"it lists more than {MOST_TOOLS:,} tools or {MOST_PAGES} pages")


def _plain(error: BaseException | None) -> str:
    """What went wrong, in a few words: the first failure of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, FileNotFoundError) and error.filename:
        return f"the program {error.filename!r} was not found; install it, or give its path"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = str(error)[:500]
    return text or type(error).__name__

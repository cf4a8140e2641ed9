"""Connection: one MCP server, started when it is needed, and again after it was lost.

The SDK's streams are entered and left in one coroutine, so each connection has a keeper of its own.
The calls of many Tasks go through the one session of the keeper.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from importlib.metadata import version
from typing import Any, Final

import mcp
import mcp_types as types
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter

from .eliciting import Elicitation
from .errors import BadPins, Unavailable
from .http import Attempt, attempt, http
from .incoming import Incoming
from .listing import listing
from .pipes import Complaints, pipes, printable
from .servers import Server, StdioServer
from .turns import Turns

MOST_SESSIONS: Final = 3
"""The most sessions in which one call is begun, if each session has ended before."""
MOST_ROUNDS: Final = 10
"""The most questions of a server before it answers one call."""
PAUSE: Final = 1.0
"""Seconds between two listings, so that a server that changes all the time is not listed all the
time."""
CLOSING: Final = 15.0
"""Seconds that a server may take to end before its connection is given up."""
_LOST: Final = frozenset({types.CONNECTION_CLOSED, types.REQUEST_TIMEOUT})
_RESULT: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)
_log = logging.getLogger(__package__)


class Lost(Exception):
    """A call was sent, and no answer came: what the server did is not known."""


class Refused(Exception):
    """The server answered a call with a protocol error.

    Attributes:
        wants: Pages that the user must open before the call can be made.
    """

    def __init__(self, message: str, wants: Sequence[types.ElicitRequestURLParams] = ()) -> None:
        self.wants = wants
        super().__init__(message)


class Connection:
    """One server.

    Args:
        name: Its name.
        server: The way to start or to reach it.
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
        self._why: Exception | None = None
        """Why the last session ended, if the transport knows it."""
        self._stale = False
        self._forgotten: mcp.Client | None = None
        """The last session that the server had forgotten."""
        self._turns = Turns()

    async def open(self) -> mcp.Client:
        """The session with the server, which is started if it does not run.

        Raises:
            Unavailable: It cannot be started, or does not answer in time.
            BadPins: The pins of its tools cannot be written.
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
        asking: Elicitation,
        timeout: float,
        report: Callable[[Any], None],
        *,
        has_effect: bool,
        begins: Callable[[mcp.Client], None],
    ) -> types.CallToolResult:
        """Call a tool.

        With the protocol of 2025 the server does not say which call asks the user something. There,
        a call that may have an effect is made while no other call of this server is.

        Args:
            begins: Called before the call is sent, with the session that it is sent in; what it
                raises is raised.

        Raises:
            Unavailable: The call was not sent.
            Lost: No answer came.
            Refused: The answer is a protocol error.
            Unfinished: The server asks something that has no answer yet.
        """
        for _ in range(MOST_SESSIONS):
            client = await self.open()
            begins(client)
            try:
                return await self._made(
                    client, tool, arguments, asking, timeout, report, has_effect
                )
            except _Expired:
                if self._client is client:
                    self._gone(None)
                self._forgotten = client
            except Lost:
                # Another call found the session forgotten, and its end cut this one short.
                if has_effect or self._forgotten is not client:
                    raise
        raise Unavailable(self.name, f"lost {MOST_SESSIONS} sessions one after the other")

    async def _made(
        self,
        client: mcp.Client,
        tool: str,
        arguments: dict[str, Any],
        asking: Elicitation,
        timeout: float,
        report: Callable[[Any], None],
        has_effect: bool,
    ) -> types.CallToolResult:
        async def heard(progress: float, total: float | None, message: str | None) -> None:
            told = {"progress": progress, "total": total, "message": message}
            report({name: each for name, each in told.items() if each is not None})

        async def send(**more: Any) -> types.CallToolResult | types.InputRequiredResult:
            # Not `call_tool`, because it checks the result by a validator that a hostile schema
            # can keep busy for ever. The engine checks it.
            params = types.CallToolRequestParams(name=tool, arguments=arguments, **more)
            with _sent() as went:
                try:
                    return await client.session.send_request(
                        types.CallToolRequest(params=params),
                        _RESULT,
                        request_read_timeout_seconds=timeout,
                        progress_callback=heard,
                    )
                except Exception as error:
                    raise self._failed(error, went) from None

        if is_modern(client):
            result = await send()
            for number in range(MOST_ROUNDS):
                if isinstance(result, types.CallToolResult):
                    return result
                more: dict[str, Any] = {"request_state": result.request_state}
                if result.input_requests:
                    more["input_responses"] = asking.answers(result.input_requests)
                else:
                    await asyncio.sleep(min(0.05 * 2**number, 1.0))  # It only wants more time.
                result = await send(**more)
            if isinstance(result, types.CallToolResult):
                return result
            raise Refused(f"it asked for more than {MOST_ROUNDS} times instead of an answer")
        async with self._turns.turn(asking, alone=has_effect):
            if self._client is not client or self._ended:
                raise _Expired
            result = await send()
        if asking.unclear:
            async with self._turns.turn(asking, alone=True):
                result = await send()
        if isinstance(result, types.CallToolResult):
            return result
        raise Refused("it asks in a way that its version of the protocol does not have")

    def _failed(self, error: Exception, went: Attempt) -> Exception:
        """The outcome of a call that ended with this error."""
        code = error.code if isinstance(error, mcp.MCPError) else None
        if went.unsent:
            return Unavailable(self.name, went.unsent)
        if went.expired:
            return _Expired()
        if went.status in (401, 403):
            why = "it does not accept this program's credentials"
            return Refused(f"HTTP {went.status}: {why if code is not None else _plain(error)}")
        if went.lost or went.status >= 500:
            return Lost(went.lost or f"HTTP {went.status}")
        if code in _LOST and self._why is not None:
            return Lost(_plain(self._why))
        if code is None or code in _LOST:
            return Lost(_plain(error))
        status = f"HTTP {went.status}: " if went.status else ""
        return Refused(status + _plain(error), _wanted(error))

    async def _start(self) -> mcp.Client:
        self._ended = self._stale = False
        self._why = None
        self._wake.clear()
        ready: asyncio.Future[mcp.Client] = asyncio.get_running_loop().create_future()
        complaints = Complaints(self.name)
        self._keeper = asyncio.create_task(self._keep(ready, complaints), name=f"mcp {self.name}")
        waited: list[asyncio.Future[Any]] = [ready, self._keeper]
        error: BaseException | None = None
        why = f"did not answer within {2 * self._patience:g} seconds"
        try:
            await asyncio.wait(
                waited, timeout=2 * self._patience, return_when=asyncio.FIRST_COMPLETED
            )
            if ready.done():
                error = ready.exception()
                if error is None:
                    return ready.result()
                why = error.reason if isinstance(error, Unavailable) else _plain(error)
        except BaseException:
            await self._end(at_once=True)
            raise
        await self._end(at_once=True)  # From here on, all that the server said has been read.
        if isinstance(error, BadPins):
            raise error
        if complaints.last():
            why += f"; it said: {complaints.last()[-1_000:]}"
        raise Unavailable(self.name, printable(why))

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

    async def _keep(self, ready: asyncio.Future[mcp.Client], complaints: Complaints) -> None:
        """Hold the session until it is closed or lost; list the tools whenever they changed."""
        try:
            async with AsyncExitStack() as stack:
                with _sent() as went:
                    try:
                        client = await stack.enter_async_context(self._session(complaints))
                        self._listed(await listing(client))
                    except BadPins:
                        raise
                    except Exception as error:
                        raise self._failed(_first(error), went) from None
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
            self._ended = True  # Before any caller that waits for the start goes on.
            if not ready.done():
                why = _first(error) if isinstance(error, Exception) else OSError("ended")
                ready.set_exception(why)
                ready.exception()  # It is read by now, so that asyncio does not log it.
            elif not isinstance(error, asyncio.CancelledError):
                _log.info(
                    "MCP server %s: the connection ended: %s", self.name, printable(_plain(error))
                )
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
        finally:
            self._ended = True
            self._client = None

    def _session(self, complaints: Complaints) -> mcp.Client:
        @asynccontextmanager
        async def streams() -> AsyncIterator[tuple[Any, Any]]:
            server = self._server
            opened = pipes(server, complaints) if isinstance(server, StdioServer) else http(server)
            async with opened as (incoming, outgoing):
                yield Incoming(incoming, self._gone), outgoing

        return mcp.Client(
            streams(),
            read_timeout_seconds=self._patience,
            elicitation_callback=self._elicited,
            message_handler=self._heard,
            client_info=types.Implementation(
                name="agentic-kernel", version=version("agentic-kernel-mcp")
            ),
            cache=None,
        )

    async def _attend(self, client: mcp.Client) -> None:
        while not self._ended:
            await self._wake.wait()
            self._wake.clear()
            if self._stale and not self._ended:
                self._stale = False
                self._listed(await listing(client))
                with suppress(TimeoutError):
                    async with asyncio.timeout(PAUSE):
                        while not self._ended:
                            await self._wake.wait()
                            self._wake.clear()
                if self._stale:
                    self._wake.set()

    async def _listen(self, client: mcp.Client) -> None:
        """Hear that the tools changed, where the protocol has a subscription for it."""
        if not is_modern(client):
            return
        tools = client.server_capabilities.tools
        if tools is None or not tools.list_changed:
            return
        with suppress(Exception):
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._list_again()

    async def _heard(self, message: Any) -> None:
        if isinstance(getattr(message, "root", message), types.ToolListChangedNotification):
            self._list_again()

    def _list_again(self) -> None:
        self._stale = True
        self._wake.set()

    def _gone(self, why: Exception | None) -> None:
        self._why = why
        self._ended = True
        self._wake.set()

    async def _elicited(self, context: Any, params: Any) -> types.ElicitResult:
        """Answer the server's question, for the call that it belongs to."""
        asking = await self._turns.asking()
        return types.ElicitResult(action="cancel") if asking is None else asking.dismissed(params)


def is_modern(client: mcp.Client) -> bool:
    """True if a server ends a call to ask something, and does not ask in the middle of it."""
    return client.protocol_version in MODERN_PROTOCOL_VERSIONS


class _Expired(Exception):
    """The session ended before the call was made, or the server has forgotten it."""


class _sent:  # noqa: N801
    """The `Attempt` that the requests inside of the block write into."""

    def __enter__(self) -> Attempt:
        went = Attempt()
        self._token = attempt.set(went)
        return went

    def __exit__(self, *raised: object) -> None:
        attempt.reset(self._token)


def _wanted(error: Exception) -> Sequence[types.ElicitRequestURLParams]:
    """The pages that an error asks the user to open; none if it is another error."""
    if not isinstance(error, mcp.MCPError) or error.code != types.URL_ELICITATION_REQUIRED:
        return ()
    try:
        data = types.ElicitationRequiredErrorData.model_validate(error.error.data)
    except ValueError:
        return ()
    return data.elicitations


def _first(error: Exception) -> Exception:
    """The first failure of a group."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def _plain(error: BaseException) -> str:
    """The cause of the failure, in a few words."""
    error = _first(error) if isinstance(error, Exception) else error
    if isinstance(error, FileNotFoundError) and error.filename:
        return f"{error.filename!r} was not found; install it, or give its path"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename!r}" if error.filename else error.strerror
    text = str(error)[:500]
    return text or type(error).__name__

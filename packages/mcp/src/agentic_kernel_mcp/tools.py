"""MCPTools: the tools of MCP servers as a registry of a Loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, get_args

import mcp
import mcp_types as types

from agentic_kernel import InvalidValue
from agentic_kernel_engine.edges import choice, flag, instance, seconds
from agentic_kernel_engine.loop import INDETERMINATE
from agentic_kernel_engine.seams import SideEffect, Tool, ToolContext, ToolError

from .connection import Connection, Lost, Refused, is_modern
from .describing import MAX_NAME, effect_of, output_of, text_of, tool_name
from .eliciting import Elicitation
from .errors import CHANGED, FAILED, REFUSED, UNAVAILABLE, BadPins, Unavailable
from .pins import Pins, digest
from .pipes import printable
from .servers import Server, check_servers

LONGEST: Final = 2_000
"""The most characters of a server's words in a message."""
LONGEST_NAME: Final = 200
"""The most characters of a server's name of a tool."""
NOBODY_ANSWERS: Final = (
    "the server asked its user a question; nobody can be asked here, so it was told that the "
    "question is dismissed"
)
"""The message to the caller of a call that fails after the server has asked."""
_log = logging.getLogger(__package__)
_Described = dict[str, Any]


@dataclass(frozen=True)
class Withheld:
    """A tool that a server offers and a Loop does not get."""

    server: str
    tool: str
    """The server's name of the tool."""
    reason: str
    """``new``, ``changed``, or the reason why the tool cannot be used."""
    description: str
    """The server's description of the tool."""
    effect: str
    """The effect of a call, as the server says."""
    digest: str
    """Of all that the server says; see `Pins.pin`."""


class MCPTools:
    """The tools of MCP servers, as a `ToolRegistry`.

    A tool ``read`` of a server ``files`` is called ``files__read``. Open the registry before a Loop
    uses it::

        async with MCPTools({"files": StdioServer("mcp-files")}, pins=Pins("pins.json")) as tools:
            loop = Loop(planner, tools)

    The name, description, schemas and annotations of each tool are pinned by their digest. A tool
    that is new or described in another way than before is withheld until a person accepts it
    (`accept`). The server's annotations say what a call may do: ``read`` if it only reads,
    ``write`` if it only adds, else ``destructive``; a server may lie, so a program that does not
    trust it says `effects` itself.

    A server that asks the user something makes its Task pause with the question. If a server ends
    in the middle of a call that may have had an effect, the outcome is ``indeterminate``, and the
    server is started again for the next call.

    Args:
        servers: The way to start or to reach each server, by its name.
        pins: The accepted tools, by default for this object only.
        accept_first: False to withhold all tools of a server that has no pins yet; by default they
            are accepted as the server lists them first.
        effects: Effects by the Loop's names of tools, instead of the server's words.
        trusted: False to take every tool as ``destructive`` that `effects` does not name.
        timeout: The most seconds of a call.
        start_timeout: The most seconds of a server's start, and of each listing.

    Raises:
        InvalidValue: An argument is not accepted.
    """

    def __init__(
        self,
        servers: Mapping[str, Server],
        *,
        pins: Pins | None = None,
        accept_first: bool = True,
        effects: Mapping[str, SideEffect] | None = None,
        trusted: bool = True,
        timeout: float = 60.0,
        start_timeout: float = 30.0,
    ) -> None:
        self._pins = Pins() if pins is None else instance(pins, "pins", Pins)
        self._effects = dict(effects or {})
        for name, effect in self._effects.items():
            choice(effect, f"effects[{name!r}]", get_args(SideEffect))
        self._first = flag(accept_first, "accept_first")
        self._trusted = flag(trusted, "trusted")
        self._timeout = seconds(timeout, "timeout", zero=False)
        patience = seconds(start_timeout, "start_timeout", zero=False)
        self._connections = {
            name: Connection(name, server, patience=patience, listed=partial(self._list, name))
            for name, server in check_servers(servers).items()
        }
        self._listings: dict[str, dict[str, _Described]] = {}
        self._tools: dict[str, Tool] = {}
        self._withheld: tuple[Withheld, ...] = ()

    async def __aenter__(self) -> MCPTools:
        await self.open()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Start all servers and list their tools.

        Raises:
            Unavailable: A server cannot be used; none is left running.
            InvalidValue: `effects` names a tool that is not there.
            BadPins: The pins cannot be written.
        """
        try:
            async with asyncio.TaskGroup() as starting:
                for connection in self._connections.values():
                    starting.create_task(connection.open())
            missing = sorted(self._effects.keys() - self._tools.keys() - self._held())
            if missing:
                raise InvalidValue("effects", f"names {missing[0]!r}, and there is no such tool")
        except BaseException as error:
            await self.close()
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            raise error from None

    async def close(self) -> None:
        """End all servers. A second time it does nothing."""
        await asyncio.gather(*(each.close() for each in self._connections.values()))

    def tools(self) -> Sequence[Tool]:
        """The accepted tools, by server and in the server's order."""
        return tuple(self._tools.values())

    def find(self, name: str) -> Tool | None:
        """The accepted tool of this name; None if there is none."""
        return self._tools.get(name)

    @property
    def withheld(self) -> tuple[Withheld, ...]:
        """The tools that a Loop does not get, and why."""
        return self._withheld

    def accept(self, server: str, *tools: str) -> None:
        """Accept tools as their server describes them now. Call this for a person who has read it.

        Args:
            server: The server.
            *tools: The server's own names; without any, all that are new or changed.

        Raises:
            InvalidValue: There is no such server or tool, or the tool cannot be used.
            BadPins: The pins cannot be written.
        """
        held = {each.tool: each.reason for each in self._withheld if each.server == server}
        if server not in self._listings:
            raise InvalidValue(
                "server", f"{server!r:.80} is not one of {', '.join(self._listings)}"
            )
        chosen = tools or tuple(name for name, why in held.items() if why in ("new", "changed"))
        for name in chosen:
            if name not in self._listings[server]:
                raise InvalidValue("tools", f"{server} has no tool {name!r:.80}")
        self._pins.pin(server, {name: digest(self._listings[server][name]) for name in chosen})
        self._make()

    def _held(self) -> set[str]:
        return {tool_name(each.server, each.tool) for each in self._withheld}

    def _list(self, server: str, tools: Sequence[types.Tool]) -> None:
        """Take a server's listing; at the first one, accept it."""
        listing: dict[str, _Described] = {}
        for each in tools:
            if each.name in listing:
                raise ValueError(f"it lists the tool {each.name!r:.80} twice")
            listing[each.name] = each.model_dump(by_alias=True, mode="json", exclude_none=True)
        if self._pins.of(server) is None and self._first:
            self._pins.pin(server, {name: digest(each) for name, each in listing.items()})
        self._listings[server] = listing
        self._make()

    def _make(self) -> None:
        """Make the tools of all listings anew."""
        made: dict[str, Tool] = {}
        withheld: list[Withheld] = []
        for server in self._connections:
            pins = self._pins.of(server) or {}
            for name, described in self._listings.get(server, {}).items():
                why = _name_fault(name) or _unpinned(pins.get(name), described)
                if not why:
                    try:
                        tool = self._tool(server, name, described)
                    except InvalidValue as error:
                        why = str(error)[:LONGEST]
                    else:
                        if made.setdefault(tool.name.lower(), tool) is tool:
                            continue
                        why = f"another tool is called {tool.name} already"
                said = str(described.get("description") or "")[:LONGEST]
                effect = effect_of(_hints(described))
                withheld.append(Withheld(server, name, why, said, effect, digest(described)))
        new = [each for each in withheld if each not in self._withheld]
        self._tools = {tool.name: tool for tool in made.values()}
        self._withheld = tuple(withheld)
        for each in new:
            _log.warning(
                "MCP server %s: the tool %s is withheld: %s",
                each.server,
                printable(each.tool[:MAX_NAME]),
                printable(each.reason),
            )

    def _tool(self, server: str, name: str, described: _Described) -> Tool:
        """A tool of a Loop.

        Raises:
            InvalidValue: The engine does not accept a part of the description.
        """
        called = tool_name(server, name)
        hints = _hints(described)
        effect = self._effects.get(called)
        if effect is None:
            effect = effect_of(hints) if self._trusted else "destructive"
        idempotent = self._trusted and hints.idempotent_hint is True
        has_effect = effect in ("write", "destructive")
        return Tool(
            called,
            _Call(
                self,
                server,
                name,
                digest(described),
                has_effect,
                is_repeatable=idempotent or not has_effect,
                has_schema=described.get("outputSchema") is not None,
            ),
            description=str(described.get("description") or described.get("title") or ""),
            input_schema=described["inputSchema"],
            output_schema=described.get("outputSchema"),
            effect=effect,
            idempotent=idempotent,
        )

    async def _call(self, call: _Call, arguments: dict[str, Any], context: ToolContext) -> Any:
        connection = self._connections[call.server]
        asking = Elicitation(context, call.server)
        may_repeat = call.is_repeatable

        def begins(client: mcp.Client) -> None:
            nonlocal may_repeat
            described = self._listings[call.server].get(call.name)
            if described is None or digest(described) != call.digest:
                raise ToolError(
                    f"{call.server} describes {call.name} in another way than was accepted, so it "
                    "was not called; a person must accept it",
                    CHANGED,
                )
            may_repeat = call.is_repeatable or is_modern(client)
            if not may_repeat:
                asking.check()

        async def made() -> types.CallToolResult:
            return await connection.call(
                call.name, arguments, asking, self._timeout, context.progress,
                has_effect=call.has_effect, begins=begins,
            )  # fmt: skip

        try:
            try:
                result = await made()
            except Refused as error:
                if not asking.visited(error.wants):
                    raise
                result = await made()  # The server refused the call until a page was opened.
        except (Unavailable, BadPins) as error:
            raise ToolError(str(error)[:LONGEST], UNAVAILABLE) from None
        except Lost as error:
            said = f"{call.server} gave no answer ({printable(str(error))})"[:LONGEST]
            if not call.has_effect:
                raise ToolError(said, UNAVAILABLE) from None
            raise ToolError(
                f"{said}; whether the call took effect is not known; find out before you repeat it",
                INDETERMINATE,
            ) from None
        except Refused as error:
            asking.settle(str(error), may_repeat=may_repeat)
            raise ToolError(f"{call.server}: {error}"[:LONGEST], REFUSED) from None
        asking.settle(text_of(result), may_repeat=may_repeat)
        if asking.unanswered:
            _log.warning("MCP server %s: %s", call.server, NOBODY_ANSWERS)
        if result.is_error:
            said = text_of(result)[:LONGEST] or "the tool failed"
            raise ToolError(f"{said} ({NOBODY_ANSWERS})" if asking.unanswered else said, FAILED)
        return output_of(result, structured_only=call.has_schema)


class _Call:
    """The handler of one tool."""

    def __init__(
        self,
        registry: MCPTools,
        server: str,
        name: str,
        digest: str,
        has_effect: bool,
        *,
        is_repeatable: bool,
        has_schema: bool,
    ) -> None:
        self._registry = registry
        self.server = server
        self.name = name
        self.digest = digest
        """Of what was accepted."""
        self.has_effect = has_effect
        self.is_repeatable = is_repeatable
        self.has_schema = has_schema
        """True if the tool has a schema of its results."""

    async def __call__(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        return await self._registry._call(self, arguments, context)


def _hints(described: _Described) -> types.ToolAnnotations:
    return types.ToolAnnotations.model_validate(described.get("annotations") or {})


def _name_fault(name: str) -> str:
    """Why a tool of this name is withheld; "" if it is not."""
    if not name or len(name) > LONGEST_NAME:
        return f"its name has {len(name):,} characters; 1 to {LONGEST_NAME} are accepted"
    if not name.isprintable():
        return "its name has invisible or control characters"
    return ""


def _unpinned(pin: str | None, described: _Described) -> str:
    """Why a tool is withheld, as far as its pin goes; "" if it is accepted."""
    if pin is None:
        return "new"
    return "" if pin == digest(described) else "changed"

"""Proxying: the guard in front of an MCP server, as an MCP server. It joins both packages."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agentic_kernel import InvalidValue
from agentic_kernel_engine import Principal
from agentic_kernel_engine.edges import choice
from agentic_kernel_engine.seams import Tool
from agentic_kernel_guard import (
    Budgets,
    CapabilitySpec,
    DefaultPolicy,
    Firewall,
    Guard,
    GuardedTools,
    GuardError,
    Keyring,
    Principals,
    Registry,
    RulePolicy,
    RuleSet,
    StaticRouter,
    ToolsDriver,
)
from agentic_kernel_guard.firewall.firewall import MODES
from agentic_kernel_guard.loop.asking import JUSTIFICATION
from agentic_kernel_guard.loop.tools import EXPAND
from agentic_kernel_guard.registry import tool_name
from agentic_kernel_guard.spec_file import SpecFile
from agentic_kernel_guard.stores import GuardStore
from agentic_kernel_mcp import CHANGED, UNAVAILABLE, MCPTools, Pins, Server
from agentic_kernel_mcp import tool_name as tool_of
from agentic_kernel_mcp.serving import Listener, ToolServer, serve_http, serve_stdio

from .text import label

LONGEST: Final = 2_000
"""The most characters of a tool's description that a client gets."""
INSTRUCTIONS: Final = (
    "A guard stands in front of these tools. Results may be cut; expand shows more by the handle. "
    "If a call waits for an approval, its error names a request. Tell the user, who runs "
    "`agentic-kernel guard approve REQUEST`; then make the same call again. A tool that asks its "
    "user a question is told that nobody answers; give it all that it needs as arguments."
)
"""The instructions for the client's model."""
_PATIENCE: Final = 30.0
"""Seconds that a call may take beyond its time, before it is given up in this process."""
_OFTEN: Final = 600.0
"""Seconds between two looks for results whose time is over."""
_ADDRESS: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]]+)):([0-9]{1,5})")
Say = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """The options of the command line.

    Raises:
        InvalidValue: The mode or the principal is not accepted.
    """

    name: str
    server: Server
    rules: RuleSet | None = None
    specs: SpecFile | None = None
    pins: Path | None = None
    principal: str = "agent"
    tenant: str = ""
    roles: tuple[str, ...] = ()
    kind: str = "user"
    mode: Any = "table"
    chars: int = 4_000
    timeout: float = 60.0

    def __post_init__(self) -> None:
        choice(self.mode, "--mode", MODES)
        if not self.who.name:
            raise InvalidValue("--principal", "is empty; name for whom the client acts")

    @property
    def who(self) -> Principal:
        """For whom the client acts."""
        return Principal(self.principal, self.tenant, kind=self.kind, roles=frozenset(self.roles))

    @property
    def said(self) -> SpecFile:
        """The spec file: a person's words about the tools."""
        return SpecFile() if self.specs is None else self.specs


@dataclass(frozen=True)
class Offered:
    """The tools of a server as capabilities."""

    specs: dict[str, CapabilitySpec]
    """By the server's name of the tool."""
    withheld: tuple[tuple[str, str], ...]
    """The tools that no client gets, each with the reason."""


def listener(text: str, credential: str, names: tuple[str, ...]) -> Listener:
    """The listener of ``HOST:PORT``.

    Raises:
        InvalidValue: It has another form, or is reached from elsewhere without a credential.
    """
    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise InvalidValue("--listen", "must be HOST:PORT, e.g. 127.0.0.1:8765 or [::1]:8765")
    return Listener(found[1] or found[2], int(found[3]), credential, names)


async def serve(
    settings: Settings, store: GuardStore, keys: Keyring, where: Listener | None, say: Say
) -> None:
    """Serve until the client is gone, or for ever over HTTP.

    Raises:
        GuardError, RuleError, MCPError, BadPins, InvalidValue: It cannot begin.
    """
    try:
        async with _upstream(settings) as tools:
            offered = offers(settings, tools)
            for tool, reason in offered.withheld:
                say(f"the tool {label(tool)} is withheld: {reason}")
            server = front(settings, tools, offered, store, keys)
            await _prune(store)  # A store that does not answer is told before a client is served.
            pruning = asyncio.create_task(_prune_often(store, say))
            try:
                if where is None:
                    await serve_stdio(server)
                    return
                async with serve_http(server, where) as url:
                    say(f"listening on {url}")
                    await asyncio.Event().wait()
            finally:
                pruning.cancel()
    finally:
        await store.close()


async def _prune(store: GuardStore) -> None:
    await store.prune(int(time.time() * 1_000))


async def _prune_often(store: GuardStore, say: Say) -> None:
    """Forget what is over, so that no whole result stays in the store for much longer."""
    while True:
        await asyncio.sleep(_OFTEN)
        try:
            await _prune(store)
        except GuardError as error:
            say(f"what is over is still in the store: {error.message}")


async def listed(
    settings: Settings, accept: Sequence[str]
) -> tuple[list[tuple[CapabilitySpec, str]], tuple[tuple[str, str], ...]]:
    """The capabilities of a server with their tools, and the tools that are withheld.

    Args:
        settings: The server, the spec file and the pins.
        accept: New or changed tools that a person accepts now.
    """
    async with _upstream(settings) as tools:
        if accept:
            tools.accept(settings.name, *accept)
        offered = offers(settings, tools)
        return [(spec, tool) for tool, spec in offered.specs.items()], offered.withheld


@asynccontextmanager
async def _upstream(settings: Settings) -> AsyncIterator[MCPTools]:
    pins = Pins() if settings.pins is None else Pins(settings.pins)
    async with MCPTools(
        {settings.name: settings.server}, pins=pins, trusted=settings.said.trusted,
        timeout=settings.timeout + _PATIENCE,
    ) as tools:  # fmt: skip
        yield tools


def offers(settings: Settings, tools: MCPTools) -> Offered:
    """The specs of a server's tools: its own words, refined by the spec file.

    Raises:
        RuleError: The spec file does not fit the server.
    """
    prefix = tool_of(settings.name, "")
    known = {each.name.removeprefix(prefix): each for each in tools.tools()}
    withheld = [(each.tool, each.reason) for each in tools.withheld]
    settings.said.check({*known, *(tool for tool, _ in withheld)})
    specs: dict[str, CapabilitySpec] = {}
    for name, tool in known.items():
        try:
            spec = settings.said.refined(_spec(settings.name, name, tool), name)
            if spec is not None:
                _check_taken(spec)
                specs[name] = spec
        except InvalidValue as error:
            withheld.append((name, str(error)))
    return Offered(specs, tuple(withheld))


def front(
    settings: Settings, tools: MCPTools, offered: Offered, store: GuardStore, keys: Keyring
) -> ToolServer:
    """The guard as an MCP server.

    Raises:
        InvalidValue: Two capabilities have one tool name, or a setting is not accepted.
    """
    who = settings.who
    driver = ToolsDriver(
        tools, name=settings.name, source=settings.name, refusals=(UNAVAILABLE, CHANGED)
    )
    specs = list(offered.specs.values())
    guard = Guard(
        Registry(specs, _short), StaticRouter({spec.name: [driver] for spec in specs}),
        policy=DefaultPolicy() if settings.rules is None else RulePolicy(settings.rules),
        store=store, keys=keys, resolver=Principals([who]), name="proxy",
        firewall=Firewall(Budgets(chars=settings.chars)),
    )  # fmt: skip
    modes = {
        spec.name: said.mode
        for tool, spec in offered.specs.items()
        if (said := settings.said.refinements.get(tool)) is not None and said.mode is not None
    }
    guarded = GuardedTools(
        guard, mode=settings.mode, modes=modes, timeout=settings.timeout, asks=True
    )
    return ToolServer(
        guarded, name=settings.name, principal=who, timeout=settings.timeout + 2 * _PATIENCE,
        instructions=INSTRUCTIONS,
    )  # fmt: skip


def _spec(server: str, name: str, tool: Tool) -> CapabilitySpec:
    return CapabilitySpec(
        f"{server}/{name}",
        tool.description.strip()[:LONGEST] or f"{name} of {server}",
        tool.name,
        arguments=tool.input_schema,
        safety=tool.effect,  # type: ignore[arg-type]  # The spec reads the text.
        idempotent=tool.idempotent,
    )


def _check_taken(spec: CapabilitySpec) -> None:
    """Refuse a tool that the guard could not show beside its own names.

    Raises:
        InvalidValue: Its name or an argument of it is the guard's own.
    """
    if _short(spec.name).lower() == EXPAND:
        raise InvalidValue(
            "name", f"{EXPAND} is the guard's own tool; name the capability in the spec file"
        )
    properties = spec.arguments.get("properties") or {}
    if JUSTIFICATION in properties or JUSTIFICATION in spec.arguments.get("required", ()):
        raise InvalidValue("arguments", f"{JUSTIFICATION} is the guard's own argument")


def _short(capability: str) -> str:
    """The name that clients know a capability by: that of the tool, without the server's."""
    return tool_name(capability.partition("/")[2])

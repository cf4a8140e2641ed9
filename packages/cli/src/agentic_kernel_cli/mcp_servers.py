"""The MCP servers of a file: their tools for Tasks, as far as a person accepted these tools.

The accepted tools are kept beside the file, so that both can be looked at and shared together. The
package of MCP is imported only if a command names a file.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from agentic_kernel import CannotStart

from .grants import Grants, LeftAlone
from .kinds import install
from .text import cut, label

if TYPE_CHECKING:
    from agentic_kernel_mcp import MCPTools, Withheld

LISTED: Final = 50
"""The most tools that are shown one by one."""
_WIDTH: Final = 200


class NotAccepted(LeftAlone):
    """Servers offer tools that no person has accepted, so that nothing was run.

    Attributes:
        file: The file of the servers.
        tools: The tools, as the servers describe them now.
    """

    def __init__(self, file: Path, tools: Sequence[Withheld]) -> None:
        self.file = file
        self.tools = tuple(tools)
        names = ", ".join(f"{each.server}/{label(each.tool, 60)}" for each in tools[:5])
        more = f" and {len(tools) - 5} more" if len(tools) > 5 else ""
        super().__init__(
            f"{label(str(file))} has tools that nobody accepted: {names}{more}; look at them by "
            "the same command at a terminal, or add --accept-tools"
        )

    def lines(self) -> list[str]:
        """The tools, one text for each, in which every character is visible."""
        found = [
            f"{each.server}: {each.reason} tool {label(each.tool, 60)} ({each.effect}): "
            f"{label(cut(each.description, _WIDTH))}"
            for each in self.tools[:LISTED]
        ]
        left = len(self.tools) - len(found)
        return [*found, f"and {left} more"] if left else found

    def accept(self) -> None:
        """Accept the tools as they were shown.

        Raises:
            CannotStart: The place of the accepted tools cannot be written.
        """
        from agentic_kernel_mcp import BadPins, Pins

        try:
            pins = Pins(pins_of(self.file))
            for server in {each.server for each in self.tools}:
                shown = {each.tool: each.digest for each in self.tools if each.server == server}
                pins.pin(server, shown)
        except BadPins as error:
            raise CannotStart(label(str(error))) from error


def pins_of(file: Path) -> Path:
    """The file beside a file of servers that keeps the accepted tools: ``NAME.pins.json``."""
    return file.with_name(f"{file.stem}.pins.json")


@asynccontextmanager
async def with_servers(grants: Grants) -> AsyncIterator[Grants]:
    """Start the servers of all grants; yield the grants with the servers' tools.

    Raises:
        NotAccepted: A tool is new or changed, and the grant does not accept it.
        CannotStart: A server cannot be used, or the package of MCP is not installed.
        InvalidValue: A file is not a file of servers.
    """
    boxes = {each.box.mcp: each.box for each in grants.values() if each.box and each.box.mcp}
    if not boxes:
        yield grants
        return
    async with AsyncExitStack() as stack:
        opened = {
            file: await stack.enter_async_context(_tools(file, accept=box.accept_tools))
            for file, box in boxes.items()
            if file is not None
        }
        yield {
            id: replace(each, box=replace(each.box, registry=opened[each.box.mcp]))
            if each.box is not None and each.box.mcp is not None
            else each
            for id, each in grants.items()
        }


@asynccontextmanager
async def _tools(file: Path, *, accept: bool) -> AsyncIterator[MCPTools]:
    try:
        from agentic_kernel_mcp import BadPins, MCPError, MCPTools, Pins, read_servers
    except ImportError as error:
        raise CannotStart(f"MCP is not installed: {install('mcp')}") from error
    read = read_servers(file)
    if read.unused:
        _say(f"{label(str(file))}: not used here: {label(', '.join(read.unused), _WIDTH)}")
    try:
        tools = MCPTools(read.servers, pins=Pins(pins_of(file)), accept_first=False)
        await tools.open()
    except (MCPError, BadPins) as error:
        raise CannotStart(label(str(error))) from error
    try:
        waiting = [each for each in tools.withheld if each.reason in ("new", "changed")]
        if waiting and not accept:
            raise NotAccepted(file, waiting)
        if waiting:
            NotAccepted(file, waiting).accept()
            for server in {each.server for each in waiting}:
                tools.accept(server)
        for each in tools.withheld:
            _say(f"{each.server}: no tool {label(each.tool, 60)}: {label(each.reason, _WIDTH)}")
        yield tools
    finally:
        await tools.close()


def _say(news: str) -> None:
    typer.echo(f"agentic-kernel: {news}", err=True)

"""Toolbox: which tools of this command a Task may use, with their folder and approval."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agentic_kernel import InvalidValue

from .workspace import Identity, identity_of

if TYPE_CHECKING:
    from agentic_kernel_engine.seams import Tool, ToolRegistry

    from .tools import AskBefore

TOOLS_KEY: Final = "cli/tools"
WORKSPACE_KEY: Final = "cli/workspace"
YES_KEY: Final = "cli/yes"
MCP_KEY: Final = "cli/mcp"
NAMES: Final = ("calculator", "write")
"""The tools; they are made in `tools`, which is loaded when a Task uses one."""
SHOWN: Final = frozenset({"calculator", "write_file"})
"""The names by which a model calls them."""


@dataclass(frozen=True)
class Toolbox:
    """The tools that the person at this terminal lets a Task use, with their folder and approval.

    A toolbox is made from a command line or from a confirmation, never from a stored Task alone.

    Raises:
        InvalidValue: There are no names and no file of MCP servers, a tool does not exist, the
            workspace is not a folder, ``write`` has no workspace, or there is no such file.
    """

    names: tuple[str, ...]
    workspace: Path | None = None
    """The folder in which ``write`` writes; its links are resolved."""
    yes: bool = False
    """True if a call that changes something needs no approval."""
    identity: Identity | None = field(repr=False, default=None)
    """The identity of the workspace when it was granted; another folder in its place is refused."""

    mcp: Path | None = None
    """The file of MCP servers whose tools are used, too; its links are resolved."""
    accept_tools: bool = False
    """True if tools of these servers that are new or changed are accepted."""
    registry: ToolRegistry | None = field(repr=False, compare=False, default=None)
    """The tools of these servers, while the servers run."""

    def __post_init__(self) -> None:
        if self.mcp is not None:
            try:
                object.__setattr__(self, "mcp", self.mcp.resolve(strict=True))
            except (OSError, RuntimeError, ValueError) as error:
                raise InvalidValue("--mcp", "must be a file that exists") from error
        if not self.names and self.mcp is None:
            raise InvalidValue("--tools", f"names no tool; the tools are {', '.join(NAMES)}")
        for name in self.names:
            if name not in NAMES:
                raise InvalidValue(
                    "--tools", f"{ascii(name)[:40]} is not a tool; use {', '.join(NAMES)}"
                )
        if self.workspace is not None and self.identity is None:
            try:
                folder = self.workspace.resolve(strict=True)
                identity = identity_of(folder)
            except (OSError, RuntimeError, ValueError) as error:
                raise InvalidValue("--workspace", "must be a folder that exists") from error
            object.__setattr__(self, "workspace", folder)
            object.__setattr__(self, "identity", identity)
        elif self.workspace is None and "write" in self.names:
            raise InvalidValue("--workspace", "must be a folder; the tool write needs one")

    def metadata(self) -> dict[str, Any]:
        """The metadata by which a Task asks for these tools."""
        kept: dict[str, Any] = {TOOLS_KEY: list(self.names), YES_KEY: self.yes}
        if self.workspace is not None:
            kept[WORKSPACE_KEY] = str(self.workspace)
        if self.mcp is not None:
            kept[MCP_KEY] = str(self.mcp)
        return kept

    def policy(self) -> AskBefore:
        """The policy: a call that changes something needs an approval, unless ``yes`` is True."""
        from .tools import AskBefore

        return AskBefore([] if self.yes else self.writing())

    def writing(self) -> list[str]:
        """The names of the tools that change something."""
        return [tool.name for tool in self.tools() if tool.has_effect]

    def tools(self) -> list[Tool]:
        """The tools, each of them once."""
        from .tools import MAKERS

        own = [MAKERS[name](self) for name in dict.fromkeys(self.names)]
        return [*own, *(() if self.registry is None else self.registry.tools())]

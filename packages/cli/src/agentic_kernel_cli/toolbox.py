"""Toolbox: which tools of this command a Task may use, with their folder and approval."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agentic_kernel import InvalidValue

from .workspace import Identity, identity_of

if TYPE_CHECKING:
    from agentic_kernel_engine.seams import Tool

    from .tools import AskBefore

TOOLS_KEY: Final = "cli/tools"
WORKSPACE_KEY: Final = "cli/workspace"
YES_KEY: Final = "cli/yes"
NAMES: Final = ("calculator", "write")
"""The tools; they are made in `tools`, which is loaded when a Task uses one."""


@dataclass(frozen=True)
class Toolbox:
    """The tools that the person at this terminal lets a Task use, with their folder and approval.

    A toolbox is made from a command line or from a confirmation, never from a stored Task alone.

    Raises:
        InvalidValue: There are no names, a tool does not exist, the workspace is not a folder, or
            ``write`` has no workspace.
    """

    names: tuple[str, ...]
    workspace: Path | None = None
    """The folder in which ``write`` writes; its links are resolved."""
    yes: bool = False
    """True if writing needs no approval."""
    identity: Identity | None = field(repr=False, default=None)
    """The identity of the workspace when it was granted; another folder in its place is refused."""

    def __post_init__(self) -> None:
        if not self.names:
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
        return kept

    def policy(self) -> AskBefore:
        """The policy: a call that changes files needs an approval, unless ``yes`` is True."""
        from .tools import AskBefore

        return AskBefore([] if self.yes else self.writing())

    def writing(self) -> list[str]:
        """The names of the tools that change files."""
        return [tool.name for tool in self.tools() if tool.has_effect]

    def tools(self) -> list[Tool]:
        """The tools, each of them once."""
        from .tools import MAKERS

        return [MAKERS[name](self) for name in dict.fromkeys(self.names)]

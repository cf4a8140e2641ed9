"""The tools of this command: a calculator, and one that writes new files in one folder."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from agentic_kernel import InvalidValue
from agentic_kernel_engine.loop import ALLOW, Context, Decision, ToolCall, require_approval
from agentic_kernel_engine.plans.action import Action
from agentic_kernel_engine.seams import Tool, ToolError

from . import arithmetic
from .text import label
from .workspace import Identity, identity_of, write_new

__all__ = ["AskBefore", "Toolbox", "write_new"]

TOOLS_KEY: Final = "cli/tools"
WORKSPACE_KEY: Final = "cli/workspace"
YES_KEY: Final = "cli/yes"
MAX_CONTENT: Final = 1_000
"""Maximum length of a written file, in characters; it must fit into the model's answer."""


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
            raise InvalidValue("--tools", f"names no tool; the tools are {', '.join(_MAKERS)}")
        for name in self.names:
            if name not in _MAKERS:
                raise InvalidValue(
                    "--tools", f"{ascii(name)[:40]} is not a tool; use {', '.join(_MAKERS)}"
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
        return AskBefore([] if self.yes else self.writing())

    def writing(self) -> list[str]:
        """The names of the tools that change files."""
        return [tool.name for tool in self.tools() if tool.has_effect]

    def tools(self) -> list[Tool]:
        """The tools, each of them once."""
        return [_MAKERS[name](self) for name in dict.fromkeys(self.names)]


class AskBefore:
    """A policy: calls of these tools need an approval, all other actions are allowed."""

    def __init__(self, tools: Collection[str]) -> None:
        self._tools = frozenset(tools)

    async def authorize(self, action: Action, context: Context) -> Decision:
        if isinstance(action, ToolCall) and action.tool in self._tools:
            return require_approval("it changes files")
        return ALLOW


def _calculator(box: Toolbox) -> Tool:
    def calculate(arguments: Mapping[str, Any]) -> str:
        try:
            return arithmetic.evaluate(arguments["expression"])
        except arithmetic.NoExpression as error:
            raise ToolError(f"the expression is refused: {error}") from error

    return Tool(
        "calculator",
        calculate,
        description="Work out a sum.",
        input_schema=_texts(expression=arithmetic.MAX_LENGTH),
        effect="none",
        inline=True,
    )


def _write(box: Toolbox) -> Tool:
    workspace = box.workspace
    assert workspace is not None  # Checked when the box was made.

    def write(arguments: Mapping[str, Any]) -> str:
        path = arguments["path"]
        try:
            return write_new(workspace, path, arguments["content"], identity=box.identity)
        except FileExistsError as error:
            raise ToolError(
                f"{label(path, 80)} exists already, and no file is replaced; use another name"
            ) from error
        except OSError as error:
            raise ToolError(
                f"{label(path, 80)} cannot be written ({error.strerror}); use a folder that "
                "exists, or only a file name"
            ) from error
        except ValueError as error:
            raise ToolError(str(error)) from error

    return Tool(
        "write_file",
        write,
        description="Write a new file.",
        input_schema=_texts(path=100, content=MAX_CONTENT),
        effect="write",
        concurrent=False,
    )


_MAKERS: Final[Mapping[str, Callable[[Toolbox], Tool]]] = {
    "calculator": _calculator,
    "write": _write,
}


def _texts(**longest: int) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            name: {"type": "string", "maxLength": length} for name, length in longest.items()
        },
        "required": list(longest),
        "additionalProperties": False,
    }

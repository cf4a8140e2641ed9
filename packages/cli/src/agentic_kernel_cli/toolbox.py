"""The tools that this command brings: a calculator, and writing new files in one folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agentic_kernel import CannotStart, InvalidValue, Task
from agentic_kernel_engine.loop import ALLOW, Context, Decision, ToolCall, require_approval
from agentic_kernel_engine.loop.action import Action
from agentic_kernel_engine.seams import Tool

from . import arithmetic

TOOLS_KEY: Final = "cli/tools"
WORKSPACE_KEY: Final = "cli/workspace"
YES_KEY: Final = "cli/yes"
MAX_CONTENT: Final = 1_000
"""Characters of one written file; the model's answer has to hold them."""


@dataclass(frozen=True)
class Toolbox:
    """Which tools a Task has, as its metadata carries it.

    Raises:
        InvalidValue: There is no such tool, or ``write`` has no folder.
    """

    names: tuple[str, ...]
    workspace: Path | None = None
    yes: bool = False
    """Whether writing needs nobody's approval."""

    def __post_init__(self) -> None:
        if not self.names:
            raise InvalidValue("--tools", f"names none; there are {', '.join(_MAKERS)}")
        for name in self.names:
            if name not in _MAKERS:
                raise InvalidValue(
                    "--tools", f"{ascii(name)[:40]} is no tool; there are {', '.join(_MAKERS)}"
                )
        if "write" in self.names and (self.workspace is None or not self.workspace.is_dir()):
            raise InvalidValue("--workspace", "must be a folder; the tool write needs one")

    @classmethod
    def of(cls, task: Task) -> Toolbox:
        """The tools that a Task was dispatched with.

        Raises:
            InvalidValue: Its metadata does not say so, or the folder is gone.
        """
        names, workspace = task.metadata.get(TOOLS_KEY), task.metadata.get(WORKSPACE_KEY)
        if not isinstance(names, (list, tuple)) or not all(isinstance(each, str) for each in names):
            raise InvalidValue(f"Task.metadata[{TOOLS_KEY!r}]", "must be a list of names")
        folder = Path(workspace) if isinstance(workspace, str) else None
        return cls(tuple(names), folder, task.metadata.get(YES_KEY) is True)

    def metadata(self) -> dict[str, Any]:
        """What a Task's input carries, so that whoever takes it up gives it the same tools."""
        kept: dict[str, Any] = {TOOLS_KEY: list(self.names), YES_KEY: self.yes}
        if self.workspace is not None:
            kept[WORKSPACE_KEY] = str(self.workspace.resolve())
        return kept

    def policy(self) -> AskBefore:
        """Who is asked before what changes files: a person, unless that was waived."""
        return AskBefore(
            [] if self.yes else [tool.name for tool in self.tools() if tool.has_effect]
        )

    def tools(self) -> list[Tool]:
        """The tools themselves."""
        return [_MAKERS[name](self) for name in dict.fromkeys(self.names)]


def box_of(task: Task) -> Toolbox | None:
    """The tools that a Task was dispatched with; None if it has none.

    Raises:
        CannotStart: They cannot be had here.
    """
    if TOOLS_KEY not in task.metadata:
        return None
    try:
        return Toolbox.of(task)
    except InvalidValue as error:
        raise CannotStart(str(error), task.id) from error


class AskBefore:
    """A policy: calls of these tools need a person, everything else is done."""

    def __init__(self, tools: Collection[str]) -> None:
        self._tools = frozenset(tools)

    async def authorize(self, action: Action, context: Context) -> Decision:
        if isinstance(action, ToolCall) and action.tool in self._tools:
            return require_approval("it changes files")
        return ALLOW


def write_new(workspace: Path, path: str, content: str) -> str:
    """Write a new file inside a folder; one that exists is never replaced.

    Raises:
        ValueError: The path leads out of the folder.
        OSError: It cannot be written, or is there already.
    """
    root = workspace.resolve(strict=True)
    target = (root / path).resolve()
    if target == root or not target.is_relative_to(root):
        raise ValueError("the path leads out of the workspace; name a file inside it")
    # Exclusive, and so never through a link that was put there meanwhile.
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
        file.write(content)
    return target.relative_to(root).as_posix()


def _calculator(box: Toolbox) -> Tool:
    def calculate(arguments: Mapping[str, Any]) -> str:
        return arithmetic.evaluate(arguments["expression"])

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
        return write_new(workspace, arguments["path"], arguments["content"])

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

"""The tools of this command: a calculator, and one that writes new files in one folder."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from agentic_kernel_engine.loop import ALLOW, Action, Context, Decision, ToolCall, require_approval
from agentic_kernel_engine.seams import Tool, ToolError

from . import arithmetic
from .text import label
from .toolbox import Toolbox
from .workspace import write_new

MAX_CONTENT: Final = 1_000
"""Maximum length of a written file, in characters; it must fit into the model's answer."""


WRITES: Final = "it changes files"
MAY_CHANGE: Final = "it may change something, as its MCP server describes it"


class AskBefore:
    """A policy: calls of these tools need an approval, all other actions are allowed."""

    def __init__(self, tools: Collection[str]) -> None:
        self._tools = frozenset(tools)

    async def authorize(self, action: Action, context: Context) -> Decision:
        if isinstance(action, ToolCall) and action.tool in self._tools:
            return require_approval(WRITES if action.tool == "write_file" else MAY_CHANGE)
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


MAKERS: Final[Mapping[str, Callable[[Toolbox], Tool]]] = {
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

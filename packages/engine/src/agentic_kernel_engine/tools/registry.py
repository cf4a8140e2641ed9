"""Tools: the registry of a run's tools; this module also exports the other names about tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from agentic_kernel import InvalidValue

from .call import MAX_OUTPUT, Invocation, perform, stored
from .deadline import DeadlinePassed
from .raised import ToolError, Unfinished
from .tool import SideEffect, Tool, ToolContext, tool

__all__ = [
    "MAX_OUTPUT",
    "DeadlinePassed",
    "Invocation",
    "SideEffect",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolRegistry",
    "Tools",
    "Unfinished",
    "perform",
    "stored",
    "tool",
]


@runtime_checkable
class ToolRegistry(Protocol):
    """The tools of a run."""

    def tools(self) -> Sequence[Tool]:
        """All of them, in the order in which a planner sees them."""
        ...

    def find(self, name: str) -> Tool | None:
        """The tool of this name, which is one of `tools`; None if there is none."""
        ...


class Tools:
    """A registry that never changes.

    Args:
        *tools: Tools, and typed functions, which become tools as by `tool`.

    Raises:
        InvalidValue: Two have the same name, or a function cannot become a tool.
    """

    def __init__(self, *tools: Tool | Callable[..., Any]) -> None:
        self._named: dict[str, Tool] = {}
        for each in tools:
            made = each if isinstance(each, Tool) else tool(each)
            if made.name in self._named:
                raise InvalidValue("tools", f"has two tools called {made.name!r}; rename one")
            self._named[made.name] = made
        self._all = tuple(self._named.values())

    def tools(self) -> Sequence[Tool]:
        return self._all

    def find(self, name: str) -> Tool | None:
        return self._named.get(name)

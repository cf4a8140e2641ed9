"""ToolTimeout: a limit for tools that have none of their own."""

from __future__ import annotations

import copy

from ... import edges
from ...tools.registry import Invocation, Tool


class ToolTimeout:
    """Gives calls of tools without a timeout of their own so many seconds.

    What a tool did by then, it did: the observation is ``timeout``.

    Raises:
        InvalidValue: Not a number of seconds over 0.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = edges.seconds(seconds, "seconds", zero=False)
        self._limited: dict[str, tuple[Tool, Tool]] = {}
        """By name, a tool and itself with a limit: making the checks of its schemas is costly."""

    async def before_tool(self, invocation: Invocation) -> None:
        tool = invocation.tool
        if tool.timeout is not None:
            return
        known = self._limited.get(tool.name)
        if known is None or known[0] is not tool:
            limited = copy.copy(tool)
            limited.timeout = self._seconds
            known = self._limited[tool.name] = tool, limited
        invocation.tool = known[1]

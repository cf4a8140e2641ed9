"""ToolTimeout: a timeout for tools that have none of their own."""

from __future__ import annotations

import copy

from ... import edges
from ...tools.call import Invocation
from ...tools.tool import Tool


class ToolTimeout:
    """Sets a timeout, in seconds, for calls of tools that have none of their own.

    After it, the observation is ``timeout``; the effects that the tool had by then remain.

    Raises:
        InvalidValue: The timeout is not a number of seconds above 0.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = edges.seconds(seconds, "seconds", zero=False)
        self._limited: dict[str, tuple[Tool, Tool]] = {}
        """By name, a tool and its copy with the timeout. The copy is kept, because the checks of
        its schemas are costly to make."""

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

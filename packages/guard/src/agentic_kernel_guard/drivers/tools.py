"""ToolsDriver: operations that are tools of an engine `ToolRegistry`, and so of an MCP server."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from math import isfinite
from typing import Any, Final

from agentic_kernel_engine.edges import names, part, text
from agentic_kernel_engine.loop import (
    INDETERMINATE,
    MISSING_SCOPES,
    NO_THREAD,
    SCHEMA_VALIDATION_FAILED,
    TIMEOUT,
    Observation,
    ToolCall,
)
from agentic_kernel_engine.seams import Invocation, ToolContext, ToolRegistry, perform

from ..firewall.raw import RawResult
from .port import DriverCall, NoEffect, Progress

_BEFORE: Final = frozenset({SCHEMA_VALIDATION_FAILED, MISSING_SCOPES, NO_THREAD})
"""The errors of calls whose tool was not begun."""


class ToolFailed(Exception):
    """A tool failed in a way that does not say what it did until then."""


class ToolsDriver:
    """Calls tools. The name of the tool is the operation of the capability's spec.

    A tool's own answer that something went wrong (`ToolError`) is a result: ``{"error": code,
    "message": text}``. So a model reads it, through the firewall. A tool that has a bug or takes
    too long may have had an effect, unless it declares that it has none. So may one that answers
    ``indeterminate``.

    Args:
        tools: The registry.
        name: Name of the driver.
        source: The source of the data; taint names it.
        refusals: Codes of a tool's answers which say that nothing was done, e.g. because a server
            could not be reached.

    Raises:
        InvalidValue: An argument is of another type.
    """

    def __init__(
        self,
        tools: ToolRegistry,
        *,
        name: str = "tools",
        source: str = "",
        refusals: Collection[str] = (),
    ) -> None:
        self.name: Final = text(name, "name", empty=False)
        self._refusals = names(refusals, "refusals")
        self._tools: ToolRegistry = part(tools, "tools", ToolRegistry)
        self.source: Final = text(source, "source") or name

    async def call(self, call: DriverCall) -> RawResult:
        """Call the tool for the call's principal, with the call's key.

        Raises:
            NoEffect: There is no such tool, it was not begun, or it declares no effect.
            ToolFailed: It may have had an effect.
        """
        tool = self._tools.find(call.operation)
        if tool is None:
            raise NoEffect(f"{self.name} has no tool {call.operation!a:.200}")
        asked = ToolCall(tool.name, dict(call.arguments), call.key)
        context = ToolContext(call.task, 0, 0, call.key, call.principal, _heard(call.progress))
        found = await perform(Invocation(tool, asked.arguments, asked, context))
        if found.ok:
            return RawResult(found.output, self.name, self.source)
        if found.error in _BEFORE | self._refusals or not (_own(found) or tool.has_effect):
            raise NoEffect(f"{tool.name} was not carried out: {found.error}", "guard/tool_refused")
        if not _own(found):
            raise ToolFailed(f"{tool.name}: {found.error}")
        answer = {"error": found.error, "message": found.message}
        return RawResult(answer, self.name, self.source, failed=True)


def _own(found: Observation) -> bool:
    """True for an answer of the tool itself, and not for a bug, a timeout or an unknown outcome."""
    return found.error not in (TIMEOUT, INDETERMINATE) and "type" not in (found.metadata or {})


def _heard(progress: Progress | None) -> Callable[[Any], None]:
    """Takes a tool's reports; the numbers of those that have some go on."""

    def hear(report: Any) -> None:
        if progress is None or not isinstance(report, Mapping):
            return
        done = _number(report.get("progress"))
        if done is not None:
            progress(done, _number(report.get("total")))

    return hear


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if isfinite(value) else None

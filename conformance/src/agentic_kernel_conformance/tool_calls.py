"""Calls: one tool called as the Loop calls it, and arguments that do not fit its schema."""

from __future__ import annotations

import json
from collections.abc import Coroutine, Iterator, Mapping
from typing import Any, cast

from agentic_kernel import InvalidValue
from agentic_kernel_engine import values
from agentic_kernel_engine.loop import Observation, Principal, ToolCall
from agentic_kernel_engine.seams import Invocation, Tool, ToolContext, compile_schema, perform

from .rules import broken
from .values import REFUSED

_OTHERS: tuple[Any, ...] = (None, True, -7, 0.5, "", "text", [], ["text"], {}, {"": None})


class Calls:
    """Calls of one tool; counts the calls that reach the handler.

    Args:
        tool: The tool to call.
        principal: The principal for whom the calls are made.
        timeout: Seconds that a call may take, in place of the tool's own.
    """

    def __init__(self, tool: Tool, principal: Principal, timeout: float | None = None) -> None:
        self._tool = tool
        self._principal = principal
        self._timeout = timeout
        self._made = 0
        self.entered = 0
        """The number of calls that have reached the handler."""
        self.reports: list[Any] = []
        """The progress reports of all calls."""

    @property
    def timeout(self) -> float | None:
        """Seconds that a call may take."""
        return self._timeout or self._tool.timeout

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tool, name)

    def start(self, arguments: bytes, context: ToolContext) -> Coroutine[Any, Any, Any]:
        """Return the call as a coroutine that has not started."""
        return self._enter(self._tool.start(arguments, context))

    async def _enter(self, call: Coroutine[Any, Any, Any]) -> Any:
        self.entered += 1
        return await call

    async def make(self, arguments: Any, key: str = "") -> Observation:
        """Make one call, with its own idempotency key unless one is given.

        Raises:
            RuleError: A progress report cannot be stored, or the observation is another call's.
        """
        self._made += 1
        number = self._made
        call = ToolCall(self._tool.name, arguments, f"call-{number}")
        reported = len(self.reports)
        context = ToolContext(
            "kit", 0, number, key or f"kit:0:{number}", self._principal, self.reports.append
        )
        observation = await perform(Invocation(cast("Tool", self), arguments, call, context))
        for report in self.reports[reported:]:
            try:
                values.check(report, "a progress report")
            except InvalidValue as error:
                raise broken("outcome", str(error)) from error
        if (observation.call, observation.tool) != (call.id, call.tool):
            raise broken("apart", f"{call.id} was answered for {observation.call!a}")
        return observation


def unfit(schema: Mapping[str, Any], sample: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield arguments that do not fit the schema, made from ``sample``, each with its mistake."""
    fits = compile_schema(schema)
    for said, arguments in _changed(schema, sample):
        if not isinstance(arguments, dict) or fits(arguments) is not None:
            yield said, arguments


def fitting(schema: Mapping[str, Any], sample: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield arguments that fit the schema, made from ``sample``, each with a name for a message.

    One value is empty, of another kind, or long. The long ones come many times, and are as long as
    the largest result of a tool when they are taken together.
    """
    fits = compile_schema(schema)
    names = list(dict.fromkeys([*schema.get("properties", {}), *sample]))
    for name in names:
        for other in (*_OTHERS, " ", "Zoë 👋", "line\nline"):
            given = {**sample, name: other}
            if fits(given) is None:
                yield f"{name!a:.60} is {other!a}", given
    for name in names:
        given = {**sample, name: "long " * 18_000}
        if fits(given) is None:
            for number in range(12):
                yield f"{name!a:.60} of 90,000 characters, the {number + 1}. time", given


def _changed(schema: Mapping[str, Any], sample: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for other in (None, [], "text", [dict(sample)], json.dumps(dict(sample))):
        yield f"{other!a:.60} and no object", other
    names = dict.fromkeys([*schema.get("properties", {}), *sample])
    for name in names:
        yield f"without {name!a:.60}", {k: v for k, v in sample.items() if k != name}
        for other in _OTHERS:
            yield f"{name!a:.60} is {other!a}", {**sample, name: other}
    yield "with a name that nobody gave", {**sample, "nobody_gave_this": 1}
    for said, make in REFUSED.items():
        yield f"with {said}", {**sample, next(iter(names), "extra"): make()}

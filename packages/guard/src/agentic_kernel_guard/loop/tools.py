"""GuardedTools: the registry's capabilities as the tools of a Loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from agentic_kernel import InvalidValue
from agentic_kernel_engine.edges import choice, instance
from agentic_kernel_engine.loop import INDETERMINATE
from agentic_kernel_engine.seams import Tool, ToolContext, ToolError
from agentic_kernel_engine.values import decode, encode

from ..drivers import Indeterminate
from ..errors import GuardError
from ..firewall import ResponseMode
from ..firewall.firewall import MODES
from ..guard import Guard
from ..handles import Query
from ..registry import tool_name
from ..spec import CapabilitySpec
from .asking import JUSTIFICATION, asked, justified, parted

EXPAND: Final = "expand"
"""The tool that shows more of a result that was shown in part."""
_WHY: Final = {
    "type": "string",
    "description": "Why this call is needed. The person who approves it reads this.",
}
_EXPANDING: Final = {
    "type": "object",
    "properties": {
        "handle": {"type": "string", "description": "The handle of the earlier result."},
        "fields": {"type": "array", "items": {"type": "string"}, "maxItems": 100},
        "equals": {"type": "object", "description": "Fields and the values that they must have."},
        "offset": {"type": "integer", "minimum": 0},
        "limit": {"type": "integer", "minimum": 1},
    },
    "required": ["handle"],
    "additionalProperties": False,
}


class GuardedTools:
    """Each capability of a guard as one tool, and the tool ``expand``.

    A tool asks the policy, mints a token for this one call, carries it out, and gives its frame.
    The token never leaves the tool, so none goes stale while a Task waits. The key of the action is
    the call's own: a call that is made again after a crash gives the recorded answer. A call that
    needs an approval is refused unless the Loop says who approved it; `GuardPolicy` makes the Loop
    ask.

    A tool that changes something has one more argument, ``justification``. The person who approves
    the call reads it, the policy weighs it, and no driver gets it.

    Args:
        guard: The guard.
        mode: How results are shown.
        modes: How those of some capabilities are shown.
        timeout: The most seconds of one call.

    Raises:
        InvalidValue: A mode or a capability is not known, or the name of a tool or of an argument
            is taken.
    """

    def __init__(
        self,
        guard: Guard,
        *,
        mode: ResponseMode = "summary",
        modes: Mapping[str, ResponseMode] | None = None,
        timeout: float = 30.0,
    ) -> None:
        self.guard: Final = instance(guard, "guard", Guard)
        shown = dict(modes or {})
        for name in shown:
            guard.registry.spec(name)
        for each in (mode, *shown.values()):
            choice(each, "mode", MODES)
        self._timeout = timeout
        made = [self._tool(spec, shown.get(spec.name, mode)) for spec in guard.registry]
        if any(each.name == EXPAND for each in made):
            raise InvalidValue("guard", f"a capability has the tool name {EXPAND}; rename it")
        more = Tool(
            EXPAND, self._expand, effect="read", input_schema=_EXPANDING,
            description="Show more rows or fields of an earlier result, by its handle.",
        )  # fmt: skip
        self._all = (*made, more)
        self._named = {each.name: each for each in self._all}

    def tools(self) -> Sequence[Tool]:
        """All of them, by the names of their capabilities, and ``expand``."""
        return self._all

    def find(self, name: str) -> Tool | None:
        """The tool of this name; None if there is none."""
        return self._named.get(name)

    def _tool(self, spec: CapabilitySpec, mode: ResponseMode) -> Tool:
        async def handler(arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
            try:
                return await self._call(spec, mode, arguments, context)
            except Indeterminate as error:
                raise ToolError(error.message, INDETERMINATE) from error
            except GuardError as error:
                raise ToolError(error.message, error.code) from error
            except InvalidValue as error:
                raise ToolError(str(error), "guard/invalid") from error

        # The guard remembers a key, so that the same call again changes nothing more.
        return Tool(
            tool_name(spec.name), handler, description=spec.description,
            input_schema=_schema(spec), effect=spec.safety.value, idempotent=True,
        )  # fmt: skip

    async def _call(
        self,
        spec: CapabilitySpec,
        mode: ResponseMode,
        arguments: Mapping[str, Any],
        context: ToolContext,
    ) -> dict[str, Any]:
        left, why = parted(spec, arguments)
        guard, who, key = self.guard, context.principal, context.key
        known = await guard.repeated(key, who, spec.name, left, mode, task=context.task_id)
        if known is not None:
            return known.as_json()
        request = asked(
            spec, left, context.task, context.step, key=key, approved_by=context.approved_by or ""
        )
        token = await guard.grant_capability(request, who, why)
        frame = await guard.invoke(token, who, left, mode, timeout=self._timeout)
        assert frame is not None, "it was no dry run"
        return frame.as_json()

    async def _expand(self, arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        fields = arguments.get("fields")
        try:
            query = Query(
                None if fields is None else tuple(fields),
                tuple(arguments.get("equals", {}).items()),
                arguments.get("offset", 0),
                arguments.get("limit"),
            )
            frame = await self.guard.expand(
                arguments["handle"], context.principal, query, task=context.task_id
            )
        except GuardError as error:
            raise ToolError(error.message, error.code) from error
        except InvalidValue as error:
            raise ToolError(str(error), "guard/invalid") from error
        return frame.as_json()


def _schema(spec: CapabilitySpec) -> dict[str, Any]:
    """The schema of a tool's arguments: that of the operation, and the justification.

    Raises:
        InvalidValue: The operation has an argument of that name.
    """
    schema: dict[str, Any] = decode(encode(spec.arguments))
    if not justified(spec):
        return schema
    properties = schema.setdefault("properties", {})
    if JUSTIFICATION in properties or JUSTIFICATION in schema.get("required", ()):
        raise InvalidValue(
            "guard",
            f"{spec.name} has an argument {JUSTIFICATION}, which is the guard's own; rename it",
        )
    properties[JUSTIFICATION] = _WHY
    return schema

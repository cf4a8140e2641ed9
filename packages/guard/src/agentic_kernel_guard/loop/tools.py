"""GuardedTools: the registry's capabilities as the tools of a Loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from agentic_kernel import InvalidValue
from agentic_kernel_engine.edges import choice, entries, flag, instance, seconds
from agentic_kernel_engine.loop import INDETERMINATE, Observation
from agentic_kernel_engine.seams import Tool, ToolContext, ToolError
from agentic_kernel_engine.values import decode, encode

from ..drivers import Indeterminate
from ..errors import GuardError
from ..firewall import Frame, ResponseMode
from ..firewall.firewall import MODES
from ..grants import ApprovalNeeded, Denied
from ..guard import Guard
from ..handles import Query
from ..spec import CapabilitySpec
from .asking import JUSTIFICATION, asked, justified, parted

EXPAND: Final = "expand"
"""The tool that shows more of a result that was shown in part."""
APPROVAL_NEEDED: Final = "guard/approval_needed"
"""The error of a call that waits for an approval."""
TOOL_FAILED: Final = "guard/tool_failed"
"""The error of a call that was carried out, and whose tool answered that it failed."""
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
        mode: The form in which results are shown.
        modes: The forms for the results of some capabilities.
        timeout: The most seconds of one call, and of showing more of a result.
        asks: True to ask for approvals in the guard's store, where no Loop does. The error of a
            call that needs one names the request; the same call runs once after it is approved.

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
        asks: bool = False,
    ) -> None:
        self.guard: Final = instance(guard, "guard", Guard)
        shown = {} if modes is None else dict(entries(modes, "modes"))
        for name in shown:
            guard.registry.spec(name)
        for each in (mode, *shown.values()):
            choice(each, "mode", MODES)
        self._timeout = seconds(timeout, "timeout", zero=False)
        self._asks = flag(asks, "asks")
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
        async def handler(arguments: dict[str, Any], context: ToolContext) -> Any:
            try:
                frame = await self._call(spec, mode, arguments, context)
            except Indeterminate as error:
                raise ToolError(error.message, INDETERMINATE) from error
            except Denied as error:
                if self._asks and isinstance(error, ApprovalNeeded):
                    raise ToolError(error.message, APPROVAL_NEEDED) from error
                raise ToolError(f"{error.message} (action {error.action})", error.code) from error
            except GuardError as error:
                raise ToolError(error.message, error.code) from error
            except InvalidValue as error:
                raise ToolError(str(error), "guard/invalid") from error
            shown = frame.as_json()
            if not frame.failed:
                return shown
            return Observation(shown, TOOL_FAILED, "the tool answered that it failed; see its rows")

        # The guard remembers a key, so that the same call again changes nothing more.
        return Tool(
            self.guard.registry.tool_of(spec.name), handler, description=spec.description,
            input_schema=_schema(spec), effect=spec.safety.value, idempotent=True,
        )  # fmt: skip

    async def _call(
        self,
        spec: CapabilitySpec,
        mode: ResponseMode,
        arguments: Mapping[str, Any],
        context: ToolContext,
    ) -> Frame:
        left, why = parted(spec, arguments)
        guard, who, key = self.guard, context.principal, context.key
        known = await guard.repeated(
            key, who, spec.name, left, mode, task=context.task_id, timeout=self._timeout
        )
        if known is not None:
            return known
        request = asked(
            spec, left, context.task, context.step, key=key,
            approved_by=context.approved_by or "", ask=self._asks,
        )  # fmt: skip
        token = await guard.grant_capability(request, who, why)

        def heard(done: float, total: float | None) -> None:
            context.progress({"progress": done} | ({} if total is None else {"total": total}))

        frame = await guard.invoke(token, who, left, mode, timeout=self._timeout, progress=heard)
        assert frame is not None, "it was no dry run"
        return frame

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
                arguments["handle"], context.principal, query, task=context.task_id,
                timeout=self._timeout,
            )  # fmt: skip
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

"""Request: builds the request to the Messages API for one step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from agentic_kernel import InvalidValue
from agentic_kernel_engine.loop import Context
from agentic_kernel_engine.providers import (
    AnswerOptions,
    Function,
    Offer,
    conversation,
    functions,
    instructions,
)

from .messages import Wire

_TOLD: Final = "Give the final answer as JSON alone, which fits this JSON Schema:\n"


class Shape:
    """The parts that all requests of a planner share.

    Args:
        impl: The planner whose opaque items are sent back.
        model: Name of the model.
        offers: Actions that the model may call in addition to the tools.
        thinking: The API's parameter of this name; None for the model's default.
        cache: True if the vendor caches the prompt.
        parallel: True if an answer may have several calls.
        extra: Further fields of the body. ``tools`` are added to the other tools, and
            ``output_config`` is merged with the planner's own.
    """

    def __init__(
        self,
        impl: str,
        model: str,
        offers: Sequence[Offer],
        thinking: Mapping[str, Any] | None,
        cache: bool,
        parallel: bool,
        extra: Mapping[str, Any],
    ) -> None:
        self._impl = impl
        self._model = model
        self._offers = offers
        self._thinking = thinking
        self._cache = cache
        self._parallel = parallel
        self._extra = extra
        budget = (thinking or {}).get("budget_tokens")
        self.least = budget + 1 if type(budget) is int else 1
        """The smallest ``max_tokens`` that the API accepts."""

    def functions(self, context: Context) -> list[Function]:
        """Return the functions that the model may call."""
        return functions(context.tools, self._offers)

    def told(self, context: Context, options: AnswerOptions) -> str:
        """Return at least all text of a request outside its conversation and its functions."""
        extra = msgspec.json.encode(self._extra).decode() if self._extra else ""
        return instructions(context, options.system) + _TOLD + extra

    def request(self, context: Context, options: AnswerOptions) -> Request:
        """Return the request for the next answer.

        Raises:
            InvalidValue: An image of the Task is not valid, or `tool_choice` names a function that
                the model is not shown.
        """
        return Request(self, context, options)


class Request:
    """One request: the arguments of the SDK's ``messages.create``, its functions and messages."""

    def __init__(self, shape: Shape, context: Context, options: AnswerOptions) -> None:
        self.functions = shape.functions(context)
        extra = dict(shape._extra)
        system = instructions(context, options.system)
        schema = context.output_schema
        shaped = None if schema is None else _format(schema)
        if schema is not None and shaped is None:
            told = _TOLD + msgspec.json.encode(schema).decode()
            system = f"{system}\n\n{told}" if system else told
        tools = [*map(_tool, self.functions), *extra.pop("tools", ())]
        manual = (shape._thinking or {}).get("type") == "enabled"
        self.wire = Wire(system, tools, bound=not manual)
        self.wire.add(conversation(context, shape._impl))
        if options.temperature is not None:  # The vendor's current models refuse it.
            extra["temperature"] = options.temperature
        config = dict(extra.pop("output_config", {}))
        if shaped is not None:
            config["format"] = shaped
        body: dict[str, Any] = {
            "model": shape._model,
            "max_tokens": options.most(context, shape.least),
            "messages": self.wire.messages,
        }
        if system:
            body["system"] = system
        choice = options.choice(context)
        if choice not in ("auto", "none", "required", *(each["name"] for each in tools)):
            raise InvalidValue(
                "tool_choice",
                f"is {choice}, and this step has no function of that name; use auto, none, "
                "required, or the name of a tool or an offer of this step",
            )
        if tools:
            body["tools"] = tools
            body["tool_choice"] = _choice(choice, shape._parallel)
        if shape._thinking is not None:
            body["thinking"] = dict(shape._thinking)
        if shape._cache:
            body["cache_control"] = {"type": "ephemeral"}
        if config:
            body["output_config"] = config
        if extra:
            body["extra_body"] = extra
        self.body = body
        self.served = len(tools) > len(self.functions)
        """True if the server runs tools of its own for this request."""


def _tool(function: Function) -> dict[str, Any]:
    tool = {"name": function.name, "input_schema": dict(function.schema)}
    return {**tool, "description": function.description} if function.description else tool


def _choice(choice: str, parallel: bool) -> dict[str, Any]:
    if choice == "none":
        return {"type": "none"}
    if choice in ("auto", "required"):
        made: dict[str, Any] = {"type": "auto" if choice == "auto" else "any"}
    else:
        made = {"type": "tool", "name": choice}
    return made if parallel else {**made, "disable_parallel_tool_use": True}


def _format(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the schema in the form that constrains an answer; None if the API has no such form."""
    from anthropic import transform_schema

    if not _closed(schema):
        return None
    try:
        return {"type": "json_schema", "schema": transform_schema(dict(schema))}
    except (AssertionError, AttributeError, TypeError, ValueError, RecursionError):
        return None


def _closed(schema: Any) -> bool:
    """Return True if each object in a schema allows named keys only; the API supports no others."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            if part.get("additionalProperties", False) is not False or "patternProperties" in part:
                return False
            if part.get("type") == "object" and not part.get("properties"):
                return False
            waiting += part.values()
        elif isinstance(part, Sequence) and not isinstance(part, str):
            waiting += part
    return True

"""Request: builds the request to ``/api/chat`` for one step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from agentic_kernel_engine.loop import Context
from agentic_kernel_engine.providers import (
    AnswerOptions,
    Function,
    Offer,
    conversation,
    functions,
    instructions,
)

from .failures import IMPL
from .messages import wire

_TOLD: Final = "Give the final answer as JSON alone, which fits this JSON Schema:\n"
_FITS: Final = "Its arguments fit this JSON Schema: "
_SENT: Final = frozenset({"type", "items", "description", "enum"})
"""Keywords of a property's schema that the SDK sends."""
_SENT_ABOVE: Final = frozenset({"type", "properties", "required", "$defs"})
"""Keywords of the whole arguments' schema that the SDK sends."""
_SILENT: Final = frozenset({"title", "$schema", "$id", "$comment"})
"""Keywords without information for a model."""


class Shape:
    """The parts that all requests of a planner share.

    Args:
        model: Name of the model.
        offers: Actions that the model may call in addition to the tools.
        think: The API's parameter of this name; None for the model's default.
        keep_alive: The API's parameter of this name; None for the server's default.
        options: Options of the model, by the API's names.
    """

    def __init__(
        self,
        model: str,
        offers: Sequence[Offer],
        think: bool | str | None,
        keep_alive: float | str | None,
        options: Mapping[str, Any],
    ) -> None:
        self._offers = offers
        self._options = options
        self._same = {"model": model, "think": think, "keep_alive": keep_alive}

    def functions(self, context: Context, options: AnswerOptions) -> list[Function]:
        """Return the functions that the model is shown; an empty list if it must not call."""
        if options.choice(context) == "none":
            return []
        return functions(context.tools, self._offers)

    def told(self, context: Context, options: AnswerOptions) -> str:
        """Return the system text, the output schema included."""
        told = instructions(context, options.system)
        if context.output_schema is None:
            return told
        schema = _TOLD + msgspec.json.encode(context.output_schema).decode()
        return f"{told}\n\n{schema}" if told else schema

    def request(
        self, context: Context, options: AnswerOptions, shown: Sequence[Function]
    ) -> dict[str, Any]:
        """Return the arguments of the SDK's ``chat``.

        The output schema constrains the answer only if there are no functions: under a schema a
        model of Ollama can write nothing else, so it would never call.

        Raises:
            InvalidValue: An image of the Task is not valid.
        """
        asked: dict[str, Any] = {**self._options, "num_predict": options.most(context)}
        if options.temperature is not None:
            asked["temperature"] = options.temperature
        told = self.told(context, options)
        return {
            **self._same,
            "messages": wire(told, conversation(context, IMPL)),
            "tools": [_tool(each) for each in shown],
            "format": None if shown else context.output_schema,
            "options": asked,
        }


def _tool(function: Function) -> dict[str, Any]:
    parameters, lost = _parameters(function.schema)
    description = function.description
    if lost:
        fits = _FITS + msgspec.json.encode(function.schema).decode()
        description = f"{description}\n{fits}" if description else fits
    told = {"name": function.name, "description": description, "parameters": parameters}
    return {"type": "function", "function": told}


def _parameters(schema: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return the part of a schema that the SDK sends, and True if a part of it is lost."""
    given = schema.get("properties", {})
    sent = {
        name: {key: part[key] for key in _SENT & part.keys()} if isinstance(part, Mapping) else {}
        for name, part in given.items()
    }
    lost = any(
        not isinstance(part, Mapping) or part.keys() - _SENT - _SILENT for part in given.values()
    )
    above = schema.keys() - _SENT_ABOVE - _SILENT - {"description"}
    if schema.get("additionalProperties") is False:
        above -= {"additionalProperties"}
    parameters: dict[str, Any] = {"type": "object", "properties": sent}
    parameters |= {key: schema[key] for key in ("required", "$defs") if key in schema}
    return parameters, lost or bool(above)

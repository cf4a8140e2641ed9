"""Request: what ``/api/chat`` is asked at one step."""

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
"""Keywords that the SDK sends of the schema of a property."""
_SENT_ABOVE: Final = frozenset({"type", "properties", "required", "$defs"})
"""Those that it sends of the schema of all arguments."""
_SILENT: Final = frozenset({"title", "$schema", "$id", "$comment"})
"""Those that tell a model nothing."""


class Shape:
    """What is the same in all requests of a planner.

    Args:
        model: Its name.
        offers: What is shown beside the tools.
        think: As the API takes it; None for the model's default.
        keep_alive: Likewise; None for the server's default.
        options: Of the model, by the API's names.
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
        """What the model is shown; nothing if it is not to call."""
        if options.choice(context) == "none":
            return []
        return functions(context.tools, self._offers)

    def told(self, context: Context, options: AnswerOptions) -> str:
        """What the model is told before everything else, the output schema included."""
        told = instructions(context, options.system)
        if context.output_schema is None:
            return told
        schema = _TOLD + msgspec.json.encode(context.output_schema).decode()
        return f"{told}\n\n{schema}" if told else schema

    def request(
        self, context: Context, options: AnswerOptions, shown: Sequence[Function]
    ) -> dict[str, Any]:
        """The arguments of the SDK's ``chat``.

        The output schema constrains the answer only where there is nothing to call: under one
        Ollama lets a model write nothing else, so that it would never call.

        Raises:
            InvalidValue: The Task's images are none.
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
    """As much of a schema as the SDK sends, and whether there is more to it."""
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

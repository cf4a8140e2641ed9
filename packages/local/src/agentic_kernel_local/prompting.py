"""Prompting: a step as a chat, and the JSON Schema that the model's answer must fit.

A step without functions asks for text, or for JSON by the schema of the final answer. The functions
of a step and its final answer make one JSON Schema: a union of the calls and the answer. llama.cpp
turns a schema into a grammar, so that every complete answer fits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agentic_kernel_engine.loop import Context, ToolCall
from agentic_kernel_engine.providers import (
    Function,
    Heard,
    Said,
    conversation,
    final_answer,
    instructions,
)

from .failures import IMPL
from .schemas import fitted

MAX_ANSWER: Final = 1_000
"""The most characters of a final answer beside functions, without a schema."""
_ANSWER: Final = {
    "type": "string",
    "pattern": r'^[^ "\\\x00-\x1F]([^"\\\x00-\x1F]|\\["\\nt])' + f"{{0,{MAX_ANSWER - 1}}}$",
}
"""A final answer beside functions, without a schema. llama.cpp applies a pattern to the JSON text
between the quotes, with its escapes. The first character is not blank, so no answer is empty."""
_CALL: Final = '{"tool": NAME, "arguments": {...}}'

Message = dict[str, str]


@dataclass(frozen=True)
class Example:
    """A task that one call of a tool solves; shown to the model if the step has that tool."""

    instructions: str
    call: ToolCall
    output: Any
    """The tool's output."""
    answer: Any
    """The final answer after this output."""


def answer_schema(
    functions: Sequence[Function], answer: Mapping[str, Any] | None, choice: str
) -> Mapping[str, Any] | None:
    """Return the JSON Schema that the model's answer must fit; None for text.

    Args:
        functions: The functions that the model may call.
        answer: The JSON Schema of the final answer. Without one, a final answer beside functions is
            a string of 1 to `MAX_ANSWER` characters that does not begin with a blank.
        choice: The `tool_choice` of the step: under ``required``, or the name of a function, the
            answer must be a call.

    Raises:
        InvalidValue: llama.cpp cannot take a schema; see `fitted`.
    """
    if not functions:
        return None if answer is None else _rooted(fitted(answer))
    fits = _ANSWER if answer is None else fitted(answer)
    called = [each for each in functions if choice in ("auto", "required", each.name)]
    parts = {f"tool-{each.name}": fitted(each.schema, f"{each.name}#") for each in called}
    forms = [
        _object(tool={"const": each.name}, arguments={"$ref": f"#/$defs/tool-{each.name}"})
        for each in called
    ]
    if choice == "auto":
        parts["answer"] = fits
        forms.append(_object(answer={"$ref": "#/$defs/answer"}))
    return {
        "oneOf": forms,
        "$defs": {name: _moved(part, f"#/$defs/{name}") for name, part in parts.items()},
    }


def messages(
    context: Context, system: str | None, functions: Sequence[Function], examples: Iterable[Example]
) -> list[Message]:
    """Return the step as a chat: the system text, the examples, and the conversation."""
    told = _told(context, system, functions)
    chat: list[Message] = [{"role": "system", "content": told}] if told else []
    names = {each.name for each in functions}
    for example in examples:
        if example.call.tool in names:
            _say(chat, "user", example.instructions)
            _say(chat, "assistant", _call(example.call.tool, example.call.arguments))
            output = example.output
            _say(chat, "user", _result(example.call.tool, output, failed=False))
            _say(chat, "assistant", _json({"answer": example.answer}))
    for message in conversation(context, IMPL, answered=True):
        if isinstance(message, Heard):
            _say(chat, "user", message.text)
        elif not isinstance(message, Said):
            for result in message:
                _say(chat, "user", _result(result.name, result.text, result.failed))
        else:
            if message.text:
                _say(chat, "assistant", _answer(message.text, context, functions))
            for call in message.calls:
                _say(chat, "assistant", _call(call.name, call.arguments))
    return chat


def _told(context: Context, system: str | None, functions: Sequence[Function]) -> str:
    parts = [instructions(context, system)]
    if functions:
        parts.append("Answer in JSON. First call a tool: " + _CALL)
        for each in functions:
            shown = _json(each.schema.get("properties", {}))
            parts.append(f"- {each.name}: {each.description} Arguments: {shown}")
        parts.append('Once you have the result, give the final answer: {"answer": ...}')
    if context.output_schema is not None:
        parts.append(f"The final answer is JSON of this schema: {_json(context.output_schema)}")
    return "\n".join(filter(None, parts))


def _say(chat: list[Message], role: str, content: str) -> None:
    # Many models' chat templates require that user and assistant alternate.
    if chat and chat[-1]["role"] == role:
        chat[-1]["content"] += "\n\n" + content
    else:
        chat.append({"role": role, "content": content})


def _answer(text: str, context: Context, functions: Sequence[Function]) -> str:
    return (
        _json({"answer": final_answer(text, context.output_schema).output}) if functions else text
    )


def _call(name: str, arguments: Mapping[str, Any]) -> str:
    return _json({"tool": name, "arguments": dict(arguments)})


def _result(name: str, output: Any, failed: bool) -> str:
    if failed:
        return f"{name} failed: {output}"
    return f"Result of {name}: {output if isinstance(output, str) else _json(output)}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _rooted(schema: dict[str, Any]) -> Mapping[str, Any]:
    """Return an equal schema without references to its root, which llama.cpp does not follow."""
    if '"$ref": "#"' not in json.dumps(schema):
        return schema
    place = "#/$defs/answer"
    return {"$ref": place, "$defs": {"answer": _moved(schema, place)}}


def _moved(part: Any, place: str) -> Any:
    """Return a schema with its references changed to the place where it now stands."""
    if isinstance(part, Mapping):
        return {
            key: place + value[1:]
            if key == "$ref" and isinstance(value, str) and value.startswith("#")
            else _moved(value, place)
            for key, value in part.items()
        }
    if isinstance(part, list | tuple):
        return [_moved(each, place) for each in part]
    return part

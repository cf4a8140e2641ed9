"""Prompting: the prompt for a step, and the JSON Schema that the model's answer must fit.

The tools and the final answer make one JSON Schema: a union of the calls and the answer. llama.cpp
turns it into a grammar, so that every complete answer is a valid action.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agentic_kernel_engine.loop import (
    Action,
    Context,
    Entry,
    FinalAnswer,
    Observation,
    ToolCall,
    Turn,
)
from agentic_kernel_engine.providers import Doubled, json_of
from agentic_kernel_engine.seams import Tool

MAX_ANSWER: Final = 1_000
"""The most characters of a final answer without a schema."""


@dataclass(frozen=True)
class Example:
    """A task that one call of a tool solves; shown to the model if the step has that tool."""

    instructions: str
    call: ToolCall
    output: Any
    """The tool's output."""
    answer: Any
    """The final answer after this output."""


def action_schema(tools: Sequence[Tool], answer: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the JSON Schema of one action: a call of one of these tools, or the final answer.

    Args:
        answer: The JSON Schema of the final answer; None for a string of at most `MAX_ANSWER`
            characters.
    """
    fits = {"type": "string", "maxLength": MAX_ANSWER} if answer is None else answer
    parts = {f"tool-{tool.name}": tool.input_schema for tool in tools} | {"answer": fits}
    forms = [
        _object(tool={"const": tool.name}, arguments={"$ref": f"#/$defs/tool-{tool.name}"})
        for tool in tools
    ]
    return {
        "oneOf": [*forms, _object(answer={"$ref": "#/$defs/answer"})],
        "$defs": {name: _moved(part, f"#/$defs/{name}") for name, part in parts.items()},
    }


def action_of(said: Mapping[str, Any]) -> Action:
    """Return the action of an answer that fits `action_schema`.

    Raises:
        KeyError: The answer does not fit it.
    """
    if "answer" in said:
        return FinalAnswer(said["answer"])
    return ToolCall(said["tool"], said["arguments"])


def action_in(text: str) -> Action:
    """Return the action of a complete answer of the model.

    An answer may have one key twice in an object. Then a call becomes a refused call, and a final
    answer becomes its raw text, so that the Loop tells the model about the fault.

    Raises:
        ValueError, KeyError, TypeError, RecursionError: The text is not an action.
    """
    try:
        return action_of(json_of(text))
    except Doubled as doubled:
        action = action_of(json.loads(text))
        if isinstance(action, ToolCall):
            return ToolCall(action.tool, {}, refused=str(doubled))
        return FinalAnswer(text)


def messages(
    context: Context, system: str | None, examples: Iterable[Example]
) -> list[dict[str, str]]:
    """Return the step as a chat: the system text, the examples, and the transcript."""
    chat = [{"role": "system", "content": _system(context, system)}]
    names = {tool.name for tool in context.tools}
    for example in examples:
        if example.call.tool in names:
            _say(chat, "user", example.instructions)
            _say(chat, "assistant", _form(example.call))
            _say(chat, "user", _result(Observation(example.output, tool=example.call.tool)))
            _say(chat, "assistant", _form(FinalAnswer(example.answer)))
    for entry in context.transcript:
        _enter(chat, entry)
    return chat


def _system(context: Context, system: str | None) -> str:
    parts = [] if system is None else [system]
    parts += context.instructions
    if context.tools:
        parts.append("Answer in JSON. First call a tool: " + _call_form())
        for tool in context.tools:
            shown = json.dumps(tool.input_schema.get("properties", {}), ensure_ascii=False)
            parts.append(f"- {tool.name}: {tool.description} Arguments: {shown}")
        parts.append('Once you have the result, give the final answer: {"answer": ...}')
    else:
        parts.append('Answer in JSON: {"answer": ...}')
    parts += [f"You remember: {memory}" for memory in context.memories]
    if context.goals:
        parts.append(f"Current goal: {context.goals[-1]}")
    return "\n".join(parts)


def _call_form() -> str:
    return '{"tool": NAME, "arguments": {...}}'


def _enter(chat: list[dict[str, str]], entry: Entry) -> None:
    if not isinstance(entry, Turn):
        _say(chat, "user", entry.text)
        return
    for action, observation in zip(entry.plan.actions, entry.observations, strict=True):
        if isinstance(action, ToolCall | FinalAnswer):
            _say(chat, "assistant", _form(action))
            _say(chat, "user", _result(observation))


def _say(chat: list[dict[str, str]], role: str, content: str) -> None:
    # Many models' chat templates require that user and assistant alternate.
    if chat[-1]["role"] == role:
        chat[-1]["content"] += "\n\n" + content
    else:
        chat.append({"role": role, "content": content})


def _form(action: ToolCall | FinalAnswer) -> str:
    if isinstance(action, FinalAnswer):
        return json.dumps({"answer": action.output}, ensure_ascii=False)
    form = {"tool": action.tool, "arguments": dict(action.arguments)}
    return json.dumps(form, ensure_ascii=False)


def _result(observation: Observation) -> str:
    name = observation.tool or "That"
    if observation.error:
        return f"{name} failed ({observation.error}): {observation.message}"
    return f"Result of {name}: {json.dumps(observation.output, ensure_ascii=False)}"


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


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

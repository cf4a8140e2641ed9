"""Prompting: what the model is shown of a step, and the only JSON that it can answer with.

The tools and the final answer make one JSON Schema, a union of calls and of the answer; llama.cpp
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
from agentic_kernel_engine.providers.answers import Doubled, json_of
from agentic_kernel_engine.seams import Tool

MAX_ANSWER: Final = 1_000
"""How long a final answer may be, in characters, where no schema says otherwise."""


@dataclass(frozen=True)
class Example:
    """A task that one call of a tool solves, shown to the model where it has that tool."""

    instructions: str
    call: ToolCall
    output: Any
    """What the tool gave."""
    answer: Any
    """The final answer after that."""


def action_schema(tools: Sequence[Tool], answer: Mapping[str, Any] | None) -> dict[str, Any]:
    """JSON Schema of one action: a call of one of these tools, or the final answer.

    Args:
        answer: What the final answer must fit; a text if None.
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
    """The action behind an answer that fits `action_schema`.

    Raises:
        KeyError: It does not.
    """
    if "answer" in said:
        return FinalAnswer(said["answer"])
    return ToolCall(said["tool"], said["arguments"])


def action_in(text: str) -> Action:
    """The action that a complete answer of the model is.

    Of an answer with a key twice in one object nothing is done: a call is refused, and a final
    answer stays the text that it is, so that the Loop tells the model what does not fit.

    Raises:
        ValueError, KeyError, TypeError, RecursionError: It is none.
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
    """The step as a chat: how to answer, examples, and what was said and done."""
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
    # Many models' templates insist that user and assistant alternate.
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
    """A schema whose references point into where it now stands."""
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

"""Messages: content in the form of the conventions, redacted and of bounded length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentic_kernel_engine.loop import Entry, FinalAnswer, Plan, ToolCall, Turn

from .redaction import MOST_CONTENT, Redaction


def output_messages(plan: Plan, redaction: Redaction) -> str:
    """Return a model's answer as ``gen_ai.output.messages``."""
    called = any(isinstance(action, ToolCall) for action in plan.actions)
    message = {**_assistant(plan), "finish_reason": "tool_call" if called else "stop"}
    return redaction.content([message])


def input_messages(transcript: Sequence[Entry], redaction: Redaction) -> str:
    """Return the latest messages to a model that fit, as ``gen_ai.input.messages``.

    Older messages are left out, so that the cost of a call does not grow with the run.
    """
    shown: list[dict[str, Any]] = []
    size = 0
    for index in range(len(transcript) - 1, -1, -1):
        messages = _messages(transcript[index])
        size += len(redaction.content(messages))
        if shown and size > MOST_CONTENT - 2:
            break
        shown[:0] = messages
    return redaction.content(shown)


def _messages(entry: Entry) -> list[dict[str, Any]]:
    if not isinstance(entry, Turn):
        return [{"role": "user", "parts": [{"type": "text", "content": entry.text}]}]
    results = [
        {
            "type": "tool_call_response",
            "id": observation.call,
            "response": observation.output if observation.ok else observation.message,
        }
        for observation in entry.observations
        if observation.tool
    ]
    return [_assistant(entry.plan), *([{"role": "tool", "parts": results}] if results else ())]


def _assistant(plan: Plan) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    if plan.reasoning:
        parts.append({"type": "reasoning", "content": plan.reasoning})
    if plan.text:
        parts.append({"type": "text", "content": plan.text})
    for action in plan.actions:
        if isinstance(action, ToolCall):
            parts.append(
                {
                    "type": "tool_call", "id": action.id, "name": action.tool,
                    "arguments": action.arguments,
                }
            )  # fmt: skip
        elif isinstance(action, FinalAnswer):
            output = action.output
            if output != plan.text:
                kind = "text" if isinstance(output, str) else "final_answer"
                parts.append({"type": kind, "content": output})
    return {"role": "assistant", "parts": parts}

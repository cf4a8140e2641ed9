"""Answers: a tool of a Loop and its outcome, as MCP says them."""

from __future__ import annotations

import json
from typing import Any, Final

import mcp_types as types

from agentic_kernel_engine.seams import Tool
from agentic_kernel_engine.values import decode, encode

_IMAGE: Final = frozenset({"type", "media_type", "data"})


def listed(tool: Tool) -> types.Tool:
    """A tool, for a client's listing."""
    reads = tool.effect in ("none", "read")
    return types.Tool(
        name=tool.name,
        description=tool.description or None,
        input_schema=_plain(tool.input_schema),
        # MCP wants structured content for it, which is always an object.
        output_schema=_plain(tool.output_schema) if _is_object(tool.output_schema) else None,
        annotations=types.ToolAnnotations(
            read_only_hint=reads,
            destructive_hint=tool.effect == "destructive",
            idempotent_hint=reads or tool.idempotent,
        ),
    )


def content_of(output: Any) -> types.CallToolResult:
    """The result of a call that went well.

    A text is a text. Images that have the engine's form are images. Any other value is JSON as
    text; an object is the structured content, too.
    """
    if isinstance(output, str):
        return types.CallToolResult(content=[_text(output)])
    parts = output if isinstance(output, list) else [output]
    images = [_image(each) for each in parts if _is_image(each)]
    rest = [each for each in parts if not _is_image(each)]
    if not images:
        structured = output if isinstance(output, dict) else None
        return types.CallToolResult(content=[_json(output)], structured_content=structured)
    content = [_text(each) if isinstance(each, str) else _json(each) for each in rest]
    structured = rest[0] if len(rest) == 1 and isinstance(rest[0], dict) else None
    return types.CallToolResult(content=[*content, *images], structured_content=structured)


def failed(code: str, message: str, output: Any = None) -> types.CallToolResult:
    """The result of a call that failed; the model of the client reads it.

    Args:
        code: The error code.
        message: The cause of the failure.
        output: The value that the tool gives beside it, or None.
    """
    more = None if output is None else content_of(output)
    return types.CallToolResult(
        content=[_text(f"{code}: {message}"), *(more.content if more else ())],
        structured_content=more.structured_content if more else None,
        is_error=True,
    )


def _plain(schema: Any) -> Any:
    return None if schema is None else decode(encode(schema))


def _is_object(schema: Any) -> bool:
    return schema is not None and schema.get("type") == "object"


def _is_image(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == _IMAGE and value["type"] == "image"


def _image(value: dict[str, str]) -> types.ImageContent:
    return types.ImageContent(type="image", data=value["data"], mime_type=value["media_type"])


def _json(value: Any) -> types.TextContent:
    return _text(json.dumps(value, ensure_ascii=False))


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)

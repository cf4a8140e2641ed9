"""Describing: a server's tool as a tool of a Loop, and its result as one value of JSON."""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final

import mcp_types as types

from agentic_kernel_engine.seams import SideEffect

_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]")
_IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The types of images that the engine shows to a model."""
MAX_NAME: Final = 64
"""The longest name of a tool of a Loop."""


def tool_name(server: str, tool: str) -> str:
    """The name that a Loop knows a server's tool by: ``<server>__<tool>``.

    Each character that such a name cannot have becomes ``_``. A name that is too long is cut, and
    ends with some characters of its digest.
    """
    whole = f"{server}__{tool}"
    name = _OTHER.sub("_", whole)
    if len(name) <= MAX_NAME:
        return name
    mark = hashlib.sha256(whole.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{name[: MAX_NAME - 9]}_{mark}"


def effect_of(annotations: types.ToolAnnotations | None) -> SideEffect:
    """The effect of a call, as the server says; what it does not say counts as the worst.

    So the defaults are those of the protocol: a tool may destroy something unless it says that it
    only reads, or that it only adds.
    """
    if annotations is None:
        return "destructive"
    if annotations.read_only_hint is True:
        return "read"
    return "write" if annotations.destructive_hint is False else "destructive"


def output_of(result: types.CallToolResult, *, structured_only: bool = False) -> Any:
    """The result of a call, as JSON.

    The structured content, if there is some; else the text, if that is all; else a list with an
    object for each part. An image has the engine's form, so that a model sees it.

    Args:
        structured_only: True to leave images out if there is structured content, which a schema
            describes.
    """
    structured = result.structured_content
    if structured is not None:
        images = [_part(each) for each in result.content if isinstance(each, types.ImageContent)]
        return [structured, *images] if images and not structured_only else structured
    parts = [_part(each) for each in result.content]
    return parts[0] if len(parts) == 1 else parts


def text_of(result: types.CallToolResult) -> str:
    """The texts of a result, one below the other."""
    return "\n".join(each.text for each in result.content if isinstance(each, types.TextContent))


def _part(block: types.ContentBlock) -> Any:
    if isinstance(block, types.TextContent):
        return block.text
    if isinstance(block, types.ImageContent) and block.mime_type in _IMAGES:
        return {"type": "image", "media_type": block.mime_type, "data": block.data}
    return block.model_dump(by_alias=True, mode="json", exclude_none=True, exclude={"meta"})

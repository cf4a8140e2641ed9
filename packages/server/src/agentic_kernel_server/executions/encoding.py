"""Encoding: an execution's input as the instructions of its Task, and digests of arguments."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec

from agentic_kernel import Task

KIND: Final = "execution"
"""The runtime kind of executions."""
TOOL_KIND: Final = "tool"
"""The runtime kind of remote steps."""

_encode = msgspec.json.Encoder().encode
_sorted = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder().decode


def text_of(value: Any) -> str:
    """A JSON value as text."""
    return _encode(value).decode()


def input_of(task: Task) -> Any:
    """The input of an execution, or the job of a remote step."""
    return _decode(task.instructions.encode())


def same(one: Any, other: Any) -> bool:
    """True if two values are the same JSON; the order of keys does not matter."""
    return _sorted(one) == _sorted(other)


def digest(tool_id: str, arguments: Any) -> str:
    """The digest of a call: its tool and its arguments, with the keys in order."""
    text = _sorted([tool_id, arguments])
    return hashlib.sha256(text).hexdigest()[:32]

"""Failures: maps llama.cpp's errors to the names that all providers share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agentic_kernel_engine import TaskFailed
from agentic_kernel_engine.providers import failures as names

IMPL: Final = "local"
"""The first part of the failure codes, and of the metadata keys by which a Task sets options."""
CONTEXT_LENGTH: Final = f"{IMPL}/{names.CONTEXT_LENGTH}"
"""The conversation does not fit the model's context, or the answer outgrew it.

Metadata: ``context_tokens``; and ``prompt_tokens`` when the prompt alone was too long, or the
beginning of the answer as ``text``.
"""
INVALID_REQUEST: Final = f"{IMPL}/{names.INVALID_REQUEST}"
"""The model's chat template or sampler refuses the request."""
BAD_RESPONSE: Final = f"{IMPL}/{names.BAD_RESPONSE}"
"""llama.cpp sent data that is not a piece of an answer, or stopped without an end."""
SERVER_ERROR: Final = f"{IMPL}/{names.SERVER_ERROR}"
"""llama.cpp failed while it worked. Metadata: ``type``."""

_BY_TYPE: Final[Mapping[str, str]] = {
    "exceed_context_size_error": CONTEXT_LENGTH,
    "invalid_request_error": INVALID_REQUEST,
    "not_supported_error": INVALID_REQUEST,
}
"""Failure code by the ``type`` of llama.cpp's error object; any other is `SERVER_ERROR`."""
_DETAIL: Final[Mapping[str, str]] = {
    "n_ctx": "context_tokens",
    "n_prompt_tokens": "prompt_tokens",
}
"""Fields of llama.cpp's error object, and their names in a failure's metadata."""


def reported(error: Any) -> TaskFailed:
    """Return the failure for an error object that came as a chunk of the stream."""
    if not isinstance(error, Mapping) or not isinstance(error.get("type"), str):
        return malformed("an error without a type", error)
    kind = error["type"]
    metadata: dict[str, Any] = {"type": kind}
    for theirs, ours in _DETAIL.items():
        if type(error.get(theirs)) is int:
            metadata[ours] = error[theirs]
    message = error.get("message")
    if not isinstance(message, str) or not message:
        message = kind
    return TaskFailed(_BY_TYPE.get(kind, SERVER_ERROR), message, metadata)


def raised(error: Exception) -> TaskFailed:
    """Return the failure for an exception of the binding: ValueError means a bad request."""
    code = INVALID_REQUEST if isinstance(error, ValueError) else SERVER_ERROR
    name = type(error).__name__
    failure = TaskFailed(code, str(error) or name, {"type": name})
    failure.__cause__ = error
    return failure


def malformed(what: str, chunk: Any) -> TaskFailed:
    """Return the failure for a chunk that is not valid; its metadata has 500 characters of it."""
    return TaskFailed(BAD_RESPONSE, f"llama.cpp sent {what}", {"chunk": ascii(chunk)[:500]})


def outgrown(context_tokens: int) -> TaskFailed:
    """Return the failure for an answer that reached the end of the context before its own end."""
    return TaskFailed(
        CONTEXT_LENGTH,
        f"the answer reached the end of the context of {context_tokens:,} tokens; the Task's "
        f"run.delta events hold its beginning; raise context_tokens or lower {IMPL}/max_tokens",
        {"context_tokens": context_tokens},
    )

"""Failures: the failure codes of this runtime, and the mapping of llama.cpp's errors to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agentic_kernel_engine import TaskFailed

CONTEXT_LENGTH: Final = "local/context_length"
"""The conversation does not fit the model's context, or the answer outgrew it.

Metadata: ``context_tokens``, and ``prompt_tokens`` when the prompt alone was too long.
"""
INVALID_REQUEST: Final = "local/invalid_request"
"""The model's chat template or sampler refuses the request."""
BAD_OPTIONS: Final = "local/bad_options"
"""A ``local/…`` option in the Task's metadata is not valid. Metadata: ``path``.

Only for a Task that a host dispatched without checking it; otherwise it is `CannotStart`.
"""
BAD_RESPONSE: Final = "local/bad_response"
"""llama.cpp sent data that is not a piece of an answer, or stopped without an end."""
MODEL_ERROR: Final = "local/model_error"
"""llama.cpp failed while it worked. Metadata: ``type``."""

NO_MODEL: Final = "local/no_model"
"""The process that runs the Task has no model."""
CUT: Final = "local/cut"
"""A limit ended an answer before it was a whole action. Metadata: ``text``, its beginning."""

_BY_TYPE: Final[Mapping[str, str]] = {
    "exceed_context_size_error": CONTEXT_LENGTH,
    "invalid_request_error": INVALID_REQUEST,
    "not_supported_error": INVALID_REQUEST,
}
"""Failure code by the ``type`` of llama.cpp's error object; any other is `MODEL_ERROR`."""
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
    return TaskFailed(_BY_TYPE.get(kind, MODEL_ERROR), message, metadata)


def raised(error: Exception) -> TaskFailed:
    """Return the failure for an exception of the binding: ValueError means a bad request."""
    code = INVALID_REQUEST if isinstance(error, ValueError) else MODEL_ERROR
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
        f"the answer reached the end of the context of {context_tokens} tokens; the Task's "
        "run.delta events hold its beginning; raise context_tokens or lower local/max_tokens",
        {"context_tokens": context_tokens},
    )

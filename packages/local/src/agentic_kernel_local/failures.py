"""Why a Task of this runtime fails: codes for programs, and how llama.cpp's errors map to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agentic_kernel_engine import TaskFailed

CONTEXT_LENGTH: Final = "local/context_length"
"""The conversation does not fit the model's context, or the answer outgrew it.

Metadata: ``context_tokens``, and ``prompt_tokens`` when the prompt alone was too long.
"""
INVALID_REQUEST: Final = "local/invalid_request"
"""The model's chat template or sampler refuses what was asked of it."""
BAD_OPTIONS: Final = "local/bad_options"
"""A ``local/…`` option in the Task's metadata is not valid. Metadata: ``path``.

Only for a Task dispatched by a host that could not check it; otherwise it is `CannotStart`.
"""
BAD_RESPONSE: Final = "local/bad_response"
"""llama.cpp sent something that is not a piece of an answer, or stopped without an end."""
MODEL_ERROR: Final = "local/model_error"
"""llama.cpp failed while it worked. Metadata: ``type``."""

NO_MODEL: Final = "local/no_model"
"""The Task's process has no model that it could plan with."""
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
"""What a failure's metadata takes over from llama.cpp's error object, and under which name."""


def reported(error: Any) -> TaskFailed:
    """The failure behind an error object that came as a chunk of the stream."""
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
    """The failure behind an exception of the binding; it raises ValueError for a bad request."""
    code = INVALID_REQUEST if isinstance(error, ValueError) else MODEL_ERROR
    name = type(error).__name__
    failure = TaskFailed(code, str(error) or name, {"type": name})
    failure.__cause__ = error
    return failure


def malformed(what: str, chunk: Any) -> TaskFailed:
    """The failure for a chunk that cannot be understood; a bounded part of it is kept."""
    return TaskFailed(BAD_RESPONSE, f"llama.cpp sent {what}", {"chunk": ascii(chunk)[:500]})


def outgrown(context_tokens: int) -> TaskFailed:
    """The failure of an answer that reached the end of the context before its own."""
    return TaskFailed(
        CONTEXT_LENGTH,
        f"the answer outgrew the context of {context_tokens} tokens; what there is of it is in "
        "the Task's run.delta events; use a larger context_tokens or a smaller local/max_tokens",
        {"context_tokens": context_tokens},
    )

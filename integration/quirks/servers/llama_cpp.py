"""llama.cpp's server, and Ollama's endpoint of the same API."""

from __future__ import annotations

from typing import Final

from ..quirk import Quirk
from ..replies import DONE, USED, call, calling, chunk, error, refused, saying, stream, whole

NAME: Final = "llama.cpp, Ollama"
_LLAMA: Final = "https://github.com/ggml-org/llama.cpp/"
_OLLAMA: Final = "https://github.com/ollama/ollama/"

QUIRKS: Final = (
    Quirk(
        "arguments as an object", "sends the arguments of a call as an object, not as a text",
        _LLAMA + "issues/20198",
        [whole("tool_calls", content=None, tool_calls=[call({"a": 1, "b": 2}, index=None)]),
         whole("stop", content="It is 3.")],
        called=[(1, 2)], options={"stream": False},
    ),
    Quirk(
        "arguments as an object, streamed", "streams a call with an object as its arguments",
        _LLAMA + "issues/20198", [stream(*calling(call({"a": 1, "b": 2}))), DONE], called=[(1, 2)],
    ),
    Quirk(
        "loading", "answers 503 while it loads its model",
        _LLAMA + "blob/master/tools/server/README.md",
        [refused(503, error("Loading model", type="unavailable_error", code=503))],
        outcome="openai/overloaded",
    ),
    Quirk(
        "context too long", "answers 400 with the type `exceed_context_size_error`",
        _LLAMA + "pull/15780",
        [refused(400, error("the request exceeds the available context size",
                            type="exceed_context_size_error", code=400, n_ctx=2048))],
        outcome="openai/context_length",
    ),
    Quirk(
        "usage with the end", "reports the usage and its timings in the event of the end",
        _LLAMA + "blob/master/tools/server/README.md",
        [stream(chunk(role="assistant", content=None), *saying()[:-1],
                {**chunk("stop"), "usage": USED["usage"], "timings": {"predicted_ms": 3.5}})],
    ),
    Quirk(
        "empty reason", "sends an empty `finish_reason` with each piece",
        _OLLAMA + "issues/4357",
        [stream(*(chunk("", content=each) for each in ("It is ", "3.")), chunk("stop"))],
    ),
    Quirk(
        "no index", "sends calls without an index",
        _OLLAMA + "issues/7881",
        [stream(*calling(*(call(f'{{"a": {n}, "b": 2}}', index=None, id=f"call_{n}")
                           for n in (1, 3)), reason="stop")), DONE],
        called=[(1, 2), (3, 2)],
    ),
    Quirk(
        "one index for all calls", "gives every call the index 0",
        "https://github.com/vercel/ai/pull/14277",
        [stream(*calling(*(call(f'{{"a": {n}, "b": 2}}', id=f"call_{n}") for n in (1, 3)))), DONE],
        called=[(1, 2), (3, 2)],
    ),
    Quirk(
        "no usage", "reports no usage",
        _OLLAMA + "issues/4448", [stream(*calling(call('{"a": 1, "b": 2}'))), stream(*saying())],
        called=[(1, 2)],
    ),
    Quirk(
        "tools not supported", "answers 400 if the model has no tools",
        "https://github.com/pydantic/pydantic-ai/issues/703",
        [refused(400, error("registry.ollama.ai/library/m does not support tools",
                            type="api_error", code=None))],
        outcome="openai/invalid_request", remedy="Use a model with tools, or no tools.",
    ),
)  # fmt: skip

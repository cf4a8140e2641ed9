"""OpenRouter, and LiteLLM's proxy."""

from __future__ import annotations

from typing import Final

from ..quirk import Quirk
from ..replies import (
    DONE,
    USAGE,
    Reply,
    call,
    calling,
    chunk,
    error,
    refused,
    saying,
    stream,
    whole,
)  # fmt: skip

NAME: Final = "OpenRouter, LiteLLM"
_ERRORS: Final = "https://openrouter.ai/docs/api-reference/errors"
_STREAMED: Final = "https://github.com/damianvtran/local-operator/pull/223"
_DETAILS: Final = [{"type": "reasoning.encrypted", "data": "gAAA", "index": 0}]
_ARGUMENTS: Final = '{"a": 1, "b": 2}'
_EMPTY: Final = {"id": "", "object": "chat.completion.chunk", "model": "", "choices": []}
_UPSTREAM: Final = error("Provider returned error", code=429, metadata={"provider_name": "p"})

QUIRKS: Final = (
    Quirk(
        "comments", "sends comments until the first piece comes",
        "https://github.com/openai/openai-go/issues/227",
        [stream(*saying(), begins=b": OPENROUTER PROCESSING\n\n" * 3)],
    ),
    Quirk(
        "error in the stream", "reports an error in an event with a choice that ends with `error`",
        _STREAMED,
        [stream(chunk(content="It is "),
                {**chunk("error", content=""), **error("Provider disconnected", code=502)})],
        outcome="openai/server_error",
    ),
    Quirk(
        "rate limit in the stream", "reports 429 as a number within a stream",
        "https://github.com/diegosouzapw/OmniRoute/pull/8210",
        [stream({**chunk(), "choices": [], **_UPSTREAM})], outcome="openai/rate_limit",
    ),
    Quirk(
        "error with 200", "answers 200 with an error in place of the choices",
        "https://github.com/UKGovernmentBEIS/inspect_ai/issues/1534",
        [whole("stop", top={"choices": None, **_UPSTREAM})], outcome="openai/rate_limit",
        options={"stream": False},
    ),
    Quirk(
        "error in a choice", "puts the error into the choice of a whole answer",
        _ERRORS,
        [whole("error", content="It is ", beside=error("Provider disconnected", code=502))],
        outcome="openai/server_error", options={"stream": False},
    ),
    Quirk(
        "ends with error", "ends an answer with `error` and gives no reason",
        _STREAMED, [stream(chunk(content="It is "), chunk("error"))],
        outcome="openai/server_error",
    ),
    Quirk(
        "reasoning details", "wants `reasoning_details` back with the calls",
        "https://openrouter.ai/docs/use-cases/reasoning-tokens",
        [stream(chunk(reasoning="Hm.", reasoning_details=_DETAILS), *calling(call(_ARGUMENTS))),
         DONE],
        called=[(1, 2)],
        wants=lambda request: request.json["messages"][-2]["reasoning_details"] == _DETAILS,
    ),
    Quirk(
        "its own fields", "adds `provider` and `native_finish_reason`",
        _ERRORS,
        [stream(*({**each, "provider": "p"} for each in saying()[:-1]),
                chunk("stop", beside={"native_finish_reason": "completed"}))],
    ),
    Quirk(
        "end told twice", "ends an answer twice, the second time with the usage",
        "https://github.com/langchain-ai/langchain/pull/38349",
        [stream(*saying(), {**chunk("stop"), "usage": USAGE})],
    ),
    Quirk(
        "events that say nothing", "sends events without choices and ids, and a cost at last",
        "https://github.com/anomalyco/opencode/issues/42918",
        [stream(_EMPTY, _EMPTY, *saying(), _EMPTY, {"choices": [], "cost": "0"})],
    ),
    Quirk(
        "no credits", "answers 402 with a number as the code",
        _ERRORS, [refused(402, error("Insufficient credits", code=402))], outcome="openai/quota",
    ),
    Quirk(
        "calls from 1", "counts calls from 1 (LiteLLM over Responses, after reasoning)",
        "https://github.com/pipecat-ai/pipecat/issues/4987",
        [stream(*calling(call("", index=1), call(_ARGUMENTS, index=1, id=None, name=None))), DONE],
        called=[(1, 2)],
    ),
    Quirk(
        "calls from 2", "counts calls from 2 (after reasoning and a text)",
        "https://github.com/pipecat-ai/pipecat/issues/4987",
        [stream(*calling(call("", index=2), call(_ARGUMENTS, index=2, id=None, name=None))), DONE],
        called=[(1, 2)],
    ),
    Quirk(
        "a page of HTML", "answers 502 with a page of a gateway before it",
        "https://github.com/smallmain/vscode-unify-chat-provider/issues/59",
        [Reply(b"<html><title>502 Bad Gateway</title></html>", 502, "text/html")],
        outcome="openai/server_error",
    ),
    Quirk(
        "unknown field", "answers 400 with `UnsupportedParamsError` for a parameter of the model",
        "https://docs.litellm.ai/docs/completion/drop_params",
        [refused(400, error("litellm.UnsupportedParamsError: m does not support parameters: "
                            "['seed']", type="None", code="400"))],
        outcome="openai/invalid_request", options={"seed": 1},
        remedy="Leave the option out, or set `drop_params` at the proxy.",
    ),
)  # fmt: skip

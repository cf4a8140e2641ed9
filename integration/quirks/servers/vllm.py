"""vLLM's server, and SGLang's."""

from __future__ import annotations

from typing import Final

from ..quirk import Quirk
from ..replies import (
    CALLED,
    DONE,
    USAGE,
    USED,
    call,
    calling,
    chunk,
    error,
    refused,
    saying,
    stream,
    whole,
)  # fmt: skip

NAME: Final = "vLLM, SGLang"
_VLLM: Final = "https://github.com/vllm-project/vllm/"
_ARGUMENTS: Final = '{"a": 1, "b": 2}'

QUIRKS: Final = (
    Quirk(
        "ends with stop", "ends calls with `stop`",
        _VLLM + "pull/9209", [stream(*calling(call(_ARGUMENTS), reason="stop")), DONE],
        called=[(1, 2)],
    ),
    Quirk(
        "ends with stop, whole", 'ends calls of a whole answer with `stop`, with `content: ""`',
        _VLLM + "pull/25054",
        [whole("stop", content="", tool_calls=[call(_ARGUMENTS, index=None)]),
         whole("stop", content="It is 3.", tool_calls=[])],
        called=[(1, 2)], options={"stream": False},
    ),
    Quirk(
        "empty lists of calls", "sends `tool_calls: []` and null fields beside each piece of text",
        _VLLM + "pull/5649",
        [stream(*(chunk(content=each, tool_calls=[], reasoning_content=None, refusal=None,
                        function_call=None) for each in ("It is ", "3.")), chunk("stop"))],
    ),
    Quirk(
        "a limit hidden", "says `tool_calls` of a call that its limit cut",
        _VLLM + "issues/53269", [stream(*calling(call('{"a": 1, "b"')))],
        outcome="openai/bad_response", remedy="Raise `max_tokens`; the cut call is not made.",
    ),
    Quirk(
        "no end", "ends the stream without a `finish_reason`",
        _VLLM + "issues/27572", [stream(*saying(reason=None), USED)],
        outcome="openai/bad_response",
        remedy="It cannot be told from a broken connection; the runtime asks again.",
    ),
    Quirk(
        "usage in each event", "reports the usage so far in each event",
        "https://docs.vllm.ai/en/latest/serving/openai_compatible_server/",
        [stream(*({**each, "usage": USAGE} for each in calling(call(_ARGUMENTS)))),
         stream(*({**each, "usage": USAGE} for each in saying()))],
        called=[(1, 2)],
    ),
    Quirk(
        "its own fields", "adds `stop_reason`, `token_ids` and `prompt_logprobs`",
        "https://docs.vllm.ai/en/latest/serving/openai_compatible_server/",
        [whole("stop", content="It is 3.", reasoning_content=None, top={"prompt_logprobs": None},
               beside={"stop_reason": 151645, "token_ids": [1, 2]})],
        options={"stream": False},
    ),
    Quirk(
        "reasoning", "streams reasoning as `reasoning_content`, or as `reasoning`",
        "https://docs.vllm.ai/en/latest/features/reasoning_outputs.html",
        [stream(chunk(reasoning_content="Hm. "), chunk(reasoning="One, two. "), *saying())],
    ),
    Quirk(
        "name later", "sends an empty name first, and then the name",
        "https://github.com/vercel/ai/pull/16507",
        [stream(*calling(call("", name=""), call(_ARGUMENTS, id=None))), DONE], called=[(1, 2)],
    ),
    Quirk(
        "null ids", "repeats `id: null` and `name: null` with each piece of the arguments",
        "https://github.com/sgl-project/sglang/pull/35542",
        [stream(chunk(tool_calls=[call("")]),
                *(chunk(tool_calls=[{"index": 0, "id": None, "type": "function", "function":
                                     {"name": None, "arguments": each}}])
                  for each in ('{"a": 1,', ' "b": 2}')), chunk("tool_calls")), DONE],
        called=[(1, 2)],
    ),
    Quirk(
        "context too long", "answers 400 with `object: \"error\"`, a number as the code, and words",
        "https://github.com/langchain4j/langchain4j/issues/3475",
        [refused(400, {"object": "error", "type": "BadRequestError", "param": None, "code": 400,
                       "message": "This model's maximum context length is 2048 tokens. However, "
                       "you requested 6030 tokens."})],
        outcome="openai/context_length",
    ),
    Quirk(
        "tools not enabled", "refuses tools if it was started without a parser for them",
        "https://docs.vllm.ai/en/latest/features/tool_calling.html",
        [refused(400, error('"auto" tool choice requires --enable-auto-tool-choice and '
                            "--tool-call-parser to be set", type="BadRequestError", code=400))],
        outcome="openai/invalid_request",
        remedy="Start the server with the two options that the failure names.",
    ),
    Quirk(
        "no such model", "answers 404 with `object: \"error\"` and the type `NotFoundError`",
        _VLLM + "issues/3485",
        [refused(404, {"object": "error", "message": "The model `m` does not exist.",
                       "type": "NotFoundError", "param": None, "code": 404})],
        outcome="openai/model_not_found",
    ),
    Quirk(
        "error in the stream", "reports an error within a stream, with a number as the code",
        _VLLM + "blob/main/vllm/entrypoints/openai/chat_completion/serving.py",
        [stream(chunk(content="It is "),
                error("CUDA error", type="InternalServerError", code=500))],
        outcome="openai/server_error",
    ),
    Quirk(
        "older limit only", "refuses `max_completion_tokens`, `strict` and `prompt_cache_key`",
        "https://github.com/voideditor/void/issues/128", [CALLED, DONE], called=[(1, 2)],
        refuses=["max_completion_tokens", "strict", "prompt_cache_key", "store"],
        options={"max_tokens": 100},
    ),
)  # fmt: skip

"""DeepSeek, DashScope, Gemini and Mistral, at their endpoints of the same API."""

from __future__ import annotations

from typing import Final

from ..quirk import Quirk
from ..replies import DONE, call, calling, chunk, error, refused, stream, whole

NAME: Final = "DeepSeek, DashScope, Gemini, Mistral"
_ARGUMENTS: Final = '{"a": 1, "b": 2}'
_SIGNED: Final = {"google": {"thought_signature": "c2lnbmVk"}}

QUIRKS: Final = (
    Quirk(
        "reasoning wanted back", "wants `reasoning_content` back with the calls (DeepSeek)",
        "https://github.com/qwersyk/Newelle/issues/404",
        [stream(chunk(reasoning_content="One, "), chunk(reasoning_content="two."),
                *calling(call(_ARGUMENTS))), DONE],
        called=[(1, 2)],
        wants=lambda request: request.json["messages"][-2]["reasoning_content"] == "One, two.",
    ),
    Quirk(
        "empty ids", "sends empty ids and names with each piece of the arguments (DashScope)",
        "https://github.com/anomalyco/opencode/pull/37783",
        [stream(*calling(call(""), *(call(each, id="", name="")
                                     for each in ('{"a": 1,', ' "b": 2}')))), DONE],
        called=[(1, 2)],
    ),
    Quirk(
        "signature", "sends calls without an index, and wants their signature back (Gemini)",
        "https://github.com/THU-MAIC/OpenMAIC/issues/1556",
        [stream(*calling({**call(_ARGUMENTS, index=None), "extra_content": _SIGNED})), DONE],
        called=[(1, 2)],
        wants=lambda request: request.json["messages"][-2]["tool_calls"][0]["extra_content"]
        == _SIGNED,
    ),
    Quirk(
        "a list of errors", "answers with a list around the error (Gemini)",
        "https://github.com/n4ze3m/page-assist/issues/406",
        [refused(429, [{"error": {"code": 429, "message": "Quota exceeded.",
                                  "status": "RESOURCE_EXHAUSTED"}}])],
        outcome="openai/rate_limit",
    ),
    Quirk(
        "content in parts", "sends text and thinking as parts of the content (Mistral)",
        "https://github.com/NousResearch/hermes-agent/pull/4748",
        [stream(chunk(content=[{"type": "thinking",
                                "thinking": [{"type": "text", "text": "Hm."}]}]),
                chunk(content=[{"type": "text", "text": "It is 3."}]), chunk("stop"))],
    ),
    Quirk(
        "content in parts, whole", "sends a whole answer in parts (Mistral)",
        "https://github.com/NousResearch/hermes-agent/pull/4748",
        [whole("stop", content=[{"type": "text", "text": "It is 3."}])],
        options={"stream": False},
    ),
    Quirk(
        "no stream options", "refuses `stream_options` with 422 (Mistral, before 2025)",
        "https://github.com/vybestack/llxprt-code/issues/114",
        [refused(422, {"object": "error", "message": {"detail": [
            {"type": "extra_forbidden", "loc": ["body", "stream_options"]}]},
            "type": "invalid_request_error"})],
        outcome="openai/invalid_request", remedy="`stream=False`, which sends no such field.",
    ),
    Quirk(
        "no stream options, whole", "the same, with `stream=False`",
        "https://github.com/vybestack/llxprt-code/issues/114",
        [whole("stop", content="It is 3.")], refuses=["stream_options"], options={"stream": False},
    ),
    Quirk(
        "no schema", "refuses a form of the answer by a schema (DeepSeek)",
        "https://github.com/UKGovernmentBEIS/inspect_ai/issues/4916",
        [refused(400, error("This response_format type is unavailable now",
                            type="invalid_request_error", code="invalid_request_error"))],
        options={"output_schema": {"type": "object", "properties": {"a": {"type": "integer"}},
                                   "required": ["a"], "additionalProperties": False}},
        outcome="openai/invalid_request",
        remedy='`extra_body={"response_format": {"type": "json_object"}}`; the Loop checks the '
        "answer in every case.",
    ),
    Quirk(
        "role with the call", "puts the role, an empty text and a call into one event (Gemini)",
        "https://github.com/THU-MAIC/OpenMAIC/issues/1556",
        [stream(*calling(call(_ARGUMENTS), role="assistant", content="")), DONE],
        called=[(1, 2)],
    ),
    Quirk(
        "missing content", "leaves the content of a message with calls out (Gemini)",
        "https://github.com/THU-MAIC/OpenMAIC/issues/1556",
        [whole("tool_calls", tool_calls=[call(_ARGUMENTS, index=None)]),
         whole("stop", content="It is 3.", tool_calls=None)],
        called=[(1, 2)], options={"stream": False},
    ),
)  # fmt: skip

"""Azure OpenAI."""

from __future__ import annotations

from typing import Final

from ..quirk import Quirk
from ..replies import (
    CALLED,
    DONE,
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

NAME: Final = "Azure OpenAI"
_SAFE: Final = {"hate": {"filtered": False, "severity": "safe"}}
_PROMPT: Final = {
    "id": "", "object": "", "model": "", "created": 0, "choices": [],
    "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": _SAFE}],
}  # fmt: skip
_FILTERED: Final = {
    "error": {
        "message": "The response was filtered due to the prompt triggering Azure OpenAI's content "
        "management policy.",
        "type": None,
        "param": "prompt",
        "code": "content_filter",
        "status": 400,
        "innererror": {"code": "ResponsibleAIPolicyViolation", "content_filter_result": _SAFE},
    }
}
_LATE: Final = {
    "id": "", "object": "", "model": "", "created": 0,
    "choices": [
        {
            "index": 0,
            "finish_reason": None,
            "content_filter_offsets": {"check_offset": 44, "start_offset": 44, "end_offset": 51},
            "content_filter_results": _SAFE,
        }
    ],
}  # fmt: skip
_MENTAT: Final = "https://github.com/AbanteAI/archive-old-cli-mentat/issues/429"
_AUTOGEN: Final = "https://github.com/microsoft/autogen/issues/6465"
_MANUAL: Final = "https://learn.microsoft.com/azure/ai-foundry/openai/"

QUIRKS: Final = (
    Quirk(
        "prompt filter first", "sends an event without choices first, with the filter's results",
        _MENTAT,
        [stream(_PROMPT, *calling(call('{"a": 1, "b": 2}')), USED), stream(_PROMPT, *saying())],
        called=[(1, 2)],
    ),
    Quirk(
        "late filter", "sends an event without a delta after the end, with the filter's results",
        _AUTOGEN, [stream(*saying(), _LATE, USED)],
    ),
    Quirk(
        "filter in between", "sends such an event between two pieces of text",
        _AUTOGEN, [stream(chunk(content="It is "), _LATE, chunk(content="3."), chunk("stop"))],
    ),
    Quirk(
        "filter in a whole answer", "puts the filter's results into a whole answer",
        _MANUAL + "concepts/content-filter",
        [whole("stop", content="It is 3.", beside={"content_filter_results": _SAFE}, top=_PROMPT
               | {"choices": [{"index": 0, "finish_reason": "stop", "content_filter_results": _SAFE,
                               "message": {"role": "assistant", "content": "It is 3."}}]})],
        options={"stream": False},
    ),
    Quirk(
        "prompt refused by the filter", "refuses a prompt with 400 and an inner error",
        _MANUAL + "concepts/content-filter", [refused(400, _FILTERED)],
        outcome="openai/content_filter",
    ),
    Quirk(
        "answer cut by the filter", "ends an answer with `content_filter`",
        _MANUAL + "concepts/content-filter",
        [stream(chunk(content="It is "), chunk("content_filter"))],
        outcome="openai/content_filter",
    ),
    Quirk(
        "no deployment", "answers 404 with the code `DeploymentNotFound`",
        "https://github.com/chatboxai/chatbox/issues/646",
        [refused(404, error("The API deployment for this resource does not exist.",
                            code="DeploymentNotFound"))],
        outcome="openai/model_not_found",
    ),
    Quirk(
        "rate limit", "answers 429 with the code `429` and a number of seconds to wait",
        _MANUAL + "quotas-limits",
        [refused(429, {"error": {"code": "429", "message": "Please retry after 1 second."}},
                 retry_after="1")],
        outcome="openai/rate_limit",
    ),
    Quirk(
        "gateway's error", "answers 401 with a body of its gateway: `statusCode` and `message`",
        "https://learn.microsoft.com/azure/api-management/api-management-error-handling-policies",
        [refused(401, {"statusCode": 401, "message": "Access denied due to invalid key."})],
        outcome="openai/authentication",
    ),
    Quirk(
        "deployment in the path", "has deployments in its path, an api-version and the header "
        "`api-key` (the SDK's `AsyncAzureOpenAI` as `client=`)",
        _MANUAL + "reference", [CALLED, DONE], called=[(1, 2)],
        wants=lambda request: request.path
        == "/openai/deployments/my-deployment/chat/completions?api-version=2024-10-21"
        and request.headers["api-key"] == "sk-quirks"
        and "authorization" not in request.headers,
        azure=True,
    ),
    Quirk(
        "only the newer limit", "refuses `max_tokens`, as OpenAI's reasoning models do",
        "https://github.com/lobehub/lobehub/issues/5909", [CALLED, DONE],
        called=[(1, 2)], refuses=["max_tokens"], options={"max_tokens": 100},
        host="me.openai.azure.com",
    ),
    Quirk(
        "no parallel calls", "refuses `parallel_tool_calls` for o1, o3-mini and o4-mini",
        "https://github.com/run-llama/llama_index/issues/20865", [CALLED, DONE],
        called=[(1, 2)], refuses=["parallel_tool_calls"], host="me.openai.azure.com",
    ),
)  # fmt: skip

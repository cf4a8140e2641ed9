"""Event streams, in the forms that servers and gateways give them."""

from __future__ import annotations

from typing import Final

from ..quirk import Quirk
from ..replies import Reply, saying, stream

NAME: Final = "Any, in its event stream"
_GATEWAY: Final = "https://github.com/lidge-jun/opencodex/issues/1170"

QUIRKS: Final = (
    Quirk(
        "no blank", "writes no blank after `data:`",
        _GATEWAY, [stream(*saying(), line=b"data:%s\n\n", ends=b"data:[DONE]\n\n")],
    ),
    Quirk("no DONE", "ends without `[DONE]`", _GATEWAY, [stream(*saying(), ends=b"")]),
    Quirk(
        "DONE with a blank", "ends with `[DONE]` and a blank",
        "https://github.com/mistralai/mistral-vibe/pull/793",
        [stream(*saying(), ends=b"data: [DONE] \n\n")],
    ),
    Quirk(
        "CRLF", "ends lines with CR and LF",
        "https://html.spec.whatwg.org/multipage/server-sent-events.html",
        [stream(*saying(), line=b"data: %s\r\n\r\n", ends=b"data: [DONE]\r\n\r\n")],
    ),
    Quirk(
        "names of events", "names its events, and numbers them",
        "https://html.spec.whatwg.org/multipage/server-sent-events.html",
        [stream(*saying(), line=b"event: message\nid: 1\ndata: %s\n\n")],
    ),
    Quirk(
        "empty data", "sends an empty `data:` to keep the connection",
        "https://github.com/lidge-jun/opencodex/pull/1188",
        [stream(*saying(), begins=b"data:\n\n")],
    ),
    Quirk(
        "plain text refused", "answers 400 with an error that is a text, not an object",
        "https://github.com/ollama/ollama/issues/14795",
        [Reply(b'{"error": "m does not support tools"}', 400)],
        outcome="openai/invalid_request",
    ),
    Quirk(
        "JSON in place of a stream", "answers a request for a stream with one JSON object",
        "https://github.com/tinyhumansai/tinyagents/pull/56",
        [Reply(b'{"choices": [{"message": {"content": "It is 3."}}]}')],
        outcome="openai/bad_response", remedy="`stream=False`.",
    ),
    Quirk(
        "a stream in place of JSON", "answers with a stream in spite of `stream: false`",
        "https://github.com/unslothai/unsloth/issues/6570",
        [stream(*saying())], options={"stream": False},
        outcome="openai/bad_response", remedy="`stream=True`, the default.",
    ),
)  # fmt: skip

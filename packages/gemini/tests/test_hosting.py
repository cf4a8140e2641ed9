"""Tools that Google runs, and the sources of an answer."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai.types import GenerateContentResponse

from agentic_kernel import InvalidValue
from agentic_kernel_conformance.planner_contexts import QUESTION, context
from agentic_kernel_engine.providers import citations_of, plan_of
from agentic_kernel_gemini import GeminiPlanner
from agentic_kernel_gemini.reply import Reply


def test_they_are_tools_of_each_request() -> None:
    hosted: Any = {
        "web_search": {}, "code": {}, "file_search": {"fileSearchStoreNames": ["stores/1"]},
    }  # fmt: skip
    planner = GeminiPlanner("gemini-3.8-flash", hosted=hosted)
    request, _ = planner._request(context(QUESTION, []), planner.options, [])
    assert request["tools"] == [
        {"googleSearch": {}}, {"codeExecution": {}},
        {"fileSearch": {"fileSearchStoreNames": ["stores/1"]}},
    ]  # fmt: skip
    with pytest.raises(InvalidValue, match="hosted: has mcp, and this API runs no such tool"):
        GeminiPlanner("gemini-3.8-flash", hosted=["mcp"])


def test_the_sources_of_an_answer_are_in_its_plan() -> None:
    chunks = [
        {"web": {"uri": "https://a.example", "title": "A"}},
        {"retrievedContext": {"uri": "stores/1/bill", "title": "bill.pdf"}},
        {"web": {"uri": "https://a.example", "title": "A"}},
    ]
    candidate = {
        "content": {"role": "model", "parts": [{"text": "It is so."}]}, "finishReason": "STOP",
        "groundingMetadata": {"groundingChunks": chunks},
    }  # fmt: skip
    reply = Reply(0)
    reply.whole(GenerateContentResponse.model_validate({"candidates": [candidate]}))
    plan = plan_of(reply.answer(), [], None, "gemini")
    assert citations_of(plan.provider) == [
        {"url": "https://a.example", "title": "A"},
        {"url": "stores/1/bill", "title": "bill.pdf"},
    ]

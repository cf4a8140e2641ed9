"""The JSON in a model's final answer, and what the model is told if there is none."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_kernel_engine.loop import FinalAnswer
from agentic_kernel_engine.providers.answers import final_answer

OBJECT = {"type": "object"}


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        '```json\n{"a": 1}\n```',
        '\n```\n{"a": 1}\n```\n',
        '```JSON \r\n{"a": 1}\n```',
        '```json\n{"a":\n1}\n  ```',
    ],
)
def test_one_code_fence_around_json_is_left_out(text: str) -> None:
    assert final_answer(text, OBJECT) == FinalAnswer({"a": 1})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('Here it is: {"a": 1}', "is not valid JSON"),
        ('Here it is:\n```json\n{"a": 1}\n```', "without a code fence"),
        ('```json\n{"a": 1}\n```\n```json\n{"a": 2}\n```', "without a code fence"),
        ('{"a": 1}garbage', "trailing characters"),
        ('{"a": NaN}', "without NaN"),
        ('{"a": 1, "a": 2}', "has the key 'a' twice"),
        ('{"n": 9223372036854775808}', "outside 64 bits"),
        ('{"a": "\\u0000"}', "NUL"),
        ('{"a": "\\ud800"}', "surrogate"),
        ("[" * 5_000, "is not valid JSON"),
    ],
)
def test_a_text_that_is_not_json_says_why(text: str, reason: str) -> None:
    answer = final_answer(text, OBJECT)
    assert answer.output == text
    assert reason in answer.refused
    assert len(answer.refused) < 600


@pytest.mark.parametrize("schema", [{"type": "string"}, {"type": ["string", "null"]}])
def test_a_fence_in_a_text_that_may_be_text_is_left_as_it_is(schema: Any) -> None:
    text = '```json\n{"a": 1}\n```'
    assert final_answer(text, schema).output == text

"""The body of a request: data in, data out."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai.types import ThinkingLevel

from agentic_kernel import InvalidValue, Task
from agentic_kernel_conformance.planner_answers import ask
from agentic_kernel_conformance.planner_contexts import QUESTION, context, tools
from agentic_kernel_engine.loop import (
    FinalAnswer,
    Observation,
    Plan,
    PlannerError,
    Remaining,
    ToolCall,
    Turn,
)
from agentic_kernel_engine.providers import DOCUMENTS, IMAGES, AnswerOptions, functions
from agentic_kernel_gemini import GeminiPlanner
from agentic_kernel_gemini.contents import UNSIGNED
from agentic_kernel_gemini.options import GeminiOptions

SCHEMA = {"type": "object", "properties": {"the_sum": {"type": "integer"}}}
CALL = ToolCall("add", {"a": 1, "b": 2}, "call_1")
SIGNED = {
    "functionCall": {"name": "add", "args": {"a": 1, "b": 2}, "id": "call_1"},
    "thoughtSignature": "c2ln",
}
PNG = {"type": "image", "media_type": "image/png", "data": "aGk="}


def body(
    *more: Any,
    model: str = "gemini-3.8-flash",
    options: AnswerOptions | None = None,
    given: Any = None,
    **changes: Any,
) -> Any:
    seen = context(QUESTION, changes.pop("tools", tools()[:1]), *more, **changes)
    planner = GeminiPlanner(model, **(given or {}))
    shown = functions(seen.tools, planner._offers)
    return planner._request(seen, options or AnswerOptions(), shown)[0]


def turn(provider: Any = None, **result: Any) -> Turn:
    observed = Observation(call="call_1", tool="add", **(result or {"output": 3}))
    return Turn(Plan((CALL,), text="So:", provider=provider), (observed,))


def test_the_least() -> None:
    assert body(tools=[]) == {
        "contents": [{"role": "user", "parts": [{"text": QUESTION}]}],
        "generationConfig": {},
    }


def test_tools_have_their_whole_schema() -> None:
    asked = body(given={"offers": ["ask_user"]})
    [declared] = asked["tools"]
    add, ask_user = declared["functionDeclarations"]
    assert (add["name"], add["description"]) == ("add", "Add two numbers.")
    assert add["parametersJsonSchema"]["required"] == ["a", "b"]
    assert ask_user["name"] == "ask_user"


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ("add", {"mode": "ANY", "allowedFunctionNames": ["add"]}),
    ],
)
def test_the_choice_of_a_tool(choice: str, sent: Any) -> None:
    asked = body(options=AnswerOptions(tool_choice=choice))
    assert asked["toolConfig"] == {"functionCallingConfig": sent}


def test_only_the_first_answer_is_forced() -> None:
    asked = body(turn(), options=AnswerOptions(tool_choice="required"))
    assert asked["toolConfig"] == {"functionCallingConfig": {"mode": "AUTO"}}


async def test_a_tool_that_is_not_shown_cannot_be_chosen() -> None:
    planner = GeminiPlanner("m", api_key="none", tool_choice="nope")
    with pytest.raises(PlannerError, match="nope") as caught:
        await ask(planner, context(QUESTION, tools()))
    assert caught.value.code == "gemini/bad_options"
    await planner.close()


def test_instructions_temperature_thinking_and_what_else_is_wanted() -> None:
    asked = body(
        options=AnswerOptions(temperature=0.5, system="Be brief."),
        instructions=["Be kind."],
        given={
            "thinking": {"thinkingLevel": "low"},
            "extra_body": {
                "tools": [{"googleSearch": {}}],
                "generationConfig": {"topK": 3},
                "safetySettings": [],
            },
        },
    )
    assert asked["systemInstruction"] == {"parts": [{"text": "Be brief.\n\nBe kind."}]}
    assert asked["generationConfig"] == {
        "temperature": 0.5,
        "thinkingConfig": {"thinkingLevel": "low"},
        "topK": 3,
    }
    assert list(asked["tools"][0]) == ["functionDeclarations"]
    assert asked["tools"][1] == {"googleSearch": {}}
    assert asked["safetySettings"] == []
    assert body(tools=[], given={"extra_body": {"tools": [{"googleSearch": {}}]}})["tools"] == [
        {"googleSearch": {}}
    ]


def test_an_effort_replaces_the_planners_own() -> None:
    known = {each.value.lower() for each in ThinkingLevel} - {"thinking_level_unspecified"}
    assert set(GeminiOptions.efforts) == known
    with pytest.raises(InvalidValue, match="effort: is also in thinking="):
        GeminiPlanner("m", effort="low", thinking={"thinkingBudget": 100})
    thinking = {"thinkingBudget": 100, "includeThoughts": True}
    asked = body(options=GeminiOptions(effort="low"), given={"thinking": thinking})
    assert asked["generationConfig"]["thinkingConfig"] == {
        "includeThoughts": True, "thinkingLevel": "low",
    }  # fmt: skip


@pytest.mark.parametrize(("left", "most"), [(100, 100), (0, 1), (9_000, 4096), (None, None)])
def test_an_answer_gets_what_is_left(left: int | None, most: int | None) -> None:
    asked = body(remaining=Remaining(9, output_tokens=left))
    assert asked["generationConfig"].get("maxOutputTokens") == most


def test_a_schema_constrains_the_answer() -> None:
    asked = body(output_schema=SCHEMA)
    assert asked["generationConfig"]["responseMimeType"] == "application/json"
    assert asked["generationConfig"]["responseJsonSchema"] == SCHEMA
    assert "systemInstruction" not in asked


@pytest.mark.parametrize("model", ["gemini-2.5-flash-lite", "models/gemini-2.5-flash-lite"])
def test_an_older_model_is_told_the_schema_in_words(model: str) -> None:
    asked = body(model=model, output_schema=SCHEMA)
    assert "responseJsonSchema" not in asked["generationConfig"]
    assert "the_sum" in asked["systemInstruction"]["parts"][0]["text"]


class TestAnAnswerThatWasKept:
    def test_it_goes_back_unchanged_with_the_id_of_its_call(self) -> None:
        items = [{"text": "So:"}, SIGNED]
        contents = body(turn({"impl": "gemini", "items": items}))["contents"]
        assert contents[1:] == [
            {"role": "model", "parts": items},
            {
                "role": "user",
                "parts": [
                    {
                        "functionResponse": {
                            "name": "add", "response": {"output": "3"}, "id": "call_1",
                        },
                    },
                ],
            },
        ]  # fmt: skip

    def test_a_call_that_the_api_gave_no_id_has_a_result_without_one(self) -> None:
        unnamed = {"functionCall": {"name": "add", "args": {}}, "thoughtSignature": "c2ln"}
        _, said, result = body(turn({"impl": "gemini", "items": [unnamed]}))["contents"]
        assert said["parts"] == [unnamed]
        assert "id" not in result["parts"][0]["functionResponse"]

    @pytest.mark.parametrize(
        "left",
        [
            None,
            {"impl": "claude", "items": [{"type": "thinking"}]},
            {"impl": "gemini", "items": [{"functionCall": {"name": "other", "args": {}}}]},
            {"impl": "gemini", "items": [SIGNED, SIGNED]},
        ],
        ids=["nothing", "another vendor's", "another call", "a call without a result"],
    )
    def test_any_other_is_rebuilt_with_the_signature_for_calls_of_other_models(
        self, left: Any
    ) -> None:
        _, said, result = body(turn(left))["contents"]
        call = {"name": "add", "args": {"a": 1, "b": 2}}
        assert said["parts"] == [
            {"text": "So:"},
            {"functionCall": call, "thoughtSignature": UNSIGNED},
        ]
        assert "id" not in result["parts"][0]["functionResponse"]


def test_a_result_that_failed_and_images_of_a_tool() -> None:
    result = body(turn(error="tool_error", message="No."))["contents"][2]["parts"][0]
    assert result["functionResponse"]["response"] == {"error": "tool_error: No."}
    result = body(turn(output=[PNG]))["contents"][2]["parts"][0]["functionResponse"]
    assert result["response"] == {"output": "an image"}
    assert result["parts"] == [{"inlineData": {"mimeType": "image/png", "data": "aGk="}}]


def test_the_images_of_a_task() -> None:
    addresses = [{"type": "image", "url": f"https://example.org/a{end}"} for end in (".png", "")]
    task = Task.new(
        summary="", instructions=QUESTION, runtime_kind="x", metadata={IMAGES: [PNG, *addresses]}
    )
    assert body(task=task)["contents"][0]["parts"] == [
        {"text": QUESTION},
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
        {"fileData": {"fileUri": "https://example.org/a.png", "mimeType": "image/png"}},
        {"fileData": {"fileUri": "https://example.org/a"}},
    ]


def test_the_documents_of_a_task() -> None:
    bill = {"type": "document", "media_type": "application/pdf", "data": "JVBERi0xLjQK"}
    far = {"type": "document", "url": "https://example.org/a.pdf"}
    task = Task.new(
        summary="", instructions=QUESTION, runtime_kind="x", metadata={DOCUMENTS: [bill, far]}
    )
    assert body(task=task)["contents"][0]["parts"] == [
        {"text": QUESTION},
        {"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0xLjQK"}},
        {"fileData": {"fileUri": far["url"], "mimeType": "application/pdf"}},
    ]


def test_each_answer_is_followed_by_a_message() -> None:
    said = Turn(Plan((FinalAnswer("3"),)), (Observation(),))
    contents = body(said, said)["contents"]
    assert [each["role"] for each in contents] == ["user", "model", "user", "model", "user"]
    assert contents[2]["parts"] == contents[4]["parts"] == [{"text": "Go on."}]


@pytest.mark.parametrize("model", ["a?key=b", "a&b", "a#b", "../a", "a b", "a%2Fb"])
def test_a_name_that_would_change_the_address_is_refused(model: str) -> None:
    with pytest.raises(InvalidValue, match="model"):
        GeminiPlanner(model)

"""A conversation in the form of the Messages API: data in, data out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentic_kernel_claude.messages import Wire
from agentic_kernel_engine.providers import Call, Heard, Image, Message, Result, Said

PNG = Image("", "image/png", "aGk=")
FAR = Image("https://example.org/a.png", "", "")
THOUGHT = {"type": "thinking", "thinking": "", "signature": "c2ln"}
HIDDEN = {"type": "redacted_thinking", "data": "eHh4"}
CALLED = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1}}
SEARCHED = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}


def wire(*conversation: Message, head: Any = "", bound: bool = True) -> list[dict[str, Any]]:
    made = Wire(head, bound=bound)
    made.add(conversation)
    return made.messages


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def result(id: str, said: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": said, **more}


def test_a_question_with_images() -> None:
    assert wire(Heard("What is it?", (PNG, FAR))) == [
        user(
            text("What is it?"),
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "aGk="},
            },
            {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        )
    ]


def test_calls_their_results_and_what_is_heard_then() -> None:
    calls = (Call("a", "add", {"a": 1}), Call("b", "look", {}))
    results = (Result("a", "add", "1", False), Result("b", "look", "handler_error: no", True))
    assert wire(Heard("Go"), Said("So:", calls), results, Heard("And be quick.")) == [
        user(text("Go")),
        assistant(
            text("So:"),
            {"type": "tool_use", "id": "a", "name": "add", "input": {"a": 1}},
            {"type": "tool_use", "id": "b", "name": "look", "input": {}},
        ),
        user(
            result("a", "1"),
            result("b", "handler_error: no", is_error=True),
            text("And be quick."),
        ),
    ]


def test_an_image_that_a_tool_returned_is_in_its_result() -> None:
    (_, _, last) = wire(
        Heard("Go"),
        Said("", (Call("a", "look", {}),)),
        (Result("a", "look", "an image", False, (FAR,)),),
    )
    [block] = last["content"]
    assert block["content"] == [
        text("an image"),
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
    ]


def test_no_text_is_without_words() -> None:
    told = wire(Heard(" \n"), Said("\t"), Heard("x"), Said(" ", (Call("a", "b", {}),)))
    assert told[0] == user(text("(nothing)"))
    assert told[1] == assistant(text("(nothing)"))
    assert [block["type"] for block in told[3]["content"]] == ["tool_use"]
    (_, _, last) = wire(
        Heard("x"), Said("", (Call("a", "b", {}),)), (Result("a", "b", "\n", False),)
    )
    assert last == user(result("a", "(nothing)"))


def test_another_vendors_name_of_a_call_is_made_to_fit() -> None:
    (_, said, heard) = wire(
        Heard("x"),
        Said("", (Call("functions.add:0", "add", {}),)),
        (Result("functions.add:0", "add", "1", False),),
    )
    assert said["content"][0]["id"] == heard["content"][0]["tool_use_id"] == "functions_add_0"


def test_the_model_is_asked_between_two_answers_and_behind_the_last() -> None:
    once = wire(Heard("x"), Said("I think."))
    assert once[-1] == user(text("Go on."))
    twice = wire(Heard("x"), Said("I think."), Said("And I think."))
    assert twice[: len(once)] == once


class TestItems:
    """The planner gives the API's parts back as they were, as long as it may."""

    def kept(self, before: str, items: Sequence[Any], **more: Any) -> list[Any]:
        said = Said("", (Call("toolu_1", "add", {"a": 1}),), items, before)
        (_, answer, *_) = wire(Heard("x"), said, (Result("toolu_1", "add", "1", False),), **more)
        kept: list[Any] = answer["content"]
        return kept

    def before(self, **more: Any) -> str:
        made = Wire(more.get("head", ""))
        made.add([Heard("x")])
        return made.fingerprint()

    def test_they_are_the_same(self) -> None:
        items = [THOUGHT, HIDDEN, CALLED]
        assert self.kept(self.before(), items) == items

    def test_thinking_behind_another_beginning_is_left_away(self) -> None:
        before = self.before(head="Goals: one")
        assert self.kept(before, [THOUGHT, HIDDEN, CALLED], head="Goals: two") == [CALLED]
        assert self.kept(before, [THOUGHT, CALLED], head="Goals: one") == [THOUGHT, CALLED]

    def test_thinking_alone_behind_another_beginning_is_what_the_plan_says(self) -> None:
        assert self.kept("another", [THOUGHT]) == [CALLED]

    def test_thinking_with_a_budget_is_kept_in_any_case(self) -> None:
        items = [THOUGHT, CALLED]
        assert self.kept("another", items, bound=False) == items

    def test_later_thinking_holds_behind_thinking_that_was_left_away(self) -> None:
        first = Said("", (), [THOUGHT, text("one")], "another")
        made = Wire("")
        made.add([Heard("x"), first, Heard("y")])
        second = Said("", (), [THOUGHT, text("two")], made.fingerprint())
        told = wire(Heard("x"), first, Heard("y"), second, Heard("z"))
        assert told[1] == assistant(text("one"))
        assert told[3] == assistant(THOUGHT, text("two"))

    def test_the_order_of_keys_makes_no_other_beginning(self) -> None:
        one, other = Wire({"a": 1, "b": 2}), Wire({"b": 2, "a": 1})
        assert one.fingerprint() == other.fingerprint()

    def test_a_turn_that_the_server_paused_goes_on_by_itself(self) -> None:
        paused = Said("Let me see.", (), [text("Let me see."), SEARCHED])
        assert wire(Heard("x"), paused)[-1] == assistant(text("Let me see."), SEARCHED)
        then = Said("", (), [text("And")])
        assert [each["role"] for each in wire(Heard("x"), paused, then)] == [
            "user",
            "assistant",
            "assistant",
        ]

    def test_a_result_answers_the_call_by_its_own_name(self) -> None:
        odd = {**CALLED, "id": "functions.add:0"}
        said = Said("", (Call("functions.add:0", "add", {"a": 1}),), [THOUGHT, odd])
        (_, _, heard) = wire(Heard("x"), said, (Result("functions.add:0", "add", "1", False),))
        assert heard["content"][0]["tool_use_id"] == "functions.add:0"

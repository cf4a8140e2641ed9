"""The JSON by which the model acts, read piece by piece and as a whole."""

from __future__ import annotations

import json

import pytest

from agentic_kernel_engine.loop import FinalAnswer, ToolCall
from agentic_kernel_engine.providers import Malformed, plan_of
from agentic_kernel_local.reading import ActionReader, action_in

TEXTS = ["", "plain", 'a "quote" \\ and a\nline', "Zoë 👋 ✓", "}}", "\ud83d\udc4b{", "\\u00e9"]


def told(text: str, cut: int) -> list[tuple[str, str]]:
    """The pieces of a text that comes in pieces of this length."""
    reader = ActionReader()
    pieces = [reader.take(text[at : at + cut]) for at in range(0, len(text), cut)]
    return [(each.channel, each.text) for each in (*pieces, reader.end()) if each is not None]


def joined(text: str, cut: int) -> dict[str, str]:
    found: dict[str, str] = {}
    for channel, piece in told(text, cut):
        found[channel] = found.get(channel, "") + piece
    return found


@pytest.mark.parametrize("cut", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("ascii", [True, False])
@pytest.mark.parametrize("text", TEXTS)
def test_the_text_of_an_answer_is_told_as_it_is(text: str, ascii: bool, cut: int) -> None:
    text = text.encode("utf-16", "surrogatepass").decode("utf-16")
    form = json.dumps({"answer": text}, ensure_ascii=ascii)
    assert joined(form, cut).get("", "") == text
    assert action_in(form, 0).text == text


@pytest.mark.parametrize("cut", [1, 3, 100])
@pytest.mark.parametrize("value", [{"a": {"b": "}"}}, [1, 2], 42, None, True, {"a": " } "}])
def test_an_answer_of_another_kind_is_told_as_json(value: object, cut: int) -> None:
    said = joined(' { "answer" : ' + json.dumps(value) + "\n} ", cut)
    assert json.loads(said[""]) == value


@pytest.mark.parametrize("cut", [1, 5, 100])
def test_a_call_is_told_whole_on_its_own_channel(cut: int) -> None:
    form = '{"tool": "add", "arguments": {"answer": "no"}}'
    assert joined(form, cut) == {"arguments": form}


@pytest.mark.parametrize("cut", [1, 2, 100])
def test_the_character_that_no_store_keeps_is_replaced(cut: int) -> None:
    form = r'{"answer": "a\u0000b"}'
    assert action_in(form, 0).text == joined(form, cut)[""] == "a\ufffdb"


@pytest.mark.parametrize("half", [r"\ud83d", r"\udc4b", r"\ud83d\n", r"\ud83dx"])
@pytest.mark.parametrize("cut", [1, 2, 100])
def test_half_a_character_holds_back_no_text_and_makes_the_answer_malformed(
    half: str, cut: int
) -> None:
    form = f'{{"answer": "a{half}b"}}'
    text = joined(form, cut)[""]
    assert (text[0], text[-1]) == ("a", "b")
    assert text.encode()
    with pytest.raises(Malformed, match="is not an action"):
        action_in(form, 0)


def test_a_whole_call_keeps_its_arguments_and_is_named_after_its_step() -> None:
    form = '{"tool": "add", "arguments": {"numbers": [{"a": 1}, {"a": 2}]}}'
    (action,) = plan_of(action_in(form, 3), [], None, "local").actions
    assert action == ToolCall("add", {"numbers": [{"a": 1}, {"a": 2}]}, "call_3_1")


def test_a_key_twice_in_a_call_is_refused_so_that_nothing_runs() -> None:
    form = '{"tool": "add", "arguments": {"numbers": [{"a": 1, "a": 2}]}}'
    (action,) = plan_of(action_in(form, 0), [], None, "local").actions
    assert isinstance(action, ToolCall)
    assert (action.tool, action.arguments) == ("add", {})
    assert "have the key 'a' twice in one object; nothing was done" in action.refused


def test_a_key_twice_in_a_final_answer_loses_no_part_of_it() -> None:
    text = '{"count": 1, "count": 2}'
    answer = action_in(f'{{"answer": {text}}}', 0)
    (action,) = plan_of(answer, [], {"type": "object"}, "local").actions
    assert isinstance(action, FinalAnswer)
    assert action.output == text
    assert "'count' twice" in action.refused


@pytest.mark.parametrize(
    "text", ["", "hello", "{}x", '{"tool": 5}', '{"other": 1}', "[1]", "{" * 9]
)
def test_what_is_no_action_is_malformed(text: str) -> None:
    with pytest.raises(Malformed, match="is not an action"):
        action_in(text, 0)

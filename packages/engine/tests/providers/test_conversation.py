"""A transcript as messages: whoever the vendor, what was said and done is the same."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_engine.loop import (
    AskUser,
    Delegate,
    Entry,
    FinalAnswer,
    Notice,
    Observation,
    Plan,
    Summary,
    Thought,
    ToolCall,
    Turn,
    UserMessage,
)
from agentic_kernel_engine.plans.transcript import Transcript
from agentic_kernel_engine.providers import (
    IMAGES,
    Asked,
    Call,
    Heard,
    Image,
    Message,
    Result,
    Said,
    actions_of,
    conversation,
    functions,
    images_in,
    images_of,
    offered,
    provider,
    wired,
)

from .seen import seen, turn

PIXEL = {"type": "image", "media_type": "image/png", "data": "iVBORw0KGgo="}
SHOWN = Image("", "image/png", "iVBORw0KGgo=")


def test_the_instructions_are_what_is_heard_first() -> None:
    assert conversation(seen(), "acme") == [Heard("do it")]


def test_a_call_and_its_result_have_one_name() -> None:
    step = turn(ToolCall("add", {"a": 1, "b": 2}, "call-7"), said="I add.", output=3)
    assert conversation(seen(step), "acme") == [
        Heard("do it"),
        Said("I add.", (Call("call-7", "add", {"a": 1, "b": 2}),)),
        (Result("call-7", "add", "3", failed=False),),
    ]


def test_calls_without_a_name_get_one_each_and_the_same_each_time() -> None:
    steps = [turn(ToolCall("add"), ToolCall("add"), output=1) for _ in range(2)]
    first, again = conversation(seen(*steps), "acme"), conversation(seen(*steps), "acme")
    names = [call.id for said in first if isinstance(said, Said) for call in said.calls]
    assert len(set(names)) == 4
    assert first == again


@pytest.mark.parametrize(
    ("observed", "text", "failed"),
    [
        ({"output": "as it is"}, "as it is", False),
        ({"output": {"n": [1, None]}}, '{"n":[1,null]}', False),
        ({"output": ""}, "(nothing)", False),
        ({}, "done", False),
        ({"error": "handler_error", "message": "odd"}, "handler_error: odd", True),
    ],
)
def test_every_result_is_a_text(observed: dict[str, Any], text: str, failed: bool) -> None:
    messages = conversation(seen(turn(ToolCall("add", {}, "c"), **observed)), "acme")
    assert messages[-1] == (Result("c", "add", text, failed),)


def test_what_the_user_and_the_loop_say_in_a_row_is_one_message() -> None:
    more: list[Entry] = [UserMessage("and be quick"), Notice("nothing new"), UserMessage("")]
    assert conversation(seen(*more), "acme") == [
        Heard("do it\n\nand be quick\n\nnothing new\n\n(nothing)")
    ]


def test_a_summary_says_that_it_is_one() -> None:
    messages = conversation(seen(Summary("we met")), "acme")
    assert messages == [Heard("do it\n\nWhat came before, in short: we met")]


def test_an_answer_that_did_not_fit_is_followed_by_why() -> None:
    step = turn(FinalAnswer({"n": "x"}), error="schema_validation_failed", message="n is no number")
    assert conversation(seen(step), "acme")[1:] == [
        Said('{"n":"x"}'),
        Heard("schema_validation_failed: n is no number"),
    ]


def test_an_action_that_was_no_call_is_said_in_words() -> None:
    step = turn(Thought("hm"), AskUser("which?"))
    assert conversation(seen(step, UserMessage("that")), "acme")[1:] == [
        Said("hm\n\nwhich?"),
        Heard("that"),
    ]


def test_an_action_that_was_a_call_is_one_again() -> None:
    left = provider("acme", None, ["call-1", "call-2"])
    step = turn(AskUser("which?"), Delegate("join", child="c"), provider=left)
    assert conversation(seen(step), "acme")[1:] == [
        Said("", (Call("call-1", "ask_user", {"question": "which?"}),
                  Call("call-2", "join", {"child": "c"}))),
        (Result("call-1", "ask_user", "done", failed=False),
         Result("call-2", "join", "done", failed=False)),
    ]  # fmt: skip


def test_opaque_items_go_back_to_the_planner_that_left_them() -> None:
    items = [{"type": "reasoning", "encrypted_content": "…"}]
    step = turn(ToolCall("add", {}, "c"), provider=provider("acme", items, [""]), output=1)
    assert conversation(seen(step), "acme")[1] == Said("", (Call("c", "add", {}),), items)
    assert conversation(seen(step), "other")[1] == Said("", (Call("c", "add", {}),))


def test_what_was_left_for_another_plan_is_not_used() -> None:
    left = provider("acme", [{"type": "reasoning"}], ["call-1"])
    step = turn(ToolCall("add", {}, "c"), ToolCall("add", {}, "d"), provider=left, output=1)
    said = conversation(seen(step), "acme")[1]
    assert isinstance(said, Said)
    assert said.items is None


def test_nothing_is_left_where_nothing_is_opaque() -> None:
    assert provider("acme", None, ["", ""]) is None


def test_a_step_without_actions_leaves_no_message() -> None:
    assert conversation(seen(Turn(Plan(()), ())), "acme") == [Heard("do it")]


def test_images_of_the_task_belong_to_its_instructions() -> None:
    messages = conversation(seen(turn(ToolCall("add", {}, "c")), metadata={IMAGES: [PIXEL]}), "x")
    assert messages[0] == Heard("do it", (SHOWN,))


def test_an_image_that_a_tool_returned_is_beside_the_rest() -> None:
    one = turn(ToolCall("look", {}, "c"), output=PIXEL)
    some = turn(ToolCall("look", {}, "d"), output=["a cat", PIXEL])
    results = [each for each in conversation(seen(one, some), "x") if type(each) is tuple]
    assert results[0] == (Result("c", "look", "an image", False, (SHOWN,)),)
    assert results[1] == (Result("d", "look", '["a cat"]', False, (SHOWN,)),)


@pytest.mark.parametrize(
    "images",
    ["x.png", [{"type": "image", "media_type": "image/bmp", "data": "x"}],
     [{"type": "image", "url": "http://169.254.169.254/"}], [{"url": "https://a"}]],
)  # fmt: skip
def test_what_is_no_image_is_refused_with_what_would_be_one(images: Any) -> None:
    with pytest.raises(InvalidValue, match="media_type"):
        conversation(seen(metadata={IMAGES: images}), "acme")


def test_a_result_for_every_call_even_if_the_run_ended_before_it() -> None:
    plan = Plan((ToolCall("add", {}, "c"), ToolCall("add", {}, "d")))
    step = Turn(plan, (Observation(1), Observation(error="skipped", message="the run ended")))
    results = conversation(seen(step), "acme")[-1]
    assert isinstance(results, tuple)
    assert [each.id for each in results if isinstance(each, Result)] == ["c", "d"]


HOPELESS = (
    {"media_type": "image/png", "data": ""},
    {"media_type": "image/png", "data": "!!"},
    {"media_type": "image/png", "data": "aGk"},
    {"url": "https://"},
    {"url": "https:///a.png"},
    {"url": "https://a b\r\nX: y"},
)


@pytest.mark.parametrize("form", HOPELESS, ids=range(len(HOPELESS)))
def test_an_image_that_no_vendor_can_take_is_refused_and_stays_in_a_tools_output(form: Any) -> None:
    image = {"type": "image", **form}
    with pytest.raises(InvalidValue, match=r"input/images'\]\[1\]: has (data|the address)"):
        images_of(seen(metadata={IMAGES: [PIXEL, image]}).task)
    assert images_in(image) == (image, ())
    assert images_in([PIXEL, image]) == ([image], (SHOWN,))


def test_a_content_is_read_as_a_whole_before_the_task_begins() -> None:
    middle = {**PIXEL, "data": "A" * 400 + "!!!!" + "A" * 400}
    task = seen(metadata={IMAGES: [middle]}).task
    assert images_of(task)
    with pytest.raises(InvalidValue, match="not valid Base64"):
        images_of(task, decoded=True)


ENTRIES: list[Entry] = [
    turn(ToolCall("add", {"a": 1, "b": 2}, "c1"), said="I add.", output=3),
    turn(Thought("hm"), said="hm"),
    Notice("go on"),
    UserMessage("please"),
    turn(ToolCall("add"), Thought("so"), error="bad", message="no"),
    turn(AskUser("Which?"), output="this one"),
    Summary("much"),
    turn(ToolCall("add"), output=1),
]


def _form(message: Message) -> list[str]:
    return [type(message).__name__, repr(message)]


@pytest.mark.parametrize("many", range(len(ENTRIES) + 1))
def test_a_conversation_that_grew_has_the_form_of_one_that_is_new(many: int) -> None:
    transcript = Transcript([UserMessage("do it")])
    grown = seen(transcript=transcript)
    for entry in ENTRIES[:many]:
        wired(grown, "acme", _form)
        conversation(grown, "acme", answered=True)
        transcript.append(entry)
    new = conversation(seen(*ENTRIES[:many]), "acme")
    assert conversation(grown, "acme") == new
    assert wired(grown, "acme", _form) == [part for each in new for part in _form(each)]
    listed = seen(*ENTRIES[:many], transcript=list(transcript))
    assert conversation(listed, "acme") == new


def test_a_refused_call_of_an_offer_goes_back_with_its_id_and_its_result() -> None:
    asked = Asked("c1", "push_goal", '{"text": 5}')
    (refused,), names = actions_of([asked], functions([], offered(["push_goal"])))
    assert isinstance(refused, ToolCall)
    told = turn(refused, provider=provider("p", None, names), error="e", message=refused.refused)
    _, said, results = conversation(seen(told), "p")
    assert said == Said("", (Call("c1", "push_goal", {"text": 5}),))
    assert results == (Result("c1", "push_goal", f"e: {refused.refused}", failed=True),)

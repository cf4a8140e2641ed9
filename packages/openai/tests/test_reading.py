"""Answers of either API, as plans."""

from __future__ import annotations

from typing import Any

import pytest
from openai._models import construct_type
from openai.types.chat import ChatCompletionChunk

from agentic_kernel_engine.loop import Usage
from agentic_kernel_engine.providers import Answer, Counted, Malformed
from agentic_kernel_engine.providers.reader import unshown
from agentic_kernel_openai.chat_stream import ChatReader
from agentic_kernel_openai.failures import Reported
from agentic_kernel_openai.responses_stream import ResponsesReader

REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "Hm."}],
    "encrypted_content": "gAAA",
}


def message(text: str, **more: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text}]
    return {"type": "message", "id": "msg_1", "content": content, **more}


def called(arguments: str, id: str = "c1", **more: Any) -> dict[str, Any]:
    form = {"type": "function_call", "id": f"fc_{id}", "call_id": id, "name": "add"}
    return {**form, "arguments": arguments, **more}


def response(*output: Any, **more: Any) -> dict[str, Any]:
    return {"status": "completed", "model": "m", "output": list(output), **more}


def chunk(reason: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


def piece(index: int | None, arguments: str = "", id: str = "", name: str = "") -> dict[str, Any]:
    function = {"name": name or None, "arguments": arguments}
    return chunk(tool_calls=[{"index": index, "id": id or None, "function": function}])


def chat(*chunks: dict[str, Any]) -> Answer:
    reader = ChatReader()
    for each in chunks:
        list(reader.read(each))
    return reader.answer()


def answer_of(response: Any, stored: bool) -> Answer:
    """The answer in a response that was not streamed."""
    reader = ResponsesReader(stored)
    reader.whole(response)
    return reader.answer()


def test_a_response_is_read_with_all_that_it_used_up() -> None:
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 10},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 5},
    }
    answer = answer_of(response(REASONING, message("Three."), usage=usage), stored=False)
    assert (answer.text, answer.reasoning, answer.model) == ("Three.", "Hm.", "m")
    assert answer.usage == Counted(Usage(100, 20, 40, 5), 10)


@pytest.mark.parametrize(
    ("output", "stored", "kept"),
    [
        ([message("Hi")], False, None),
        ([called("{}")], True, None),
        ([REASONING, called("{}")], False, [REASONING, called("{}")]),
        ([{**REASONING, "encrypted_content": None}, called("{}")], False, None),
        ([{"type": "reasoning", "id": "rs_1"}], True, [{"type": "reasoning", "id": "rs_1"}]),
        ([message("Hi", phase="commentary")], False, [message("Hi", phase="commentary")]),
        ([message("Hi", phase=None)], False, None),
        ([{"type": "web_search_call"}], False, [{"type": "web_search_call"}]),
    ],
    ids=[
        "text", "a call", "encrypted", "lost", "stored", "with a phase", "without one", "unknown",
    ],
)  # fmt: skip
def test_items_are_kept_if_they_could_not_be_made_again(
    output: list[Any], stored: bool, kept: list[Any] | None
) -> None:
    assert answer_of(response(*output), stored).items == kept


def test_reasoning_is_taken_from_where_it_is_whole() -> None:
    reader = ResponsesReader(stored=False)
    reader.read({"type": "response.output_item.done", "item": REASONING})
    short = {**REASONING, "encrypted_content": None}
    reader.read({"type": "response.completed", "response": response(short, called("{}"))})
    assert reader.answer().items == [REASONING, called("{}")]


def test_items_of_a_stream_stand_for_an_end_that_has_none() -> None:
    reader = ResponsesReader(stored=False)
    reader.read({"type": "response.output_item.done", "item": message("Hello.")})
    reader.read({"type": "response.completed", "response": response()})
    assert reader.answer().text == "Hello."


def test_an_end_without_its_response_is_no_end() -> None:
    reader = ResponsesReader(stored=False)
    reader.read({"type": "response.output_item.done", "item": message("Hello.")})
    reader.read({"type": "response.completed"})
    with pytest.raises(Malformed, match="stopped before its end"):
        reader.answer()


def test_pieces_that_come_twice_or_late_change_no_call_of_a_response() -> None:
    reader = ResponsesReader(stored=False)
    delta = {"type": "response.function_call_arguments.delta", "item_id": "fc_c1", "delta": "1}"}
    done = {"type": "response.output_item.done", "item": called('{"a":1}')}
    for event in (delta, delta, done, done, {"type": "response.something.new"}):
        reader.read(event)
    reader.read({"type": "response.completed", "response": response(called('{"a":1}'))})
    assert [call.arguments for call in reader.answer().calls] == ['{"a":1}']


@pytest.mark.parametrize(
    "bad",
    [
        response(status="queued"),
        response(called("{}", id="")),
        response(message(5)),  # type: ignore[arg-type]
        response(message("\ud800")),
        response(message("\0")),
        response(message("Hi"), usage={"input_tokens": -1}),
        response(message("Hi"), usage={"input_tokens": 1.5}),
        response(message("Hi"), usage={"input_tokens": 10**13}),
        {"output": 5},
    ],
)
def test_a_response_of_another_form_is_no_answer(bad: Any) -> None:
    with pytest.raises(Malformed):
        answer_of(bad, stored=False)


def test_a_response_that_failed_says_why() -> None:
    error = {"code": "rate_limit_exceeded", "message": "Slow down."}
    with pytest.raises(Reported, match="Slow down") as caught:
        answer_of(response(status="failed", error=error), stored=False)
    assert caught.value.codes == ["rate_limit_exceeded"]


def test_chunks_are_put_together_call_by_call() -> None:
    answer = chat(
        chunk(role="assistant", content=""),
        chunk(reasoning_content="Hm."),
        chunk(content="I "),
        chunk(content="add."),
        piece(0, id="c1", name="add"),
        piece(0, '{"a":'),
        piece(0, "1}"),
        piece(1, "{}", id="c2", name="add"),
        chunk("tool_calls"),
        {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}},
    )
    assert answer.text == "I add."
    assert answer.reasoning == "Hm."
    assert [tuple(call) for call in answer.calls] == [
        ("c1", "add", '{"a":1}'),
        ("c2", "add", "{}"),
    ]
    assert answer.usage == Counted(Usage(7, 3))


def test_calls_that_a_server_does_not_count_are_told_by_their_ids() -> None:
    answer = chat(
        piece(None, "{}", "c1", "add"), piece(None, "{}", "c2", "add"), chunk("stop")
    )  # fmt: skip
    assert [call.id for call in answer.calls] == ["c1", "c2"]


@pytest.mark.parametrize(
    "chunks",
    [
        [chunk(content="Hi")],
        [chunk("stop", content="Hi"), chunk(content="Hi")],
        [chunk("stop", content="Hi"), chunk("stop")],
        [chunk("stop", content="Hi"), piece(0, "{}", "c1", "add")],
        [piece(0, "{}", "c1", "add"), piece(2, "{}", "c2", "add"), chunk("tool_calls")],
        [piece(2, "{}", "c1", "add"), piece(0, "{}", "c2", "add"), chunk("tool_calls")],
        [piece(0, "{", "c1", "add"), piece(0, "}", "c2"), chunk("tool_calls")],
        [piece(0, "{", "c1", "add"), piece(0, "}", "", "erase"), chunk("tool_calls")],
        [piece(-1, "{}", "c1", "add"), chunk("tool_calls")],
        [chunk("tool_calls")],
        [chunk(content=["Hi"]), chunk("stop")],
        [chunk(content=[{"type": "image_url"}]), chunk("stop")],
        [chunk(content="\ud83d"), chunk("stop")],
        [{"choices": "none"}],
    ],
    ids=[
        "no end", "text behind the end", "two ends", "a call behind the end", "a gap",
        "a late first", "two ids", "two names", "a negative index", "no calls", "a list",
        "a picture", "half a character", "no chunk",
    ],
)  # fmt: skip
def test_chunks_that_do_not_fit_together_are_no_answer(chunks: list[Any]) -> None:
    with pytest.raises(Malformed):
        chat(*chunks)


def test_an_end_may_be_told_again_with_what_was_used_up() -> None:
    last = {**chunk("stop"), "usage": {"prompt_tokens": 7, "completion_tokens": 3}}
    answer = chat(chunk("stop", content="Hi"), last)
    assert (answer.text, answer.usage) == ("Hi", Counted(Usage(7, 3)))


def test_calls_may_be_counted_from_one() -> None:
    answer = chat(
        piece(1, "{", "c1", "add"), piece(1, "}"), piece(2, "{}", "c2", "add"), chunk("tool_calls")
    )
    assert [(call.id, call.arguments) for call in answer.calls] == [("c1", "{}"), ("c2", "{}")]


def test_calls_may_be_counted_from_two_or_all_have_the_same_number() -> None:
    from_two = [piece(2, "{", "c1", "add"), piece(2, "}"), piece(3, "{}", "c2", "add")]
    all_zero = [piece(0, "{", "c1", "add"), piece(0, "}"), piece(0, "{}", "c2", "add")]
    for pieces in (from_two, all_zero):
        answer = chat(*pieces, chunk("tool_calls"))
        assert [(call.id, call.arguments) for call in answer.calls] == [("c1", "{}"), ("c2", "{}")]


def test_arguments_may_be_an_object() -> None:
    function = {"name": "add", "arguments": {"a": 1}}
    answer = chat(chunk(tool_calls=[{"index": 0, "id": "c1", "function": function}]), chunk("stop"))
    assert [call.arguments for call in answer.calls] == ['{"a":1}']


@pytest.mark.parametrize(
    ("beside", "codes"),
    [({}, ["server_error"]), ({"error": {"message": "No.", "code": 429}}, ["429"])],
    ids=["without a reason", "with one"],
)
def test_an_answer_that_its_server_ended_with_an_error_is_no_answer(
    beside: Any, codes: list[str]
) -> None:
    choice = {"index": 0, "finish_reason": "error", **beside}
    for told in (
        lambda: chat(chunk(content="It is "), {"choices": [{**choice, "delta": {"content": ""}}]}),
        lambda: ChatReader().whole({"choices": [{**choice, "message": {"content": "It is "}}]}),
    ):
        with pytest.raises(Reported) as caught:
            told()
        assert caught.value.codes == codes


def test_an_error_in_place_of_the_choices_is_the_servers_own() -> None:
    with pytest.raises(Reported, match="Too many") as caught:
        ChatReader().whole({"choices": None, "error": {"message": "Too many.", "code": 429}})
    assert caught.value.codes == ["429"]


def test_content_may_come_in_parts() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    answer = chat(
        chunk(content=[thought]),
        chunk(content=[{"type": "text", "text": "It is "}, {"type": "text", "text": "3."}]),
        chunk("stop"),
    )
    assert (answer.text, answer.reasoning) == ("It is 3.", "Hm.")


def test_fields_of_a_message_and_of_a_call_that_the_api_does_not_have_are_kept() -> None:
    signed = {"google": {"thought_signature": "c2ln"}}
    call = {"index": 0, "id": "c1", "function": {"name": "add", "arguments": "{}"}}
    answer = chat(
        chunk(reasoning_content="I "),
        chunk(reasoning_content="add.", reasoning_details=[{"type": "a"}]),
        chunk(reasoning_details=[{"type": "b"}]),
        chunk(tool_calls=[{**call, "extra_content": signed}]),
        chunk("tool_calls"),
    )
    called = {"id": "c1", "type": "function", "function": call["function"]}
    assert answer.items == [
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "I add.",
            "reasoning_details": [{"type": "a"}, {"type": "b"}],
            "tool_calls": [{**called, "extra_content": signed}],
        }
    ]


def test_an_approval_that_a_hosted_mcp_server_wants_is_a_question() -> None:
    wish = {
        "type": "mcp_approval_request",
        "id": "mcpr_1",
        "server_label": "deepwiki",
        "name": "ask",
        "arguments": '{"repo":"x"}',
    }
    answer = answer_of(response(wish), stored=False)
    assert "ask of the MCP server deepwiki" in answer.question
    assert '{"repo":"x"}' in answer.question
    assert answer.items == [wish]


def event_of(data: Any) -> Any:
    """An event as the SDK gives it."""
    if not isinstance(data, dict):
        return data
    made: Any = construct_type(value=data, type_=ChatCompletionChunk)
    return made


@pytest.mark.parametrize(
    "event",
    [
        None,
        5,
        [1],
        {"x": 1},
        {"choices": [None]},
        {"choices": [1]},
        {"choices": "x"},
        {"choices": [{"index": "0", "delta": {"content": "lost"}}]},
        {"choices": [{"index": 0, "delta": None}]},
        {"choices": [{"index": 0, "delta": "lost"}]},
    ],
    ids=repr,
)
def test_an_event_of_another_form_is_refused(event: Any) -> None:
    reader = ChatReader()
    list(reader.read(chunk(content="kept")))
    with pytest.raises(Malformed):
        list(reader.read(event_of(event)))


@pytest.mark.parametrize(
    ("event", "codes"),
    [
        ({"object": "error", "message": "engine died", "code": 500}, ["500"]),
        ({"detail": "engine died"}, []),
    ],
)
@pytest.mark.parametrize("reader", [ChatReader(), ResponsesReader(stored=False)])
def test_an_error_that_only_compatible_servers_send_is_the_servers_own(
    event: Any, codes: list[str], reader: Any
) -> None:
    with pytest.raises(Reported, match="engine died") as caught:
        list(reader.read(event_of(event)))
    assert caught.value.codes == codes


def test_an_event_that_says_something_beside_the_answer_is_taken() -> None:
    reader = ChatReader()
    events: list[dict[str, Any]] = [
        {"choices": [], "prompt_filter_results": []},
        {"choices": [{"index": 0, "finish_reason": None, "content_filter_results": {}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {"usage": {"prompt_tokens": 1, "completion_tokens": 2}},
    ]
    for event in events:
        assert list(reader.read(event_of(event))) == []
    assert reader.answer().usage == Counted(Usage(1, 2))


def streamed(*events: dict[str, Any]) -> tuple[str, Answer]:
    """The text that a stream shows, with the rest at its end, and its answer."""
    reader = ResponsesReader(False)
    pieces = [piece for each in events for piece in reader.read(each)]
    texts, answer = reader.texts(), reader.answer()
    shown = [*pieces, *unshown(answer, texts)]
    return "".join(each.text for each in shown if not each.channel), answer


def told(piece: str, place: int, part: int = 0) -> dict[str, Any]:
    kind = "response.output_text.delta"
    return {"type": kind, "output_index": place, "content_index": part, "delta": piece}


def completed(*output: Any) -> dict[str, Any]:
    return {"type": "response.completed", "response": response(*output)}


def test_the_pieces_of_two_messages_join_to_the_text_that_is_stored() -> None:
    pieces = (told("He", 0), told("llo", 0, 1), told("Wor", 1), told("ld", 1))
    shown, answer = streamed(*pieces, completed(message("Hello"), message("World")))
    assert shown == answer.text == "Hello\n\nWorld"


def test_a_server_that_numbers_no_items_tells_them_apart_by_their_ids() -> None:
    pieces = [told(each, 0) | {"output_index": None, "item_id": each} for each in ("a", "b")]
    shown, answer = streamed(*pieces, completed(message("a"), message("b")))
    assert shown == answer.text == "a\n\nb"


def test_the_pieces_of_two_summaries_join_to_the_reasoning() -> None:
    kind = "response.reasoning_summary_text.delta"
    item = {**REASONING, "summary": [{"text": "Hm."}, {"text": "Aha."}]}
    reader = ResponsesReader(False)
    events = [
        {"type": kind, "output_index": 0, "summary_index": place, "delta": each}
        for place, each in enumerate(["Hm.", "Aha."])
    ]
    pieces = [piece for each in events for piece in reader.read(each)]
    list(reader.read(completed(item, message("Hi"))))
    assert "".join(each.text for each in pieces) == reader.answer().reasoning == "Hm.\n\nAha."


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [([], "Hello and more"), (["Hel", "lo"], "Hello and more"), (["Other"], "Other")],
)
def test_the_end_of_an_answer_shows_the_text_that_only_its_last_event_has(
    pieces: list[str], shown: str
) -> None:
    events = [told(each, 0) for each in pieces]
    found, answer = streamed(*events, completed(message("Hello and more")))
    assert (found, answer.text) == (shown, "Hello and more")

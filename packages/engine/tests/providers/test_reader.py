"""Every reader keeps pieces, calls, parts and counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agentic_kernel_engine.loop import Delta, Usage
from agentic_kernel_engine.providers import (
    Answer,
    Asked,
    Call,
    Counted,
    Malformed,
    Reader,
    Said,
    present,
)
from agentic_kernel_engine.providers.reading import arguments, counted, number, plain, text


class Words(Reader):
    """Each event is a word; the last one is a full stop."""

    def read(self, event: Any) -> Iterator[Delta]:
        yield from self.tell(event)
        self.count = Counted(Usage(7, len(self.told())), written=2)
        self.done = event == "."

    def answer(self) -> Answer:
        return self.kept(end="length")


def test_a_whole_answer_is_one_event_and_an_answer_has_what_was_kept() -> None:
    reader = Words()
    reader.whole(".")
    reader.reason, reader.model = "full stop", "w"
    answer = reader.answer()
    assert (answer.text, answer.end, answer.reason, answer.model) == (
        ".",
        "length",
        "full stop",
        "w",
    )
    assert answer.usage == Counted(Usage(7, 1), 2)


def test_an_answer_without_its_end_is_refused() -> None:
    reader = Words()
    assert [*reader.read("a")] == [Delta("a")]
    with pytest.raises(Malformed, match="stopped before its end"):
        reader.answer()


def test_a_call_comes_in_pieces() -> None:
    reader = Words()
    assert reader.piece(0, "c1", "add", "") == []
    assert reader.piece(1, "", "sub", '{"a"') == [Delta('{"a"', "arguments")]
    assert reader.piece(0, "", "", "{}") == [Delta("{}", "arguments")]
    assert reader.piece(1, "c2", "sub", ": 1}") == [Delta(": 1}", "arguments")]
    assert reader.pieced() == [Asked("c1", "add", "{}"), Asked("c2", "sub", '{"a": 1}')]
    reader.done = True
    assert reader.answer().calls == reader.pieced()
    first = Words(parallel=False)
    for place in range(2):
        first.piece(place, f"c{place}", "add", "{}")
    assert first.pieced() == [Asked("c0", "add", "{}")]


@pytest.mark.parametrize(
    ("pieces", "places"),
    [
        ([(0, "c1", "add"), (1, "c2", "sub"), (0, "", "")], [0, 1, 0]),
        ([(1, "c1", "add"), (2, "c2", "sub"), (1, "", "")], [0, 1, 0]),
        ([(0, "c1", "add"), (0, "c2", "sub"), (0, "", "")], [0, 1, 1]),
        ([(None, "c1", "add"), (None, "", ""), (None, "c2", "sub")], [0, 0, 1]),
    ],
    ids=["counted", "counted from 1", "all of one number", "not counted"],
)
def test_a_piece_is_of_the_call_that_its_server_means(
    pieces: list[tuple[int | None, str, str]], places: list[int]
) -> None:
    reader, found = Words(), []
    for index, id, name in pieces:
        found.append(reader.place(index, id, name))
        reader.piece(found[-1], id, name, "")
    assert found == places


@pytest.mark.parametrize(
    "piece",
    [(2, "c3", "add", ""), (-1, "c1", "add", ""), (0, "c2", "", ""), (0, "", "sub", "")],
    ids=["left out", "before the first", "another id", "another name"],
)
def test_a_piece_that_does_not_fit_its_call_is_refused(piece: tuple[int, str, str, str]) -> None:
    reader = Words()
    reader.piece(0, "c1", "add", "")
    with pytest.raises(Malformed, match=r"1 calls have begun|different ids or names"):
        reader.piece(*piece)


def test_a_whole_number_is_nothing_else() -> None:
    assert number({"index": 0}, "index") == 0
    assert number({}, "index") is None
    for bad in (True, "0", 1.0, [0]):
        with pytest.raises(Malformed, match="not a whole number"):
            number({"index": bad}, "index")


def test_a_part_of_the_sdk_is_the_json_that_it_was_made_from() -> None:
    class Part:
        def to_dict(self, **_: Any) -> dict[str, Any]:
            return {"text": "a"}

    assert plain(Part()) == plain({"text": "a"}) == {"text": "a"}
    for bad in ("text", None, {"text": "\ud800"}):
        with pytest.raises(Malformed):
            plain(bad)


def test_the_bound_of_an_answer_that_began() -> None:
    reader = Words(most=50)
    assert reader.used() is None
    assert [*reader.read("a")] == [Delta("a")]
    assert reader.used() == reader.begun() == Counted(Usage(7, 50), 2)
    assert [*reader.read(".")] == [Delta(".")]
    assert reader.used() == Counted(Usage(7, 2), 2)
    unbounded = Words()
    assert [*unbounded.read("a")]
    assert unbounded.begun() is None


@pytest.mark.parametrize("parallel", [True, False])
def test_calls_are_named_after_the_step_if_the_vendor_does_not(parallel: bool) -> None:
    reader = Words(step=3, parallel=parallel)
    pieces = [reader.call("", "a", "{}"), reader.call("x", "b", '{"c":1}')]
    first, second = Asked("call_3_0", "a", "{}"), Asked("x", "b", '{"c":1}')
    assert reader.calls == ([first, second] if parallel else [first])
    assert pieces[0] == [Delta("{}", "arguments")]
    assert pieces[1] == ([Delta('{"c":1}', "arguments")] if parallel else [])


def test_pieces_of_text_are_joined_and_the_other_parts_are_as_they_were() -> None:
    reader = Words()
    signed = {"text": "", "signature": "s"}
    reader.parts = [{"text": "a"}, {"text": "b"}, {"call": 1}, {"text": "c"}, signed]
    assert reader.items() == [{"text": "ab"}, {"call": 1}, {"text": "c"}, signed]
    reader.parts = [{"text": "a"}, {"text": "b"}]
    assert reader.items() is None


@pytest.mark.parametrize(
    ("items", "kept"),
    [
        ([{"id": "1"}, {"text": "x"}, {"name": "b"}], True),
        ([{"id": "1"}], False),
        ([{"id": "1"}, {"name": "c"}], False),
        ([{"id": "1"}, {"name": "b"}, {"name": "b"}], False),
        (None, False),
    ],
)
def test_items_are_kept_if_their_calls_are_those_with_results(items: Any, kept: bool) -> None:
    said = Said("", (Call("1", "a", {}), Call("2", "b", {})), items)
    found = said.kept(lambda item: item.get("id") or item.get("name"))
    assert found == (items if kept else [])


def test_counts_of_several_names_are_added() -> None:
    names = {"input_tokens": "read", "output_tokens": "said thoughts details.more"}
    usage = {"read": 1, "said": 20, "thoughts": 300, "details": {"more": 4_000}}
    assert counted(usage, names) == Counted(Usage(1, 4_320))
    assert counted(None, names) is None


@pytest.mark.parametrize(
    ("usage", "uncounted"),
    [
        ({"read": 1, "said": 0}, ()),
        ({"read": 1}, ("output_tokens",)),
        ({"read": 1, "said": None, "thoughts": 3}, ("output_tokens",)),
        ({"said": 1, "cached": 3}, ("input_tokens",)),
        ({}, ("input_tokens", "output_tokens")),
    ],
    ids=["both", "no output", "a part of the output", "a part of the input", "empty"],
)
def test_a_count_that_is_missing_is_uncounted(
    usage: dict[str, int | None], uncounted: tuple[str, ...]
) -> None:
    found = counted(usage, {"input_tokens": "read cached", "output_tokens": "said thoughts"})
    assert found is not None
    assert found.uncounted == uncounted
    filled = found.filled(Usage(70, 80)).usage
    assert filled.input_tokens == (70 if "input_tokens" in uncounted else usage["read"])
    assert filled.output_tokens == (80 if "output_tokens" in uncounted else usage["said"])


def test_a_part_of_a_count_may_be_more_than_the_worst_case() -> None:
    found = counted(
        {"read": 1, "thoughts": 90}, {"input_tokens": "read", "output_tokens": "said thoughts"}
    )
    assert found is not None
    assert found.filled(Usage(70, 80)).usage == Usage(1, 90)


def test_arguments_that_an_sdk_parsed_are_json_again_if_a_store_accepts_them() -> None:
    assert arguments({"args": {"a": [1, None]}}, "args") == '{"a":[1,null]}'
    assert arguments({"args": None}, "args") == "{}"
    for bad in (float("nan"), "\ud800", 1 << 70, object()):
        with pytest.raises(Malformed):
            arguments({"args": {"a": bad}}, "args")


def test_a_text_of_an_enum_is_its_value() -> None:
    import enum

    class End(str, enum.Enum):
        STOP = "stop"

    assert type(text({"end": End.STOP}, "end")) is str
    assert text({"end": End.STOP}, "end") == "stop"


def test_only_fields_with_a_value_are_present() -> None:
    assert present(a=0, b=None, c="", d=[]) == {"a": 0, "c": "", "d": []}

"""Texts: one way to join deltas, also of older versions, of attempts, and from the middle."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_kernel_engine.events import Event
from agentic_kernel_engine.texts import FURTHEST, Texts


def delta(text: Any, at: Any = None, **data: Any) -> Event:
    return Event("run.delta", {"text": text, **data, **({} if at is None else {"at": at})})


TURN = Event("run.turn")


@pytest.mark.rule("R20")
@pytest.mark.parametrize(
    ("events", "text"),
    [
        ([], ""),
        ([delta("a"), delta("b")], "ab"),
        ([delta("a", 0), delta("b", 1)], "ab"),
        ([delta("Hello ", 0), delta("Hello ", 0), delta("world", 6)], "Hello world"),
        ([delta("Hello", 0), delta("p", 3)], "Help"),
        ([delta("Hello", 0), delta("", 0)], ""),
        ([delta("one", 0), TURN, delta("two", 0)], "two"),
        ([delta("one", 0), TURN], "one"),
        ([TURN, delta("one", 0), TURN, TURN], "one"),
        ([delta("lo", 3), delta(" you", 5)], "lo you"),
        ([delta("lo", 3), delta("p", 3)], "p"),
        ([delta("lo", 3), delta("Hi", 0)], "Hi"),
        ([delta("He", 0), delta("you", 6), delta("r", 9)], "Heyour"),
        ([delta("He", 0), delta("you", 6), delta("m", 7)], "Heym"),
        ([delta("a", 0), delta("x", 0, channel="side"), delta("b", 1)], "ab"),
        ([delta("a", 0), delta(7), delta("b", channel=7), delta("b", 1)], "ab"),
        ([delta("a", 0), delta("b", -1), delta("c", True), delta("d", 1.0)], "abcd"),
        ([delta("a", 0), delta("b", FURTHEST + 1)], "ab"),
        ([delta("a", 0), Event("tool.progress", {"text": "no"})], "a"),
    ],
)
def test_a_delta_stands_at_its_place(events: list[Event], text: str) -> None:
    assert Texts(events).text() == text


@pytest.mark.rule("R20")
def test_a_reader_is_told_when_it_has_to_show_the_text_again() -> None:
    texts = Texts()
    events = [delta("Hel", 0), delta("lo", 3), delta("Hell", 0), TURN, delta("a", 0), delta("b")]
    assert [texts.take(event) for event in events] == [False, False, True, False, False, False]
    assert texts.take(delta("", 1))
    assert not texts.take(delta("", 1))


@pytest.mark.rule("R20")
def test_the_channels_with_text_are_those_of_the_turn_in_progress() -> None:
    texts = Texts([delta("hm", 0, channel="reasoning"), delta("a", 0), delta("", 0)])
    assert texts.open() == ["reasoning"]
    assert (texts.text("reasoning"), texts.text(), texts.text("arguments")) == ("hm", "", "")
    texts.take(TURN)
    assert texts.open() == []
    texts.take(delta("b", 0))
    assert (texts.open(), texts.text("reasoning")) == ([""], "")


def test_joining_many_deltas_does_not_copy_the_text_each_time() -> None:
    texts = Texts()
    for n in range(200_000):
        texts.take(delta("12345", 5 * n))
    assert len(texts.text()) == 1_000_000

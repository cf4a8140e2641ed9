"""The compactor that comes with the engine: what it keeps, and what it quotes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_kernel import InvalidValue
from agentic_kernel_engine.plans.action import AskUser, FinalAnswer, ToolCall
from agentic_kernel_engine.plans.limits import Remaining
from agentic_kernel_engine.plans.observation import Observation
from agentic_kernel_engine.plans.plan import Plan
from agentic_kernel_engine.plans.transcript import (
    Entry,
    Notice,
    Summary,
    Transcript,
    Turn,
    UserMessage,
)
from agentic_kernel_engine.seams.compactor import LONGEST, Compaction, WindowCompactor, extract

REMAINING = Remaining(1)


def turn(output: Any) -> Turn:
    return Turn(Plan((ToolCall("look", {"at": 1}),)), (Observation(output),))


def test_a_window_keeps_the_latest_and_quotes_the_others() -> None:
    window = WindowCompactor(max_entries=5, keep=2)
    entries: list[Entry] = [
        UserMessage("find the thief"), *[turn(n) for n in range(3)], Notice("hurry")
    ]  # fmt: skip
    assert window.compact(Transcript(entries), REMAINING) is None
    wanted = window.compact(Transcript([*entries, turn("a hat")]), REMAINING)
    assert wanted == Compaction(
        4, 'user: find the thief\nlook {"at":1} -> 0\nlook {"at":1} -> 1\nlook {"at":1} -> 2'
    )


def test_a_window_keeps_less_of_what_is_long() -> None:
    window = WindowCompactor(max_entries=50, max_bytes=10_000, keep=20)
    long = Transcript([UserMessage("go"), *[turn("x" * 1_500) for _ in range(8)]])
    wanted = window.compact(long, REMAINING)
    assert wanted is not None
    assert wanted.entries == 9 - 3
    huge = Transcript([UserMessage("go"), turn("x"), turn("x" * 100_000)])
    assert window.compact(huge, REMAINING) == Compaction(2, 'user: go\nlook {"at":1} -> "x"')


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("keep", {"keep": 0}),
        ("keep", {"max_entries": 20, "keep": 20}),
        ("summary", {"summary": 10}),
        ("summary", {"max_bytes": 1_000, "summary": 500}),
        ("summary", {"max_bytes": 10**7, "summary": LONGEST + 1}),
    ],
)
def test_a_window_that_could_not_work_is_refused(name: str, options: dict[str, int]) -> None:
    with pytest.raises(InvalidValue, match=name):
        WindowCompactor(**options)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=600)
some_entries = st.lists(
    st.one_of(
        texts.map(UserMessage),
        texts.map(Notice),
        texts.map(Summary),
        texts.map(turn),
        texts.map(lambda text: Turn(Plan((AskUser(text),), text=text), (Observation(),))),
        texts.map(lambda text: Turn(Plan((FinalAnswer(text),)), (Observation(error=text),))),
    ),
    max_size=30,
)


@given(some_entries, st.integers(200, 5_000))
def test_an_extract_is_never_longer_than_asked(entries: list[Entry], length: int) -> None:
    said = extract(entries, length)
    assert len(said) <= length
    assert len(extract([Summary(said), *entries], length)) <= length
    assert extract([Summary(said)], length) == said
    assert "\n\n" not in said


@given(some_entries)
def test_a_size_is_the_same_measured_at_once_or_bit_by_bit(entries: list[Entry]) -> None:
    slowly = Transcript()
    for entry in entries:
        slowly.append(entry)
        assert slowly.size > 0
    assert slowly.size == sum(Transcript([entry]).size for entry in entries)
    assert slowly.size == Transcript(entries).size

"""Parts: messages with more parts than are read, however they are cut into pieces."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_kernel_mcp import parts
from agentic_kernel_mcp.parts import MOST_CONTAINERS, MOST_ITEMS, Parts, TooManyParts

TEXTS = st.text(st.sampled_from('ab{}[],"\\\n'))
VALUES = st.recursive(
    st.none() | st.integers(0, 9) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def containers(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(containers, value.values()))
    return 1 + sum(map(containers, value)) if isinstance(value, list) else 0


def pieces(text: bytes, sizes: list[int]) -> Iterator[bytes]:
    at = 0
    for size in sizes:
        yield text[at : at + size]
        at += size
    yield text[at:]


@settings(max_examples=50)
@given(VALUES, st.booleans(), st.lists(st.integers(0, 5)))
def test_what_stands_in_texts_does_not_count(value: Any, lines: bool, sizes: list[int]) -> None:
    counted = Parts()
    for piece in pieces(json.dumps(value, indent=1 if lines else None).encode(), sizes):
        counted.feed(piece)
    assert counted._containers == containers(value)


@pytest.mark.parametrize(
    "text",
    [
        b"{}," * (MOST_CONTAINERS + 1), b"[" * (MOST_CONTAINERS + 1), b"1," * (MOST_ITEMS + 1),
        b'data: {"a": ' + b"[" * (MOST_CONTAINERS + 1), b': "\ndata: ' + b"[]" * 200_000,
        b"data: {}\n" * (MOST_CONTAINERS + 1),
    ],
    ids=["objects", "deep", "items", "event", "a quote in a comment", "lines of one event"],
)  # fmt: skip
@pytest.mark.parametrize("size", [1_000, 10_000_000])
def test_a_message_with_too_many_parts_is_refused(text: bytes, size: int) -> None:
    counted = Parts(events=text.startswith((b"data", b":")))

    def feed() -> None:
        for at in range(0, len(text), size):
            counted.feed(text[at : at + size])

    with pytest.raises(TooManyParts, match="100,000 objects and lists"):
        feed()


def test_each_event_of_a_stream_is_counted_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MOST_CONTAINERS", 10)
    counted = Parts(events=True)
    for end in (b"\n\n", b"\r\n\r\n", b"\r\r"):
        for _ in range(5):
            counted.feed(b'data: {"a": [[[]]]}' + end)

"""Text that came from elsewhere cannot drive a terminal."""

from __future__ import annotations

import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_cli.text import content, label, seconds


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("plain", "plain"),
        ("two\nlines", "two\\nlines"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\x9b31mred", "\\x9b31mred"),
        ("a\u202eb", "a\\u202eb"),
        ("a\u200bb", "a\\u200bb"),
        ("\ud800", "\\ud800"),
        ("é 中", "é 中"),
    ],
)
def test_a_label_is_one_line_of_printable_characters(hostile: str, shown: str) -> None:
    assert label(hostile) == shown


def test_a_label_is_cut_to_its_width() -> None:
    assert label("abcdef", 4) == "abc…"
    assert label("abcd", 4) == "abcd"


def test_content_keeps_lines_and_tabs_and_loses_other_controls() -> None:
    assert content("a\tb\nc\x1b[2J\x07\r\x9b\x7f é") == "a\tb\nc[2J é"


@pytest.mark.parametrize(
    ("span", "length"), [("90s", 90), ("45m", 2_700), ("12h", 43_200), ("30d", 2_592_000)]
)
def test_a_span_is_read_as_seconds(span: str, length: int) -> None:
    assert seconds(span) == length


@pytest.mark.parametrize("span", ["", "30", "d", "-1d", "1.5h", "1y", "٣d", "9" * 20 + "d", "1d "])
def test_what_is_no_span_is_refused(span: str) -> None:
    with pytest.raises(InvalidValue, match="is not a number with"):
        seconds(span)

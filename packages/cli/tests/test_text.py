"""Text that came from elsewhere cannot drive a terminal."""

from __future__ import annotations

import json
import subprocess
import unicodedata

import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_cli.text import as_json, command_line, content, label, seconds, visible


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
        ("a\u2028b\u2029c", "a\\u2028b\\u2029c"),
        ("a\u3164b\u115fc\u2800d\ufe0fe\u034ff", "a\\u3164b\\u115fc\\u2800d\\ufe0fe\\u034ff"),
        ("a\U000e0041\U000e0101b", "a\\U000e0041\\U000e0101b"),
        ("\u2066a\u2069\u061c\u200f", "\\u2066a\\u2069\\u061c\\u200f"),
        ("é 中", "é 中"),
        ("pay\\x1b", "pay\\\\x1b"),
    ],
)
def test_a_label_is_one_line_of_printable_characters(hostile: str, shown: str) -> None:
    assert label(hostile) == shown


def test_a_label_is_cut_to_its_width() -> None:
    assert label("abcdef", 4) == "abc…"
    assert label("abcd", 4) == "abcd"


def test_content_keeps_lines_and_tabs_and_loses_other_controls() -> None:
    assert content("a\tb\nc\x1b[2J\x07\r\x9b\x7f é") == "a\tb\nc[2J é"


def test_content_shows_nothing_that_cannot_be_seen() -> None:
    """Every character of Unicode, one by one: what is left is a line break, a tab, or has ink."""
    unseen = []
    for code in range(0x110000):
        shown = content(f"a{chr(code)}b").removeprefix("a").removesuffix("b")
        category = unicodedata.category(shown) if shown else ""
        if category in ("Cf", "Zl", "Zp") or (category == "Cc" and shown not in "\n\t"):
            unseen.append(hex(code))
    assert unseen == []
    assert content("a\u3164\u115f\u2800\ufe0f\u034f\u202e\u2066b") == "ab"
    assert content("one\u2028two\u2029three") == "one\ntwo\nthree"


def test_a_label_of_any_character_is_one_visible_line() -> None:
    assert [hex(code) for code in range(0x110000) if not visible(label(chr(code)))] == []


@pytest.mark.parametrize(
    ("span", "length"), [("90s", 90), ("45m", 2_700), ("12h", 43_200), ("30d", 2_592_000)]
)
def test_a_span_is_read_as_seconds(span: str, length: int) -> None:
    assert seconds(span, "--older-than") == length


@pytest.mark.parametrize("span", ["", "30", "d", "-1d", "1.5h", "1y", "٣d", "9" * 20 + "d", "1d "])
def test_what_is_no_span_is_refused(span: str) -> None:
    with pytest.raises(InvalidValue, match="is not a number with"):
        seconds(span, "--older-than")


ODD = [
    "pay\x1b", "pay\\x1b", "pay\\\\x1b", "a'b\x07", "$'pay\\x1b'", "'", '"', "a\u202eb", "\u200b",
    "\\u200b", "two\nlines\n", "\x1bf00", "!x\x01!", "$(id)\x02`id`", "é中\x9b", "\udce9", "a b",
    "\U000e0041", "100%\r", "\\", "-x", "#", "", "~",
]  # fmt: skip


def test_two_texts_never_have_the_same_label() -> None:
    assert len({label(text) for text in ODD}) == len(ODD)


def test_json_is_one_visible_line_that_reads_back() -> None:
    for text in ODD:
        shown = as_json({text: [text]})
        assert visible(shown)
        assert json.loads(shown) == {text: [text]}


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_a_shell_reads_a_proposed_command_as_the_very_words(locale: str) -> None:
    line = command_line(ODD)
    assert visible(line)
    ran = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {line}"],
        env={"LC_ALL": locale}, capture_output=True, check=True, timeout=60,
    )  # fmt: skip
    assert ran.stdout.decode(errors="surrogateescape").split("\0")[:-1] == ODD

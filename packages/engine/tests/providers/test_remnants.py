"""Remnants: a part of a key is found in the text of an error, and a word is not."""

from __future__ import annotations

import base64
from functools import partial

import pytest

from agentic_kernel_engine.providers import Failures
from agentic_kernel_engine.providers.remnants import without_remnants
from agentic_kernel_engine.providers.secrets import REDACTED
from integration.counting import lines

KEY = "sk-proj-Ab3x9Q7z_0123T3BlbkFJabcdEFGH4567wxyz"
WORDS = "production-credentials"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (f"it is {KEY[9:]}.", f"it is {REDACTED}."),
        (f"it is ...{KEY[-8:]}.", f"it is ...{REDACTED}."),
        (f"it is {KEY[20:31].upper()}.", f"it is {REDACTED}."),
        (f"{KEY[:16]}*{KEY[-9:]}", f"{REDACTED}*{REDACTED}"),
        (f"<{KEY[:20]}\u200b \n\n\n\t{KEY[20:]}>", f"<{REDACTED}>"),
        (f"<{' '.join(KEY)}>", f"<{REDACTED}>"),
        (
            f"<{KEY[:20]}%250A%E2%80%8B&nbsp;&#x200B;\\u{{200b}}\\U0000200b{KEY[20:]}>",
            f"<{REDACTED}>",
        ),
        (f"<{KEY.encode().hex()[5:40]}>", f"<{REDACTED}>"),
        (f"<{KEY.encode().hex(' ')}>", f"<{REDACTED}>"),
        (f"<{base64.b64encode(KEY.encode()).decode()[7:40]}>", f"<{REDACTED}>"),
    ],
)
def test_a_part_of_a_key_is_removed(said: str, shown: str) -> None:
    assert without_remnants(said, [KEY]) == shown
    assert Failures("acme", {}, [KEY]).clean(said) == shown


@pytest.mark.parametrize(
    "said",
    [
        "Incorrect key: ...wxyz",
        "Incorrect key: ...567wxyz",
        "a key begins with sk-proj-",
        f"half of the hexadecimal form: {KEY.encode().hex()[:15]}",
        "a %41 &amp; \\u0041 \\n text with escapes \\",
        "",
    ],
)
def test_what_vendors_show_and_all_else_stays(said: str) -> None:
    assert without_remnants(said, [KEY]) == said
    assert without_remnants(said, []) == said


def test_a_word_of_a_key_stays_and_half_of_the_key_does_not() -> None:
    said = "the production server has other words"
    assert without_remnants(said, [WORDS]) == said
    assert without_remnants(f"it is {WORDS[:14]}", [WORDS]) == f"it is {REDACTED}"


def test_parts_of_several_keys_that_overlap_are_one() -> None:
    keys = ["0123456789abcdef", "89abcdefghijklmn"]
    assert without_remnants("<0123456789abcdefghijklmn>", keys) == f"<{REDACTED}>"


@pytest.mark.parametrize("hidden", ["\u200b", "\xad", "\ufe0f", "\u3164", "\U000e0041"])
def test_what_looks_like_another_key_is_removed_though_it_is_split(hidden: str) -> None:
    said = f"sk-proj-abcdef{hidden}ghijkl is disabled"
    assert Failures("acme", {}, [KEY]).clean(said) == f"{REDACTED} is disabled"


@pytest.mark.parametrize(
    "part", ["a ", "%25", "\\", KEY[:7], KEY, "&a", "\\\\\\u00", "s k", "\u200b", "&#0"], ids=ascii
)
def test_twice_the_text_is_twice_the_work(part: str) -> None:
    def read(length: int) -> None:
        without_remnants((part * length)[:length], [KEY])

    read(100)  # The pattern is compiled at the first text.
    half, whole = (lines(partial(read, length)) for length in (2_000, 4_000))
    assert whole <= 2.2 * half + 50
    assert whole <= 200 * 4_000

"""Secrets: a key is found in every form, wherever a text is cut, and in linear time."""

from __future__ import annotations

import base64
import html
import json
import re
import string
from collections.abc import Callable
from functools import partial
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_kernel_engine.loop import Delta, FinalAnswer, Plan, ToolCall
from agentic_kernel_engine.providers import Failures, Redactor, Secrets
from agentic_kernel_engine.providers.secrets import REDACTED, SHORTEST, RedactedStream
from integration.counting import lines

# Twelve hundred texts that one regular expression meets on every interpreter.
pytestmark = pytest.mark.slow

KEY = "sk-Ab3+/x=Q9&z%!_~0123'\"<456789"
PLAIN = "0123456789abcdef0123456789abcdef"
KEYS = {"with punctuation": KEY, "hexadecimal": PLAIN, "long": "nvapi-" + "Zx9_" * 40}


def each(form: str) -> Callable[[str], str]:
    """Every character in one form of escape."""
    return lambda key: "".join(form.format(ord(character)) for character in key)


FORMS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "upper case": str.upper,
    "hexadecimal": lambda key: key.encode().hex(),
    "HEXADECIMAL": lambda key: key.encode().hex().upper(),
    "base64": lambda key: base64.b64encode(key.encode()).decode(),
    "base64 behind one byte": lambda key: base64.b64encode(f":{key}!".encode()).decode(),
    "base64 behind two bytes": lambda key: base64.b64encode(f"u:{key}!!".encode()).decode(),
    "base64 of a header": lambda key: base64.b64encode(f"Bearer {key}\n".encode()).decode(),
    "base64 for addresses": lambda key: base64.urlsafe_b64encode(f"??{key}".encode()).decode(),
    "base64 in lines": lambda key: "\n".join(
        re.findall(".{1,16}", base64.b64encode(key.encode()).decode())
    ),
    "base64 in JSON": lambda key: base64.b64encode(key.encode()).decode().replace("/", "\\/"),
    "address": lambda key: quote(key, safe=""),
    "address twice": lambda key: quote(quote(key, safe=""), safe=""),
    "every character of an address": each("%{:02X}"),
    "JSON": lambda key: json.dumps(key)[1:-1],
    "JSON in JSON": lambda key: json.dumps(json.dumps(key))[1:-1],
    "unicode": each("\\u{:04x}"),
    "UNICODE": each("\\u{:04X}"),
    "unicode in JSON": lambda key: json.dumps(each("\\u{:04x}")(key)),
    "bytes": each("\\x{:02x}"),
    "braces": each("\\u{{{:x}}}"),
    "HTML": html.escape,
    "entities": each("&#{};"),
    "hexadecimal entities": each("&#x{:x};"),
    "zero-width spaces": "\u200b".join,
    "soft hyphens and marks": lambda key: f"{key[:5]}\xad\ufeff{key[5:9]}\u2060{key[9:]}",
    "base64 with joiners": lambda key: "\u200d".join(
        re.findall(".{1,16}", base64.b64encode(key.encode()).decode())
    ),
    "over a line break": lambda key: f"{key[:9]}\r\n{key[9:]}",
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(
    "before", ["", "a ", "%", "\\", "100%", "&#", "\\u00", "s", "sk-A", "{key}"]
)
def test_a_key_is_found_in_every_form_behind_anything(
    key: str, form: Callable[[str], str], before: str
) -> None:
    hidden = form(key)
    for behind in ("", " z", "\\", hidden):
        said = Secrets([key]).clean(before.format(key=key) + hidden + behind)
        assert REDACTED in said
        # What is left of a Base64 form has no more than some bits of a character at its ends.
        assert not shared(said.replace(REDACTED, "\0"), hidden, 14)
        assert key not in said


def shared(text: str, hidden: str, length: int) -> bool:
    """True if a text has a part of this length in common with a hidden text."""
    return any(hidden[at : at + length] in text for at in range(len(hidden) - length + 1))


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("size", [1, 2, 7, 10_000])
def test_it_does_not_matter_where_a_stream_is_cut(
    key: str, form: Callable[[str], str], size: int
) -> None:
    secrets = Secrets([key])
    text = f"it said {form(key)}{key} and {form(key)}"
    stream = RedactedStream(secrets)
    told = [stream.feed(text[at : at + size]) for at in range(0, len(text), size)]
    assert "".join([*told, stream.end()]) == secrets.clean(text)
    redactor = Redactor(secrets)
    pieces = [redactor.take(Delta(text[at : at + size])) for at in range(0, len(text), size)]
    said = "".join(piece.text for piece in [*pieces, *redactor.rest()] if piece is not None)
    assert joined(said) == joined(secrets.clean(text))


def joined(text: str) -> str:
    """A text in which keys that follow one another count as one."""
    return text.replace(REDACTED * 3, REDACTED).replace(REDACTED * 2, REDACTED)


@given(st.text("sk-A0%\\u&;\r\n7b\u200b", max_size=60), st.lists(st.integers(0, 60), max_size=8))
def test_a_stream_says_what_the_whole_text_says(text: str, cuts: list[int]) -> None:
    secrets = Secrets(["sk-A0ssk-", "A0%7b&-sk", "ssk-A0sk"])
    stream, told, at = RedactedStream(secrets), [], 0
    for cut in [*sorted(cuts), len(text)]:
        told.append(stream.feed(text[at:cut]))
        at = max(at, cut)
    assert "".join([*told, stream.end()]) == secrets.clean(text)


@given(st.text())
def test_a_text_without_a_key_stays_as_it_is(text: str) -> None:
    assert Secrets([KEY, PLAIN]).clean(text) == text


@pytest.mark.parametrize("key", ["x", "sk-1234", "exist", ""])
def test_a_key_of_fewer_than_eight_characters_is_not_searched_for(key: str) -> None:
    assert len(key) < SHORTEST
    text = f"they exist {key} {key.encode().hex()}"
    assert Secrets([key]).clean(text) == text
    assert Failures("acme", {}, [key]).failure("server_error", text).message == text


def test_a_key_that_is_the_beginning_of_another_leaves_nothing_of_it() -> None:
    secrets = Secrets(["abcdefgh", "abcdefghijkl", "ghijklmnop"])
    assert secrets.clean("<abcdefghijklmnop>") == f"<{REDACTED}>"
    stream = RedactedStream(secrets)
    told = [stream.feed(character) for character in "<abcdefghijklmnop>"]
    assert "".join([*told, stream.end()]) == f"<{REDACTED}>"


def test_half_of_a_key_at_the_end_of_a_text_is_taken_out_and_less_is_not() -> None:
    secrets = Secrets([PLAIN])
    assert secrets.clean(f"it is {PLAIN[:20]}") == f"it is {REDACTED}"
    assert secrets.clean(f"it is {PLAIN[:10]}") == f"it is {PLAIN[:10]}"


def test_channels_are_texts_of_their_own() -> None:
    redactor = Redactor(Secrets([PLAIN]))
    told = [
        redactor.take(Delta(text, channel))
        for text, channel in [("a" + PLAIN[:9], ""), ("b", "reasoning"), (PLAIN[9:] + "c", "")]
    ]
    assert [piece and (piece.text, piece.channel) for piece in told] == [
        ("a", ""), ("b", "reasoning"), (f"{REDACTED}c", ""),
    ]  # fmt: skip
    assert list(redactor.rest()) == []


def test_a_piece_without_a_key_is_handed_on_as_the_object_that_it_is() -> None:
    redactor = Redactor(Secrets([PLAIN]))
    piece = Delta("nothing in here.")
    assert redactor.take(piece) is piece


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_plan_has_no_key_in_any_part(form: Callable[[str], str]) -> None:
    said = form(KEY)
    plan = Plan(
        (ToolCall(said, {"a": [{said: said}], "n": 1.0}, said), FinalAnswer({"x": (said, None)})),
        text=said,
        reasoning=said,
        provider={"impl": "acme", "items": [said]},
        model=said,
    )
    secrets = Secrets([KEY])
    cleaned = secrets.plan(plan)
    parts = json.dumps([cleaned.text, cleaned.model, cleaned.reasoning, cleaned.provider])
    call, answer = cleaned.actions
    assert isinstance(call, ToolCall)
    assert isinstance(answer, FinalAnswer)
    parts += json.dumps([call.tool, call.arguments, call.id, answer.output])
    assert parts.count(REDACTED) == 9
    assert not shared(parts.replace(REDACTED, "\0"), json.dumps(said)[1:-1], 14)
    assert call.arguments["n"] == 1.0


def test_a_plan_without_a_key_is_the_object_that_it_was() -> None:
    plan = Plan((ToolCall("add", {"a": "\n%41", "b": 2}, "call_1"),), provider={"items": [1]})
    assert Secrets([KEY]).plan(plan) is plan
    assert Secrets([]).plan(plan) is plan


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_failure_has_no_key_in_its_message_and_metadata(form: Callable[[str], str]) -> None:
    said = form(KEY)
    failure = Failures("acme", {}, [KEY]).failure(
        "server_error", f"no: {said}", text=said, request_id=said, more=[{said: (said,)}]
    )
    told = json.dumps([failure.message, failure.metadata])
    assert told.count(REDACTED) == 5
    assert not shared(told.replace(REDACTED, "\0"), said, 14)


HOSTILE = {
    **{character: character for character in string.punctuation + " \n\r0aZ\u20ac"},
    "beginnings": KEY[:5],
    "almost keys": KEY[:-1],
    "keys": KEY,
    "escapes": "\\u0073",
    "begun escapes": "\\u00",
    "percents": "%25",
    "entities": "&#x0",
    "backslashes and quotes": '\\\\"',
    "overlaps": "sksk-sk",
    "breaks": "s\n\n",
    "hidden": "s\u200bk\u200b\u200b-",
}


@pytest.mark.parametrize("part", HOSTILE.values(), ids=map(ascii, HOSTILE))
@pytest.mark.parametrize("size", [3, 1_000_000])
def test_twice_the_text_is_twice_the_work(part: str, size: int) -> None:
    secrets = Secrets([KEY, "sksksksksksksksk"])

    def read(text: str) -> None:
        stream = RedactedStream(secrets)
        for at in range(0, len(text), size):
            stream.feed(text[at : at + size])
        stream.end()
        secrets.clean(text)

    read(part)  # The automaton is made at the first key that begins.
    half, whole = (lines(partial(read, (part * length)[:length])) for length in (2_000, 4_000))
    assert whole <= 2.2 * half + 50
    assert whole <= 120 * 4_000

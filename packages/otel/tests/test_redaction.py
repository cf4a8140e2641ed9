"""Redaction: what looks like a secret is one, whatever is around it."""

from __future__ import annotations

import json
import string
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_kernel_otel import redacted
from agentic_kernel_otel.forms import REDACTED, _tokens
from agentic_kernel_otel.redaction import MOST_CONTENT, MOST_TEXT, Redaction
from integration.counting import lines

SECRETS = {
    "openai": ("sk-proj-abcdefghijklmnopqrst", "the key {} is refused"),
    "github": ("ghp_abcdefghijklmnopqrst0123", "{}"),
    "aws": ("AKIAIOSFODNN7EXAMPLE", "id={};"),
    "slack": ("xoxb-123456789012-abcdefgh", "({})"),
    "jwt": ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "token {} expired"),
    "bearer": ("abcdef.ghijkl-123", "Authorization: Bearer {}"),
    "basic": ("dXNlcjpwYXNz", "authorization: basic {}"),
    "header": ("zyxw-9876", "x-api-key: {}\n"),
    "environment": ("hunter2", "DB_PASSWORD={} ./run"),
    "query": ("hunter2", "/search?access_token={}&q=1"),
    "address": ("hunter2", "postgresql://ann:{}@localhost/db"),
    "json": ("hunter2", '{{"user": "ann", "password": "{}"}}'),
    "json in json": ("hunter2", '{{"body": "{{\\"client_secret\\":\\"{}\\",\\"a\\":1}}"}}'),
    "quoted": ("two words", "secret='{}'"),
    "escaped": ('a\\"b', '"passwd":"{}"'),
    "cut off": ("hunter2 and", '"password": "{} '),
    "key": ("MIIEvQ\nkqhkiG9w0", "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----"),
    "cut off key": ("MIIEvQIBADANBg", "-----BEGIN RSA PRIVATE KEY-----\n{}"),
}  # fmt: skip


@pytest.mark.parametrize(("secret", "around"), SECRETS.values(), ids=SECRETS)
def test_a_secret_is_taken_out_and_the_rest_stays(secret: str, around: str) -> None:
    text = f"before {around.format(secret)} after"
    said = redacted(text)
    assert secret not in said
    assert REDACTED in said
    assert said.startswith("before")


@pytest.mark.parametrize(
    "harmless",
    ["the token is spent", "a secretary", "input_tokens: 100", "max_tokens=5", "sk-1", "basic",
     "https://example.com/a?b=c", "The password is wrong."],
)  # fmt: skip
def test_what_is_no_secret_stays(harmless: str) -> None:
    assert redacted(harmless) == harmless


def test_a_value_is_redacted_by_its_name_at_any_depth() -> None:
    value = {
        "a": [{"api_key": 12345, "Authorization": ["x", "y"], "name": "ann"}],
        "sk-" + "k" * 20: 1,
    }
    copy = json.loads(Redaction().content(value))
    assert copy == {
        "a": [{"api_key": REDACTED, "Authorization": REDACTED, "name": "ann"}],
        REDACTED: 1,
    }


def test_a_secret_across_the_bound_is_cut_from_neither_end() -> None:
    secret = "sk-" + "k" * 40
    for most, cut in ((MOST_TEXT, Redaction().line), (MOST_CONTENT, Redaction().content)):
        for before in range(most - 45, most + 2):
            said = cut("." * before + " " + secret)
            assert "kkkk" not in said
            assert len(said) <= most


def test_a_redaction_of_your_own_takes_the_place_of_ours() -> None:
    redaction = Redaction(lambda text: text.replace("ann", "somebody"))
    assert redaction.line("ann said") == "somebody said"
    assert json.loads(redaction.content({"who": "ann"})) == {"who": "somebody"}


def test_a_redaction_that_fails_lets_nothing_through() -> None:
    def failing(text: str) -> str:
        raise RuntimeError(text)

    assert Redaction(failing).line("ann") == REDACTED
    assert Redaction(failing).content("ann") == REDACTED


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda parts: st.lists(parts) | st.dictionaries(st.text(), parts),
    max_leaves=10,
)


@settings(max_examples=50)
@given(values)
def test_every_value_becomes_text_of_one_kind(value: Any) -> None:
    text = Redaction().content(value)
    assert len(text) <= MOST_CONTENT
    text.encode()


@given(st.text())
def test_every_text_becomes_one_line(text: str) -> None:
    line = Redaction().line(text)
    assert line.isprintable()
    assert len(line) <= MOST_TEXT
    line.encode()


HOSTILE = {
    **{character: character for character in string.punctuation + " \n\t0aZ_\u20ac"},
    "names": "password",
    "names and slashes": "\\password",
    "names and blanks": "secret ",
    "names and dots": "secret.",
    "values": "token=",
    "quoted values": 'secret="',
    "escaped quotes": 'token=\\"',
    "schemes": "bearer ",
    "schemes in a row": "bearer basic",
    "addresses": "://a:",
    "addresses with at": "://a:b@",
    "keys": "sk-",
    "long keys": "sk-aaaaaaaaaaaaaaaaaaaaaaaa-",
    "web tokens": "eyJ-",
    "web tokens and dots": "eyJaaaaaaaaa.",
    "blocks": "-----BEGIN ",
    "private blocks": "-----BEGIN PRIVATE KEY-----",
    "quotes and slashes": "\\\"'",
    "hints and slashes": "key\\\\",
}


@pytest.mark.parametrize("part", HOSTILE.values(), ids=map(ascii, HOSTILE))
@pytest.mark.parametrize("before", ["", "password", 'secret: "', "token=\\", "https://", "bearer "])
def test_twice_the_text_is_twice_the_work(part: str, before: str) -> None:
    half, whole = (
        lines(partial(redacted, before + "secret " + (part * length)[:length]))
        for length in (4_000, 8_000)
    )
    assert whole <= 2.2 * half + 200
    assert whole <= 60 * 8_000


@given(st.text(string.punctuation + "keysecret \n", max_size=200))
def test_each_character_is_in_one_token(text: str) -> None:
    assert "".join(_tokens(text)) == text


def _shared() -> Any:
    part: Any = ["x" * 100]
    for _ in range(26):
        part = [part, part]
    return part


def _cyclic() -> Any:
    part: dict[str, Any] = {}
    part["again"] = [part] * 1_000
    return part


def _deep() -> Any:
    part: Any = "x"
    for _ in range(100_000):
        part = {"k": part}
    return part


ODD: dict[str, Callable[[], Any]] = {
    "shared": _shared,
    "cyclic": _cyclic,
    "deep": _deep,
    "wide": lambda: {f"key {n}" * 600: n for n in range(5_000)},
    "long": lambda: ["x" * 1_000_000] * 1_000,
    "secrets": lambda: ["sk-" + "k" * 12_000] * 100_000,
    "names": lambda: [{"password": 1}] * 100_000,
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_a_value_of_any_shape_takes_bounded_work(odd: Callable[[], Any]) -> None:
    looked: list[int] = []

    def redact(text: str) -> str:
        looked.append(len(text))
        return redacted(text)

    value, redaction = odd(), Redaction(redact)
    assert lines(lambda: redaction.content(value)) < 600_000
    assert sum(looked) < 60_000
    assert len(redaction.content(value)) <= MOST_CONTENT

"""Redaction: what is found, what is left alone, wherever it stands, in linear time."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_kernel import InvalidValue
from agentic_kernel_guard import Redactor, RedactorStream
from agentic_kernel_guard.firewall.redact.finding import SHORTEST, _found
from agentic_kernel_guard.firewall.redact.redactor import DEEPEST, TOO_DEEP
from agentic_kernel_guard.firewall.redact.stream import LONGEST

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAx7\nq2Zl9s\n-----END RSA PRIVATE KEY-----"
SECRETS = {
    "mail": "ann.lee+news@mail.example.co.uk",
    "mail of another script": "anna@münchen-büro.de",
    "card": "4111 1111 1111 1111",
    "card with dashes": "5500-0000-0000-0004",
    "card of 15 digits": "3782 822463 10005",
    "card without spaces": "6011111111111117",
    "phone": "+49 30 901820",
    "phone of the US": "(212) 555-0142",
    "phone in Germany": "030 / 90 18 20",
    "mobile": "0171 2345678",
    "iban": "DE89 3704 0044 0532 0130 00",
    "iban without spaces": "GB82WEST12345698765432",
    "US national id": "078-05-1120",
    "German tax id": "86 095 742 719",
    "German identity card": "L01X00T471",
    "OpenAI": "sk-proj-abcDEF123456ghiJKL7890",
    "Anthropic": "sk-ant-api03-abcDEF123456ghiJKL7890",
    "AWS": "AKIAIOSFODNN7EXAMPLE",
    "GitHub": "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "Google": "AIzaSyA1234567890abcdefghijklmnopqrstuv",
    "Slack": "xoxb-123456789012-abcdefABCDEF",
    "Stripe": "sk_live_abcdef1234567890",
    "token": JWT,
    "private key": PEM,
    "password in an address": "postgresql://app:hunter2secret@db.example/app",
}
"""By what it is: a secret, as it stands in a text."""
PLAIN = (
    "The order has 12 items for 345.60 in total, due 2026-11-24 10:30:00.",
    "version 1.2.3 of 4.5.6 at 127.0.0.1:8080",
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "550e8400-e29b-41d4-a716-446655440000",
    "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13",
    "3.14159265358979",
    "1700000000000",
    "It is a bearer of good news, and an author; authorization is needed.",
    "DE is a country, and so is GB.",
    "",
)


def text_of(secret: str) -> list[str]:
    """The parts of a secret that must not be left; of an address only its password."""
    if "://" in secret:
        return ["hunter2secret"]
    return secret.split() if "-----" in secret else [secret]


def left(secret: str, shown: str) -> list[str]:
    """The parts of a secret that are left in a text."""
    words = {"-----BEGIN", "RSA", "PRIVATE", "KEY-----", "-----END"}
    return [part for part in text_of(secret) if part not in words and part in shown]


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_a_secret_is_replaced_alone_in_a_sentence_and_at_borders(secret: str) -> None:
    for text in (secret, f"see {secret}, please", f'"{secret}"', f"a={secret};b", f"<{secret}>\n"):
        shown, count = Redactor().text(text)
        assert left(secret, shown) == [], text
        assert count >= 1


@pytest.mark.parametrize("text", PLAIN)
def test_what_is_no_secret_is_left_alone(text: str) -> None:
    assert Redactor().text(text) == (text, 0)


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_a_secret_is_replaced_in_every_kind_of_value(secret: str) -> None:
    values: list[Any] = [
        {secret: 1}, {"note": secret}, [secret], (secret,), {secret}, frozenset({secret}),
        secret.encode(), {"a": [{"b": (secret,)}]}, {(secret, 1): 1}, {secret.encode(): 1},
        json.dumps({"a": secret}), json.dumps(json.dumps([secret])),
        "line\n" + json.dumps({"deep": [secret]}) + "\nline",
    ]  # fmt: skip
    for value in values:
        shown, count = Redactor().value(value)
        assert left(secret, repr(shown)) == [], value
        assert count >= 1


@pytest.mark.parametrize("sign", ["\u200b", "\u200d", "\ufeff", "\u00ad", "\u2060", "\u202e"])
@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_invisible_characters_hide_no_secret(secret: str, sign: str) -> None:
    if "-----" in secret:
        return  # A reader of keys does not accept one with such characters.
    middle = len(secret) - 3
    for text in (secret[:middle] + sign + secret[middle:], sign.join(secret)):
        shown, _ = Redactor().text(f"see {text} there")
        assert left(secret, shown.replace(sign, "")) == [], ascii(text)


def test_digits_of_other_scripts_are_digits() -> None:
    wide = "4111 1111 1111 1111".translate({48 + n: 0xFF10 + n for n in range(10)})
    assert Redactor().text(f"card {wide}!") == ("card [card]!", 1)


def test_fields_are_hidden_at_any_depth_whatever_their_case() -> None:
    redactor = Redactor().hiding(["customerNumber"])
    value = {"a": [{"Customer_Number": 7, "PASSWORD": ["x"], "api-key": None, "name": "Ann"}]}
    hidden = "[hidden]"
    assert redactor.value(value) == (
        {"a": [{"Customer_Number": hidden, "PASSWORD": hidden, "api-key": hidden, "name": "Ann"}]},
        3,
    )


def test_two_keys_that_become_one_marker_are_both_there() -> None:
    shown, _ = Redactor().value({"ann@example.com": 1, "bob@example.com": 2})
    assert shown == {"[mail]": 1, "[mail] (2)": 2}


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_a_stream_shows_no_secret_however_it_is_cut(secret: str) -> None:
    text = f"{'so it begins, ' * 60}the secret is {secret} and that is all. {'the end ' * 200}"
    whole, _ = Redactor().text(text)
    for seed in range(8):
        chance, at, shown, stream = random.Random(seed), 0, "", RedactorStream()
        while at < len(text):
            size = chance.choice((1, 2, 5, 40, 700))
            shown += stream.feed(text[at : at + size])[0]
            at += size
        shown += stream.end()[0]
        assert left(secret, shown) == []
        assert shown == whole


def test_a_stream_keeps_no_more_than_its_limit() -> None:
    stream = RedactorStream()
    shown = "".join(stream.feed("x" * 10_000)[0] for _ in range(50)) + stream.feed(" end")[0]
    shown += stream.end()[0]
    assert "[too long]" in shown
    assert len(shown) < LONGEST
    assert shown.endswith(" end")


@given(st.text(max_size=60), st.text(max_size=60), st.sampled_from(sorted(SECRETS)))
def test_any_text_around_a_secret_that_is_set_apart_leaves_it_replaced(
    before: str, after: str, name: str
) -> None:
    shown, _ = Redactor().text(f"{before}\n\n| {SECRETS[name]} |\n\n{after}")
    assert [part for part in left(SECRETS[name], shown) if part not in before + after] == []


PIECES = (
    "4", "4 ", "1-", "a@", "@", "a.", "sk-", "eyJ.", "-----BEGIN RSA PRIVATE KEY-----", "DE89 ",
    "{", '"', "[", "[1", '{"a":', "+1 ", "\u200b", "://a:", "bearer ", "0", "\\u00e4", "\n[1]",
    "%40",
)  # fmt: skip


@pytest.mark.parametrize("piece", PIECES)
def test_twice_the_text_takes_twice_the_work(piece: str) -> None:
    """Counted by the calls of functions, in Python and in C."""
    once, twice = (work(piece * (size // len(piece))) for size in (20_000, 40_000))
    assert twice <= 2.2 * once + 2_000


def work(text: str) -> int:
    """The calls that the redaction of a text makes."""
    count = 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    redactor = Redactor()
    sys.setprofile(counted)
    try:
        redactor.text(text)
    finally:
        sys.setprofile(None)
    return count


SIGNS = st.text(st.sampled_from("a@:/.%40-+bd1 0"), max_size=SHORTEST - 1)


@given(SIGNS | st.text(max_size=SHORTEST - 1), st.integers(-999_999, 999_999))
def test_no_pattern_finds_anything_in_what_is_not_looked_at(text: str, number: int) -> None:
    assert not list(_found(text.encode("latin-1", "replace")))
    assert not list(_found(str(number).encode()))


def test_the_shortest_secrets_are_found() -> None:
    assert Redactor().text("a@b.de") == ("[mail]", 1)
    assert Redactor().value(-4_915_112_345_678)[1] == Redactor().text("-4915112345678")[1]


PERSON = "a@b.de, +49 30 901820, DE89 3704 0044 0532 0130 00, 4111 1111 1111 1111"


def test_kinds_that_are_shown_are_left_alone_and_secrets_never_are() -> None:
    shown = Redactor(shows=["mail", "iban"]).hiding(["name"])
    said, count = shown.text(PERSON + f", {SECRETS['AWS']}")
    assert said == "a@b.de, [phone], DE89 3704 0044 0532 0130 00, [card], [key]"
    assert count == 3
    assert shown.value({"name": "Ann", "mail": "a@b.de"})[0] == {
        "name": "[hidden]",
        "mail": "a@b.de",
    }
    stream = Redactor(shows=["mail"]).stream()
    assert stream.feed(PERSON)[0] + stream.end()[0] == Redactor(shows=["mail"]).text(PERSON)[0]
    # Digits of another kind beside a shown number, or as a mail's name, are not shown with it.
    assert shown.text("4111111111111111@b.de")[0] == "[card]@b.de"
    # A password in an address is a secret, whatever stands around it.
    assert "hunter2" not in Redactor(shows=["mail"]).text("mongodb://a:hunter2@db.example/x")[0]


@pytest.mark.parametrize("kind", ["key", "token", "password", "private key", "Mail", ""])
def test_only_personal_data_can_be_shown(kind: str) -> None:
    with pytest.raises(InvalidValue, match="shows"):
        Redactor(shows=[kind])


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (r'log {"a":"line one\nBearer abcdefgh1234"} end', "abcdefgh1234"),
        (r"a\t123-45-6789 b", "123-45-6789"),
        (r'["a","b\\nAKIAIOSFODNN7EXAMPLE", ', "AKIAIOSFODNN7EXAMPLE"),
        (r'log "postgresql:\/\/u:s3cr3tpw@h\/db', "s3cr3tpw"),
        (r"x postgres://u:pa\nss@h/db", r"pa\nss"),
        (r"\x34111 1111 1111 1111", "1111 1111"),
        ("4111%201111%201111%201111", "1111%20"),
        ("DE89%203704%200044%200532%200130%2000", "3704"),
        ("%2B49%20170%201234567", "1234567"),
        ("Bearer%20abcdefgh1234", "abcdefgh1234"),
        ("postgresql%3A%2F%2Fu%3As3cr3tpw%40h%2Fdb", "s3cr3tpw"),
    ],
)
def test_an_escape_counts_as_its_character_and_as_it_stands(text: str, secret: str) -> None:
    said, count = Redactor().text(text)
    assert secret not in said
    assert count > 0


@pytest.mark.parametrize(
    "text",
    [
        'x {"password":"hunter2secret", "b":',
        "{'password': 'hunter2secret'}",
        'data: {"api_key":"hunter2secret"}\n\ndata: [DONE]',
        '{"a":1} {"api_key":"hunter2secret"}',
        r'prefix "{\"api_key\":\"x\\\"hunter2secret\"}"',
        'log:\n{\n "password":"hunter2secret"\n}\nend',
        '```json\n{\n "password":"hunter2secret"\n}\n```',
        r'x {"p\u0061ssword":"hunter2secret"} y',
        'x {"password":[1,{"a":"b}"}, "hunter2secret"], "c": 1} y',
        'x {"userPassword":"hunter2secret"} y',
        r'x "password":"a\"hunter2secret" y',
        "x {'iban_of': 'hunter2secret'}",
        "X-Api-Key: hunter2secret",
        "Set-Cookie: session=hunter2secret; Path=/",
        "https://h/?api_key=hunter2secret&x=1",
    ],
)
def test_the_value_of_a_field_is_hidden_in_a_text_that_is_json_in_part(text: str) -> None:
    said, count = Redactor().hiding(["iban_of"]).text(text)
    assert "hunter2secret" not in said
    assert count == 1


class Row(NamedTuple):
    user: str
    password: str


@pytest.mark.parametrize(
    "value",
    [
        {b"password": "hunter2secret"},
        {("a", "password"): "hunter2secret"},
        Row("u", "hunter2secret"),
        {"X-Api-Key": "hunter2secret"},
        {"x.password": "hunter2secret"},
        {"db_password": "hunter2secret"},
        {"token": "hunter2secret"},
    ],
)
def test_a_field_is_known_by_keys_of_other_types_and_by_the_end_of_its_name(value: Any) -> None:
    assert "hunter2secret" not in repr(Redactor().value(value)[0])


def test_a_card_that_is_a_number_with_a_point_is_found() -> None:
    assert Redactor().value(4111111111111111.0) == ("[card].0", 1)
    assert Redactor().value(1700000000.5) == (1700000000.5, 0)


@pytest.mark.parametrize(
    "text",
    ['{"next_page_token":"abc","max_tokens":7}', "Password: must be long", '"password":""'],
)
def test_what_only_looks_like_a_secret_field_is_shown(text: str) -> None:
    assert Redactor().text(text) == (text, 0)


@pytest.mark.parametrize(
    "inside", [lambda part: {"a": part}, lambda part: [part]], ids=["dict", "list"]
)
def test_what_lies_too_deep_is_replaced(inside: Callable[[Any], Any]) -> None:
    value: Any = "a@example.com"
    for _ in range(DEEPEST + 1):
        value = inside(value)
    made, count = Redactor().value(value)
    for _ in range(DEEPEST):
        (made,) = made.values() if isinstance(made, dict) else made
    assert (made, count) == (TOO_DEEP, 1)

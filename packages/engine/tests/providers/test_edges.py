"""Edges: what no client can be made of is refused by name, and never repeated."""

from __future__ import annotations

import math
from typing import Any

import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_engine.providers.edges import (
    LONGEST_ADDRESS,
    LONGEST_KEY,
    check_address,
    check_key,
    check_seconds,
)


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (5, "must be a string, not int"),
        (b"sk-0123456789", "must be a string, not bytes"),
        (True, "must be a string, not bool"),
        ("", "is empty"),
        (" ", "without spaces"),
        ("sk 0123456789", "without spaces"),
        ("sk-0123456789\n", "printable ASCII"),
        ("sk-0123456789\r\nX-Injected: yes", "printable ASCII"),
        ("sk-0123456789\0", "printable ASCII without spaces"),
        ("sk-öäü-0123456789", "printable ASCII"),
        ("sk-\ud800", "printable ASCII"),
        ("k" * (LONGEST_KEY + 1), r"16,385 characters, and the limit is 16,384"),
    ],
)
def test_what_is_no_key_is_refused_and_not_repeated(key: Any, why: str) -> None:
    with pytest.raises(InvalidValue, match=rf"api_key.*{why}") as refused:
        check_key(key)
    assert "0123456789" not in str(refused.value)


@pytest.mark.parametrize(
    ("address", "why"),
    [
        (5, "must be a string, not int"),
        ("", "must begin with https:// or http://"),
        ("ftp://example.com", "must begin with"),
        ("file:///etc/passwd", "must begin with"),
        ("javascript:alert(1)", "must begin with"),
        ("example.com/v1", "must begin with"),
        ("http://", "names no host"),
        ("http:///v1", "names no host"),
        ("http://[::1", "is not a valid address"),
        ("http://[zz]/", "is not a valid address"),
        ("http://a:b:c/", "is not a valid address"),
        ("http://localhost:99999", "is not a valid address"),
        ("http://localhost:0", "names no host and port"),
        ("http://ann:hunter2hunter2@localhost", "credentials.*api_key="),
        ("http://ann@localhost", "credentials"),
        ("http://local host", "spaces"),
        ("http://localhost\n", "line breaks"),
        ("http://localhost\0", "control characters"),
        ("http://a..b/", "invalid host"),
        ("http://" + "a" * 64 + ".com/", "invalid host"),
        ("http://localhost/?key=hunter2hunter2", "query"),
        ("http://localhost/#top", "fragment"),
        ("http://localhost/" + "a" * LONGEST_ADDRESS, r"4,113 characters.*4,096"),
    ],
)
def test_what_is_no_address_is_refused_and_not_repeated(address: Any, why: str) -> None:
    with pytest.raises(InvalidValue, match=rf"base_url.*{why}") as refused:
        check_address(address)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "address",
    [
        "https://api.example.com/v1", "http://127.0.0.1:8080", "http://[::1]:8080/v1",
        "http://localhost:11434/", "https://müller.example/v1",
    ],
)  # fmt: skip
def test_an_address_is_taken(address: str) -> None:
    check_address(address)


@pytest.mark.parametrize(
    "seconds", [0, -1, -0.5, math.nan, math.inf, -math.inf, True, "5", None, 10**400, 1j, 1e9]
)
def test_what_is_no_time_is_refused(seconds: Any) -> None:
    with pytest.raises(InvalidValue, match=r"timeout.*seconds"):
        check_seconds(seconds)


def test_a_time_that_has_too_many_digits_to_be_shown_is_refused() -> None:
    for seconds in (10**5000, -(10**5000)):
        with pytest.raises(InvalidValue, match=r"timeout.*seconds"):
            check_seconds(seconds)

"""Tokens that do not hold are refused, each for its reason."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import msgspec
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from agentic_kernel import InvalidValue
from agentic_kernel_guard import CapabilityRequest, GuardError, HandleRefused, Narrower
from agentic_kernel_guard.canonical import canonical, digest
from agentic_kernel_guard.tokens import Claims, Key, Keyring, TokenRefused, mint, opened

from .guards import ANN, World
from .guards import KEYS as WORLD_KEYS

OLD, NEW = Key("old", bytes(range(32))), Key("new", bytes(range(32, 64)))
KEYS = Keyring([NEW, OLD])
NOW = 1_700_000_000_000
CLAIMS = Claims(
    iss="us", aud="guard", sub="ann", ten="acme", cap="mail/send", op="send", dig="ab", pat=(),
    con={"max_rows": 5}, tsk="", key="", iat=NOW, nbf=NOW, exp=NOW + 1_000, jti="t1", uses=1,
    par=(), why="", agt="", lab={},
)  # fmt: skip


def refusal(token: Any, keys: Keyring = KEYS, now: int = NOW) -> str:
    with pytest.raises(TokenRefused) as refused:
        opened(token, keys, now)
    return refused.value.code.removeprefix("guard/token_")


def test_a_token_holds_what_was_signed() -> None:
    assert opened(mint(CLAIMS, KEYS), KEYS, NOW) == CLAIMS


def test_each_character_of_a_token_is_signed() -> None:
    token = mint(CLAIMS, KEYS)
    for index, character in enumerate(token):
        changed = token[:index] + ("B" if character != "B" else "C") + token[index + 1 :]
        assert refusal(changed) in ("forged", "malformed"), index


def test_each_claim_is_signed() -> None:
    version, key, body, mac = mint(CLAIMS, KEYS).split(".")
    claims = msgspec.json.decode(urlsafe_b64decode(body + "=="))
    for name in claims:
        other = urlsafe_b64encode(rfc8785.dumps({**claims, name: "other"})).rstrip(b"=").decode()
        assert refusal(f"{version}.{key}.{other}.{mac}") == "forged"


@pytest.mark.parametrize(
    "token",
    [None, b"bytes", 7, "", "ak1", "....", "ak1.new.e30.", "ak1.new.\xe9.x", "ak1.new.e30.\ud800",
     "none.new.e30.AA", "ak1" + "." * 20_000],
)  # fmt: skip
def test_what_is_no_token_is_refused(token: Any) -> None:
    assert refusal(token) in ("malformed", "forged")


def test_a_signed_text_that_is_no_claims_is_refused() -> None:
    for body in (b"{}", b"[" * 5_000, b"\xff", b'{"iss":1}'):
        signed = b"ak1.new." + urlsafe_b64encode(body).rstrip(b"=")
        mac = KEYS.mac("new", b"agentic-kernel-guard/token/1\0" + signed)
        assert mac is not None
        token = signed + b"." + urlsafe_b64encode(mac).rstrip(b"=")
        assert refusal(token.decode()) == "malformed"


def test_the_signature_is_looked_at_before_the_time() -> None:
    token = mint(CLAIMS, KEYS)
    assert refusal(token, now=NOW - 1) == "early"
    assert refusal(token, now=NOW + 1_000) == "expired"
    assert refusal(token[:-2] + "AA", now=NOW + 1_000) == "forged"


def test_keys_rotate_and_a_retired_key_signs_nothing() -> None:
    before = mint(CLAIMS, Keyring([OLD]))
    assert opened(before, KEYS, NOW) == CLAIMS
    assert refusal(before, Keyring([NEW])) == "forged"
    assert mint(CLAIMS, KEYS).split(".")[1] == "new"


@pytest.mark.parametrize("secret", [b"", b"x", bytes(32), b"ab" * 32, "x" * 32, None])
def test_a_weak_key_is_refused_at_the_start(secret: Any) -> None:
    with pytest.raises(InvalidValue, match=r"key\.secret"):
        Key("a", secret)
    assert "\\x01" not in repr(OLD)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False,
    allow_infinity=False) | st.text(st.characters(exclude_characters="\0", codec="utf-8")),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(st.characters(exclude_characters="\0", codec="utf-8")), inner),
    max_leaves=10,
)  # fmt: skip


@given(VALUES)
def test_canonical_bytes_are_those_of_the_standard(value: Any) -> None:
    assert canonical(value) == rfc8785.dumps(value)


@pytest.mark.parametrize(
    "value", [float("nan"), 2**53, {"a": 2**60}, "\ud800", "\0", {1: 2}, b"a", object()]
)
def test_what_has_no_canonical_form_is_refused(value: Any) -> None:
    with pytest.raises(InvalidValue):
        digest(value)


class Unasked:
    """A store that must not be asked."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was asked about a token that does not hold")


@pytest.mark.parametrize("wrong", ["forged", "expired", "early", "audience", "malformed"])
async def test_a_token_that_does_not_hold_asks_the_store_nothing(wrong: str) -> None:
    world = World()
    token = await world.guard.grant_capability(CapabilityRequest("crm/find", {"id": 1}), ANN)
    claims = opened(token, WORLD_KEYS, int(world.now * 1_000))
    if wrong == "forged":
        token = token[:-2] + ("AA" if token[-2:] != "AA" else "BB")
    elif wrong == "audience":
        token = mint(msgspec.structs.replace(claims, aud="other"), WORLD_KEYS)
    elif wrong == "early":
        token = mint(msgspec.structs.replace(claims, nbf=claims.exp), WORLD_KEYS)
    elif wrong == "expired":
        world.now += 10_000
    else:
        token = "ak1.k1.e30"
    world.guard.store = Unasked()  # type: ignore[misc]
    for use in (
        lambda: world.guard.invoke(token, ANN, {"id": 1}),
        lambda: world.guard.revoke(token),
        lambda: world.guard.attenuate(token, Narrower()),
    ):
        with pytest.raises(TokenRefused) as refused:
            await use()
        assert refused.value.code == f"guard/token_{wrong}"


async def test_the_checks_of_a_token_come_in_their_order() -> None:
    world, arguments = World(), {"id": 1}
    good = await world.guard.grant_capability(CapabilityRequest("crm/find", arguments), ANN)
    right = msgspec.structs.asdict(opened(good, WORLD_KEYS, int(world.now * 1_000)))
    wrong = right | {
        "exp": right["nbf"] + 1, "aud": "x", "sub": "x", "ten": "x", "cap": "x", "op": "x",
        "dig": "x",
    }  # fmt: skip
    world.now += 1

    async def code(token: str) -> str:
        with pytest.raises(GuardError) as refused:
            await world.guard.invoke(token, ANN, arguments)
        return refused.value.code.removeprefix("guard/").removeprefix("token_")

    token = mint(Claims(**wrong), WORLD_KEYS)
    assert await code(f"{token[:-2]}AA") == "forged"
    # Each time, one claim more is right.
    for claim, refused in (
        ("exp", "expired"), ("aud", "audience"), ("sub", "principal"), ("ten", "principal"),
        ("cap", "unknown_capability"), ("op", "operation"), ("dig", "arguments"),
    ):  # fmt: skip
        assert await code(mint(Claims(**wrong), WORLD_KEYS)) == refused
        wrong[claim] = right[claim]
    await world.guard.invoke(mint(Claims(**wrong), WORLD_KEYS), ANN, arguments)
    assert await code(good) == "used_up"
    await world.guard.revoke(good)
    assert await code(good) == "revoked"


@pytest.mark.parametrize("token", [None, 7, b"x", {}, [], "x" * 10**6, "\ud800", "ak1.k1..", "\0"])
async def test_what_is_no_token_is_refused_by_each_method_in_the_same_way(token: Any) -> None:
    guard = World().guard
    for use in (
        lambda: guard.invoke(token, ANN, {"id": 1}),
        lambda: guard.revoke(token),
        lambda: guard.attenuate(token, Narrower()),
    ):
        with pytest.raises(TokenRefused):
            await use()
    with pytest.raises(HandleRefused):
        await guard.expand(token, ANN)

"""Token: claims in canonical JSON under an HMAC, ``ak1.<key id>.<claims>.<mac>``.

The order of the checks: size, MAC, form of the claims, time. What the claims say is looked at last,
because nothing of it counts before the MAC holds.
"""

from __future__ import annotations

import binascii
import hmac
from typing import Final

import msgspec

from agentic_kernel_engine.edges import instance, whole

from ..canonical import canonical
from ..errors import GuardError
from ..ids import url_base64
from .claims import Claims
from .keyring import Keyring

VERSION: Final = "ak1"
LONGEST: Final = 16_384
"""The most characters of a token."""
_DOMAIN: Final = b"agentic-kernel-guard/token/1\0"
_STANDARD: Final = bytes.maketrans(b"-_", b"+/")
"""From the letters of URLs to those that `binascii` reads."""
_claims: Final = msgspec.json.Decoder(Claims)

REFUSED: Final = {
    "other": "the key was used for another action; use a new key",
    "revoked": "the token or a parent of it was revoked; ask for a new grant",
    "used_up": "the token or a parent of it has no uses left; ask for a new grant",
    "limited": "a rate limit is used up; try again later",
}
"""Why an action of a token is not begun, by what the store has found."""


class TokenRefused(GuardError):
    """A token is not accepted. The code says why, after ``guard/token_``."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"guard/token_{code}", message)


def mint(claims: Claims, keys: Keyring) -> str:
    """The token of some claims, signed by the first key.

    Raises:
        TokenRefused: It is longer than `LONGEST`.
        InvalidValue: A claim has no canonical form.
    """
    body = url_base64(canonical(claims.as_json(), "claims"))
    signed = b".".join((VERSION.encode(), keys.signing.encode(), body))
    mac = keys.mac(keys.signing, _DOMAIN + signed)
    assert mac is not None, "a keyring has its signing key"
    token = (signed + b"." + url_base64(mac)).decode()
    if len(token) > LONGEST:
        raise TokenRefused(
            "too_long", f"the token has {len(token):,} characters; shorten what it grants"
        )
    return token


def opened(token: object, keys: Keyring, now: int) -> Claims:
    """The claims of a token whose MAC holds and whose time it is.

    Args:
        now: Milliseconds since 1970.

    Raises:
        TokenRefused: It does not hold; whose it is and what it grants was not looked at.
    """
    instance(keys, "keys", Keyring)
    whole(now, "now", 0)
    if not isinstance(token, str) or len(token) > LONGEST or not token.isascii():
        raise TokenRefused("malformed", f"a token is a text of up to {LONGEST:,} ASCII characters")
    signed, _, given = token.encode().rpartition(b".")
    parts = signed.split(b".")
    if len(parts) != 3 or parts[0] != VERSION.encode():
        raise TokenRefused("malformed", f"the token is not of the form {VERSION}.key.claims.mac")
    mac = keys.mac(parts[1].decode(), _DOMAIN + signed)
    if not hmac.compare_digest(url_base64(mac or bytes(32)), given) or mac is None:
        raise TokenRefused("forged", "no live key signed the token; ask for a new grant")
    try:
        claims = _claims.decode(binascii.a2b_base64(parts[2].translate(_STANDARD) + b"=="))
    except (binascii.Error, msgspec.MsgspecError, ValueError, RecursionError):
        raise TokenRefused("malformed", "the token's claims do not parse") from None
    if now < claims.nbf:
        raise TokenRefused("early", "the token does not hold yet; use it later")
    if now >= claims.exp:
        raise TokenRefused("expired", "the token has expired; ask for a new grant")
    return claims

"""Patterns: what keys, tokens, mail addresses and numbers with letters look like."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import re2

# RE2 reads a text once. Each pattern ends at a character that cannot belong to what it finds, so
# that finding all of them takes linear time, too.

LEFT: Final = rb"(?:\b|_|%[0-9A-Fa-f]{2}|\\[nrtbf]|\\u[0-9A-Fa-f]{4})"
"""The place before a key: no letter, or the end of an escape, as in ``%3Dsk-``."""

_IBANS: Final = {
    "AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22,
    "BI": 27, "BR": 29, "BY": 28, "CH": 21, "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DJ": 27,
    "DK": 18, "DO": 28, "EE": 20, "EG": 29, "ES": 24, "FI": 18, "FK": 18, "FO": 18, "FR": 27,
    "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28, "HN": 28, "HR": 21, "HU": 28,
    "IE": 22, "IL": 23, "IQ": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28,
    "LC": 32, "LI": 21, "LT": 20, "LU": 20, "LV": 21, "LY": 25, "MC": 27, "MD": 24, "ME": 22,
    "MK": 19, "MN": 20, "MR": 27, "MT": 31, "MU": 30, "NI": 28, "NL": 18, "NO": 15, "OM": 23,
    "PK": 24, "PL": 28, "PS": 29, "PT": 25, "QA": 29, "RO": 24, "RS": 22, "RU": 33, "SA": 24,
    "SC": 31, "SD": 18, "SE": 24, "SI": 19, "SK": 24, "SM": 27, "SO": 23, "ST": 25, "SV": 28,
    "TL": 23, "TN": 24, "TR": 26, "UA": 29, "VA": 22, "VG": 24, "XK": 20, "YE": 30,
}  # fmt: skip
"""The length of the IBAN of each country (the registry of SWIFT)."""
_PAIR: Final = re.compile(rb"[ \t-]?[A-Za-z0-9]")
_KEYS: Final = (
    rb"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}",  # AWS
    rb"gh[pousr]_[A-Za-z0-9]{20,}", rb"github_pat_[A-Za-z0-9_]{20,}", rb"gl[a-z]{2,6}-[\w-]{20,}",
    rb"AIza[\w-]{30,}", rb"ya29\.[\w-]{20,}", rb"GOCSPX-[\w-]{20,}", rb"1//0[\w-]{30,}",  # Google
    rb"xox[a-z]-[A-Za-z0-9-]{10,}", rb"xapp-[A-Za-z0-9-]{20,}",  # Slack
    rb"hooks\.slack\.com/(?:services|workflows)/[\w/]{20,}",
    rb"(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,}", rb"whsec_[\w+/=-]{16,}",  # Stripe
    rb"npm_[A-Za-z0-9]{30,}", rb"pypi-[\w-]{20,}", rb"dckr_[a-z]{3}_[\w-]{20,}",
    rb"hf_[A-Za-z0-9]{20,}", rb"gsk_[A-Za-z0-9]{20,}", rb"xai-[A-Za-z0-9]{20,}",
    rb"pplx-[A-Za-z0-9]{20,}", rb"r8_[A-Za-z0-9]{30,}", rb"lsv2_[\w]{30,}",
    rb"SG\.[\w-]{16,}\.[\w-]{16,}", rb"key-[0-9a-f]{32}",  # SendGrid, Mailgun
    rb"(?:SK|AC)[0-9a-f]{32}", rb"[0-9]{8,10}:AA[\w-]{30,}",  # Twilio, Telegram
    rb"do[oprt]_v1_[0-9a-f]{64}", rb"dapi[0-9a-f]{32}", rb"shp[a-z]{2}_[0-9a-fA-F]{32}",
    rb"hv[sbr]\.[\w-]{20,}", rb"lin_(?:api|oauth)_[A-Za-z0-9]{20,}", rb"ntn_[A-Za-z0-9]{30,}",
    rb"EAA[A-Za-z0-9]{60,}", rb"sq0[a-z]{3}-[\w-]{20,}", rb"PMAK-[0-9a-f-]{30,}",
    rb"AccountKey=[\w+/=]{40,}", rb"(?i:aws_?secret_?access_?key)\W{1,5}[\w+/=]{30,}",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pattern:
    """One pattern, and the check of what it found."""

    kind: str
    compiled: Any
    group: int = 0
    """The part that is replaced."""
    check: Callable[[bytes], bool] | None = None


def _compiled(pattern: bytes) -> Any:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    return re2.compile(pattern, options)


def _random(found: bytes) -> bool:
    """True for what is no word: it has a digit, or is long."""
    return len(found) >= 32 or any(48 <= byte < 58 for byte in found)


def _insured(found: bytes) -> bool:
    """True if the check digit of a German insurance number is right."""
    text = "".join(chr(byte) for byte in found if chr(byte).isalnum()).upper()
    digits = f"{text[:8]}{ord(text[8]) - 64:02}{text[9:]}"
    weights = (2, 1, 2, 5, 7, 1, 2, 1, 2, 1, 2, 1)
    total = sum(
        sum(divmod(int(digit) * weight, 10))
        for digit, weight in zip(digits[:12], weights, strict=True)
    )
    return total % 10 == int(digits[12])


def _identity(found: bytes) -> bool:
    """True if the check digit of a German identity card is right (ICAO 9303)."""
    values = [int(chr(byte), 36) for byte in found]
    total = sum(value * (7, 3, 1)[at % 3] for at, value in enumerate(values[:9]))
    return total % 10 == values[9] and any(48 <= byte < 58 for byte in found[:9])


_NAMES: Final = (
    rb"(?i)(?:password|passwd|passphrase|(?:api|secret|access|private)[ _-]?key|client[ _-]?secret"
    rb"|(?:api|access|refresh|auth|session)[ _-]?token)"
)
"""Names before a value without quotes, e.g. in ``api_key=...``."""
_WORD: Final = rb"""([^\s"',;&<>\\]{4,})"""

PATTERNS: Final = (
    Pattern("key", _compiled(LEFT + rb"(" + rb"|".join(_KEYS) + rb")"), 1),
    Pattern("key", _compiled(LEFT + rb"(sk-[\w-]{16,})"), 1, _random),
    Pattern("token", _compiled(LEFT + rb"(eyJ[\w-]{5,}\.[\w-]{5,}(?:\.[\w-]*){0,3})"), 1),
    Pattern("token", _compiled(rb"(?i)\bbearer[\s:=]{1,4}([\w.~+/=-]{8,})"), 1, _random),
    Pattern(
        "token",
        _compiled(
            rb"""(?i)\bauthorization["'\\]{0,3}\s{0,3}[:=]\s{0,3}["'\\]{0,3}"""
            rb"""(?:[a-z]{1,20}\s{1,3})?([^\s"',;\\]{4,})"""
        ),
        1,
    ),
    Pattern("token", _compiled(rb"""(?i)\bcookie\s{0,3}:\s{0,3}([^\r\n"]{4,})"""), 1),
    Pattern("password", _compiled(_NAMES + rb"""\s{0,3}=\s{0,3}["'\\]{0,3}""" + _WORD), 1),
    Pattern("password", _compiled(_NAMES + rb"""\s{0,3}:\s{0,3}""" + _WORD), 1, _random),
    Pattern(
        "password",
        _compiled(rb"""[A-Za-z][A-Za-z0-9+.-]{1,30}://[^\s/:@"'<>]{0,200}:([^\s/@"'<>]{1,500})@"""),
        1,
    ),
    Pattern(
        "mail",
        _compiled(
            rb"[A-Za-z0-9\xff._%+'-]*[A-Za-z0-9\xff_+-](?:@|%40)"
            rb"(?:[A-Za-z0-9\xff-]+\.)+[A-Za-z\xff]{2,}"
        ),
    ),
    Pattern(
        "national id",
        _compiled(rb"(?i)\b[0-9]{2} ?[0-9]{6} ?[A-Z] ?[0-9]{3}\b"),
        0,
        _insured,
    ),
    Pattern("national id", _compiled(rb"\b[CFGHJKLMNPRTVWXYZ][CFGHJK-NPRTV-Z0-9]{8}[0-9]\b"), 0,
            _identity),
    Pattern(
        "national id",
        _compiled(
            rb"(?i)(?:ausweis|reisepass|passport)[a-z]{0,10}[ .:#-]{0,4}(?:(?:nr|no|number|nummer)"
            rb"[ .:#-]{0,4})?\b([CFGHJKLMNPRTVWXYZ][CFGHJK-NPRTV-Z0-9]{8}[0-9]?)\b"
        ),
        1,
        lambda found: any(48 <= byte < 58 for byte in found),
    ),
)  # fmt: skip

HEAD: Final = _compiled(rb"[A-Za-z]{2}[ \t-]?[0-9]{2}")
"""The start of an IBAN."""

ANY: Final = _compiled(
    rb"(?i)-----BEGIN|bearer|authorization|cookie|passw|passphrase|key|secret|token|@|%40|://|eyJ|ausweis|passport|reisepass"
    rb"|[0-9](?:[ \t\n\r\-./()_]{0,3}[0-9]){6}|[A-Z]{2}[ \t-]?[0-9]{2}[ \t-]?[A-Z0-9]"
    rb"|[A-Z0-9][0-9A-Z]{8}[0-9]|[A-Za-z0-9]{2,}[\W_][\w+/=-]{10,}|[\w+/=-]{18,}"
)
"""A quick test: it matches every text in which one of the patterns finds something."""


def iban_end(data: bytes, start: int) -> int | None:
    """The end of the IBAN that starts at a place; None if there is none, or its check is wrong."""
    if start and chr(data[start - 1]).isalnum():
        return None
    length = _IBANS.get(data[start : start + 2].decode("latin-1").upper())
    if length is None:
        return None
    at, plain = start, b""
    for _ in range(length):
        match = _PAIR.match(data, at)
        if match is None:
            return None
        plain += match[0][-1:]
        at = match.end()
    if data[at : at + 1].isalnum():
        return None
    digits = "".join(str(int(chr(byte), 36)) for byte in plain[4:] + plain[:4])
    return at if int(digits) % 97 == 1 else None

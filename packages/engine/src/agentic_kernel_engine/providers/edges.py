"""Edges: what every vendor's client is given, checked in one way.

No value is repeated in a message: it may be a key, or hold one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from agentic_kernel import InvalidValue

from .. import values
from .pricing import Price

LONGEST_KEY: Final = 16_384
"""How long a key may be, in characters."""
LONGEST_ADDRESS: Final = 4_096
"""How long an address may be, in characters."""
LONGEST_MODEL: Final = 512
"""How long the name of a model may be, in characters."""
LONGEST_WAIT: Final = 31_536_000.0
"""Seconds that may be waited for a server: a year."""
_KEY: Final = re.compile(r"[\x21-\x7e]+")
_ADDRESS: Final = re.compile(r"[^\x00-\x20\x7f-\xa0]+")


def key_problem(key: Any) -> str:
    """The fault of an API key; empty if it has none."""
    if not isinstance(key, str):
        return f"must be a string, not {type(key).__name__}"
    if not key:
        return "is empty; give the key, or leave it out"
    if len(key) > LONGEST_KEY:
        return f"has {len(key):,} characters, and the limit is {LONGEST_KEY:,}; is it a key?"
    if not _KEY.fullmatch(key):
        return (
            "has blanks, line breaks or characters that are not ASCII, which no header can carry; "
            "give the key alone"
        )
    return ""


def address_problem(address: Any) -> str:
    """The fault of a server's address; empty if it has none."""
    if not isinstance(address, str):
        return f"must be a string, not {type(address).__name__}"
    if len(address) > LONGEST_ADDRESS:
        return f"has {len(address):,} characters, and the limit is {LONGEST_ADDRESS:,}"
    if not address.startswith(("http://", "https://")):
        return "must begin with https:// or http://"
    if not _ADDRESS.fullmatch(address):
        return "has blanks, line breaks or control characters; remove them"
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        return f"is no address ({_reason(error)}); give one like https://example.com/v1"
    if "@" in parts.netloc:
        return "has credentials before its host; take them out, and give api_key="
    if not host or port == 0:
        return "names no host and port; give one like https://example.com/v1"
    if parts.query or parts.fragment:
        return "has a query or a fragment, which requests would lose; take it out"
    try:
        host.encode("ascii" if ":" in host else "idna")
    except UnicodeError:
        return "has a host that is no name and no number; give one like https://example.com/v1"
    return ""


def check_key(key: Any, path: str = "api_key") -> None:
    """Refuse an API key that could not be sent.

    Raises:
        InvalidValue: It is none.
    """
    problem = key_problem(key)
    if problem:
        raise InvalidValue(path, problem)


def check_address(address: Any, path: str = "base_url") -> None:
    """Refuse an address that no request could be sent to, or that holds a password.

    Raises:
        InvalidValue: It is none.
    """
    problem = address_problem(address)
    if problem:
        raise InvalidValue(path, problem)


def check_seconds(seconds: Any, path: str = "timeout") -> None:
    """Refuse what is no time to wait.

    Raises:
        InvalidValue: It is none.
    """
    if type(seconds) not in (int, float):
        kind = type(seconds).__name__
        raise InvalidValue(path, f"must be a number of seconds, not {kind}")
    if not 0 < seconds <= LONGEST_WAIT:
        shown = "too large" if seconds > LONGEST_WAIT else "not above 0"
        raise InvalidValue(
            path, f"is {shown}; give seconds above 0, and at most {LONGEST_WAIT:,.0f}"
        )


def check_flag(flag: Any, path: str) -> None:
    """Refuse what is neither True nor False.

    Raises:
        InvalidValue: It is none of them.
    """
    if type(flag) is not bool:
        raise InvalidValue(path, f"must be True or False, not {type(flag).__name__}")


def check_model(model: Any) -> None:
    """Refuse what is no name of a model.

    Raises:
        InvalidValue: It is none.
    """
    if not isinstance(model, str) or not model:
        raise InvalidValue("model", "must be the name of a model, which is not empty")
    if len(model) > LONGEST_MODEL:
        raise InvalidValue(
            "model", f"has {len(model):,} characters, and the limit is {LONGEST_MODEL}"
        )
    values.check_text(model, "model")


def check_prices(prices: Any) -> None:
    """Refuse what is no mapping of models to prices; None is one.

    Raises:
        InvalidValue: It is none.
    """
    if prices is None:
        return
    if not isinstance(prices, Mapping):
        kind = type(prices).__name__
        raise InvalidValue("prices", f"must be a mapping of models to Price, not {kind}")
    for model, price in prices.items():
        if not isinstance(price, Price):
            raise InvalidValue("prices", f"has no Price for {model!a:.80}")


def _reason(error: ValueError) -> str:
    # `urlsplit` quotes the address, which may hold a password.
    return "its port" if "ort" in str(error) else "its host"

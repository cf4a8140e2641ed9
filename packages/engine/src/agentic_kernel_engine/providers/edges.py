"""Edges: checks of the arguments that every vendor's client takes.

No message repeats a key or an address, because it may be, or hold, a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from agentic_kernel import InvalidValue
from agentic_kernel.frozen import shown

from .. import edges, values
from .pricing import Long, Price

LONGEST_KEY: Final = 16_384
"""The longest key, in characters."""
LONGEST_ADDRESS: Final = 4_096
"""The longest address, in characters."""
LONGEST_MODEL: Final = 512
"""The longest name of a model, in characters."""
LONGEST_WAIT: Final = 31_536_000.0
"""The longest wait for a server, in seconds: a year."""
DEAREST: Final = 1e9
"""The highest price of a million tokens, and the largest factor of one."""
_KEY: Final = re.compile(r"[\x21-\x7e]+")
_ADDRESS: Final = re.compile(r"[^\x00-\x20\x7f-\xa0\ud800-\udfff]+")


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
            "must be printable ASCII without spaces, because it is sent in an HTTP header; "
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
        return "has spaces, line breaks, control characters or lone surrogates; remove them"
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        return (
            f"is not a valid address (see {_reason(error)}); give one like https://example.com/v1"
        )
    if "@" in parts.netloc:
        return "has credentials before its host; take them out, and give api_key="
    if not host or port == 0:
        return "names no host and port, or port 0; give one like https://example.com/v1"
    if parts.query or parts.fragment:
        return "has a query or a fragment, which requests would lose; remove it"
    try:
        host.encode("ascii" if ":" in host else "idna")
    except UnicodeError:
        return "has an invalid host; give one like https://example.com/v1"
    return ""


def check_key(key: Any, path: str = "api_key") -> None:
    """Refuse an API key that could not be sent.

    Raises:
        InvalidValue: The key has a fault; see `key_problem`.
    """
    problem = key_problem(key)
    if problem:
        raise InvalidValue(path, problem)


def check_address(address: Any, path: str = "base_url") -> None:
    """Refuse an address that no request could be sent to, or that holds a password.

    Raises:
        InvalidValue: The address has a fault; see `address_problem`.
    """
    problem = address_problem(address)
    if problem:
        raise InvalidValue(path, problem)


def check_seconds(seconds: Any, path: str = "timeout") -> None:
    """Refuse a value that is not a time to wait, in seconds.

    Raises:
        InvalidValue: It is not a number, not above 0, or over `LONGEST_WAIT`.
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
    """Refuse a value that is neither True nor False.

    Raises:
        InvalidValue: It is neither.
    """
    if type(flag) is not bool:
        raise InvalidValue(path, f"must be True or False, not {type(flag).__name__}")


def check_once(value: Any, name: str, keyword: str, given: Mapping[str, Any], *keys: str) -> None:
    """Refuse an option that another keyword has, too.

    Args:
        value: The option; None if it is not given.
        name: Its name.
        keyword: The other keyword.
        given: The value of the other keyword.
        keys: The names of the option there.

    Raises:
        InvalidValue: Both have the option.
    """
    for key in keys:
        if value not in (None, ()) and key in given:
            raise InvalidValue(name, f"is also in {keyword}=, as {key}; give one of the two")


def check_name(name: Any, path: str) -> None:
    """Refuse a value that cannot be a name of one line.

    Raises:
        InvalidValue: It is not a string, is blank, has a blank at an end or a character that is not
            printable, or cannot be stored.
    """
    if not isinstance(name, str) or not name.strip():
        raise InvalidValue(path, f"is {edges.came(name)}; give a text that is not blank")
    values.check_text(name, path)
    if not name.isprintable():
        index = next(at for at, each in enumerate(name) if not each.isprintable())
        raise InvalidValue(
            path, f"has the character U+{ord(name[index]):04X} at index {index}; remove it"
        )
    if name != name.strip():
        raise InvalidValue(path, "has a blank before or after it; remove the blank")


def check_model(model: Any, path: str = "model") -> None:
    """Refuse a value that cannot be the name of a model.

    Raises:
        InvalidValue: See `check_name`; or it is too long.
    """
    if isinstance(model, str) and len(model) > LONGEST_MODEL:
        raise InvalidValue(path, f"has {len(model):,} characters, and the limit is {LONGEST_MODEL}")
    check_name(model, path)


def check_prices(prices: Any) -> None:
    """Refuse a value that is neither None nor a mapping of models to prices.

    Raises:
        InvalidValue: It is neither, or a price is not a number from 0 to `DEAREST`.
    """
    if prices is None:
        return
    if not isinstance(prices, Mapping):
        kind = type(prices).__name__
        raise InvalidValue("prices", f"must be a mapping of models to Price, not {kind}")
    for model, price in prices.items():
        if not isinstance(price, Price):
            raise InvalidValue("prices", f"has no Price for {model!a:.80}; give a Price")
        check_model(model, "a key of prices")
        path = f"prices[{shown(model)}]"
        _check_numbers(price, path, "input", "output", "cached", "written")
        if price.long is not None:
            edges.instance(price.long, f"{path}.long", Long)
            edges.whole(price.long.above, f"{path}.long.above", 0)
            _check_numbers(price.long, f"{path}.long", "input", "output")


def _check_numbers(given: Any, path: str, *names: str) -> None:
    for name in names:
        value = getattr(given, name)
        if value is None and name in ("cached", "written"):
            continue
        if type(value) not in (int, float) or not 0 <= value <= DEAREST:
            raise InvalidValue(
                f"{path}.{name}", f"is {edges.came(value)}; use a number from 0 to {DEAREST:,.0f}"
            )


def _reason(error: ValueError) -> str:
    # `urlsplit` quotes the address, which may hold a password.
    return "its port" if "ort" in str(error) else "its host"

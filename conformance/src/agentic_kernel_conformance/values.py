"""One corpus for every store: values that must come back equal, and values to be refused.

Both are the same for all stores, because the Host checks values once, at its edge.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final


def nested(depth: int, value: Any = 0) -> Any:
    """Return the value inside ``depth`` lists."""
    for _ in range(depth):
        value = [value]
    return value


ACCEPTED: Final[dict[str, Any]] = {
    "null": None,
    "true": True,
    "false": False,
    "zero": 0,
    "minus one": -1,
    "largest integer": (1 << 63) - 1,
    "smallest integer": -(1 << 63),
    "beyond exact floats": (1 << 53) + 1,
    "one as a float": 1.0,
    "a float in full": 0.1 + 0.2,
    "largest float": 1.797_693_134_862_315_7e308,
    "smallest float": 5e-324,
    "empty text": "",
    "text that looks like a number": "007",
    "text that looks like null": "null",
    "quotes and backslashes": '"\\" \\u0000 \\',
    "control characters": "".join(map(chr, range(1, 32))) + "\x7f\x85\u2028\u2029",
    "accents, composed and not": "\u00e9 e\u0301",
    "beyond the basic plane": "👋🏽 𝔘𝔫𝔦 \U0010fffd",
    "bidirectional and zero-width": "\u202egnp.exe\u200b\u2066\ufeff",
    "not a character": "\ufffe\uffff",
    "long text": "ü" * 200_000,
    "empty list": [],
    "empty object": {},
    "nested": {"a": [1, {"b": [None, [], {}]}], "": {"": ""}},
    "deep": nested(100),
    "wide": list(range(10_000)),
    "key order": {"z": 1, "a": 2, "10": 3, "9": 4, "B": 5},
    "hostile keys": {"__class__": 1, "$ref": 2, "a.b": 3, "a/b": 4, "\n": 5, "'; --": 6},
    "keys that differ in form only": {"\u00e9": 1, "e\u0301": 2, "É": 3},
}
"""Values that every store brings back equal, in type and in the order of keys."""


class _Foreign:
    """A class that JSON cannot encode."""


REFUSED: Final[dict[str, Callable[[], Any]]] = {
    "not a number": lambda: float("nan"),
    "infinity": lambda: float("inf"),
    "minus infinity": lambda: float("-inf"),
    "1e999": lambda: float("1e999"),
    "lone surrogate": lambda: "half \ud83d",
    "reversed surrogates": lambda: "\udc4b\ud83d",
    "NUL": lambda: "before\0after",
    "integer beyond 64 bits": lambda: 1 << 63,
    "5,000 digits": lambda: 10**4_999,
    "5,000 levels": lambda: nested(5_000),
    "100,000 levels": lambda: nested(100_000),
    "surrogate in a key": lambda: {"\ud800": 1},
    "NUL in a key": lambda: {"a\0b": 1},
    "bytes": lambda: b"bytes",
    "a set": lambda: {1, 2},
    "an object": _Foreign,
    "a key that is no text": lambda: {1: "one"},
}
"""Makers of values that the Host refuses at every entry; the error names the path of the value."""

TOO_LONG: Final[dict[str, Callable[[], Any]]] = {
    "10 MB": lambda: "x" * 10_000_000,
    "10 MB of small parts": lambda: ["x" * 1_000] * 10_000,
}
"""Makers of values that are too long as a whole; the error names the path of their field."""

IDS: Final[dict[str, str]] = {
    "parent folder": "../../../../etc/passwd",
    "parent folder, Windows": "..\\..\\windows\\win.ini",
    "absolute": "/tmp/absolute",
    "drive": "C:\\absolute",
    "dot": ".",
    "two dots": "..",
    "trailing dot": "name.",
    "trailing blank": "name ",
    "leading blank": " name",
    "blank": " ",
    "leading dash": "-rf",
    "tilde": "~root",
    "hidden": ".git",
    "device": "NUL",
    "SQL": "'; DROP TABLE tasks; --",
    "wildcards": "%_*?[a-z]",
    "newline": "one\ntwo",
    "carriage return": "one\rtwo",
    "tab and escape": "one\t\x1b[2Jtwo",
    "slash": "a/b",
    "slashes": "a//b/",
    "colon": "host:1",
    "quotes": "\"'`",
    "JSON": '{"id":1}',
    "template": "${HOME} {{7*7}} %s",
    "percent": "%2e%2e%2f",
    "lower case": "twin",
    "upper case": "TWIN",
    "mixed case": "Twin",
    "composed": "\u00e9",
    "decomposed": "e\u0301",
    "full width": "ｔｗｉｎ",
    "sharp s": "straße",
    "double s": "strasse",
    "dotless": "ı",
    "ligature": "ﬁ",
    "invisible": "tw\u200bin",
    "reversed": "\u202etwin",
    "beyond the basic plane": "👋" * 20,
    "300 characters": "x" * 300,
    "300 wide characters": "ü" * 300,
    "300 characters, other end": "x" * 299 + "y",
}
"""Legal ids that some file system, database or shell would interpret; a store must not."""


def same(found: Any, given: Any) -> bool:
    """True if two JSON values are equal in type and in the order of keys."""
    return json.dumps(found) == json.dumps(given)

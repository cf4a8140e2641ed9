"""Redactor: replaces secrets and personal data in texts and values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from agentic_kernel import InvalidValue
from agentic_kernel_engine.edges import instance, names

from . import folding
from .assignments import assignments
from .finding import SHORTEST, spans
from .stream import RedactorStream

HIDDEN: Final = "[hidden]"
"""Stands for the value of a sensitive field."""
TOO_DEEP: Final = "[too deep]"
"""Stands for what lies deeper than is looked at."""
PERSONAL: Final = frozenset({"card", "iban", "mail", "national id", "phone"})
"""The kinds of personal data. The other kinds are secrets."""
SECRET_FIELDS: Final = frozenset({
    "password", "passwd", "passphrase", "secret", "client_secret", "api_key", "api_token",
    "access_key", "access_token", "refresh_token", "id_token", "auth_token", "session_token",
    "private_key", "secret_key", "aws_secret_access_key", "authorization", "proxy_authorization",
    "cookie", "set_cookie", "token",
})  # fmt: skip
"""Fields whose values are replaced, whatever they are. Case and marks in a name do not count."""
ENDINGS: Final = frozenset({
    "password", "passwd", "passphrase", "api_key", "api_token", "access_key", "access_token",
    "refresh_token", "auth_token", "session_token", "private_key", "secret_key", "client_secret",
    "set_cookie",
})  # fmt: skip
"""Those of `SECRET_FIELDS` that also count at the end of a longer name, e.g. ``db_password``."""
LONGEST_NAME: Final = 1_000
"""The most characters of a field's name that is looked at. The value of a longer one is hidden."""
_ENDINGS: Final = frozenset(map(folding.name, ENDINGS))
DEEPEST: Final = 100
"""The deepest value that is looked at."""
NESTED: Final = 8
"""The most texts of JSON inside of one another that are looked at."""
TAIL: Final = 1_024
"""The characters at the end of a beginning that may hold a part of a secret."""
SHORT_NUMBER: Final = 10**6
"""No kind of number has under seven digits."""
_REMEMBERED: Final = 4_096
_NUMBERED: Final = re.compile(r"(?: \([0-9]+\))+\Z")
_OPEN: Final = {"{": "}", "[": "]", '"': '"'}


class Redactor:
    """Replaces secrets and personal data by markers such as ``[card]``.

    It finds mail addresses, phone numbers, cards, IBANs, US and German national ids, keys of
    vendors, private keys, JSON Web Tokens and bearer tokens, also with invisible characters in
    them. It takes time linear to the size.

    Args:
        fields: Names of fields whose values are always replaced, at any depth.
        shows: Kinds of `PERSONAL` that are left as they are, e.g. ``["mail"]`` for an assistant
            that writes mails. Secrets are always replaced.

    Raises:
        InvalidValue: `shows` names another kind.
    """

    def __init__(self, fields: Iterable[str] = SECRET_FIELDS, *, shows: Iterable[str] = ()) -> None:
        self._fields = frozenset(map(folding.name, names(fields, "fields")))
        self._shows = names(shows, "shows")
        for kind in self._shows - PERSONAL:
            raise InvalidValue(
                "shows", f"has {kind!a:.60}; use some of {', '.join(sorted(PERSONAL))}"
            )
        self._ends = tuple(self._fields & _ENDINGS)
        self._names: dict[str, tuple[str, int, bool]] = {}
        self._hides: dict[str, bool] = {}

    def hiding(self, fields: Iterable[str]) -> Redactor:
        """A redactor that also replaces the values of these fields."""
        if type(fields) is frozenset and not fields:
            return self  # Most capabilities name none.
        more = frozenset(map(folding.name, names(fields, "fields"))) - self._fields
        if not more:
            return self
        return Redactor(self._fields | more, shows=self._shows)

    def hides(self, field: str) -> bool:
        """True if the values of a field are replaced."""
        if type(field) is not str:
            instance(field, "field", str)
        known = self._hides.get(field)
        if known is None:
            # A name that was taken has a number from `free`, and is the field's name all the same.
            known = len(field) > LONGEST_NAME or any(
                name in self._fields or name.endswith(self._ends)
                for each in {field, _NUMBERED.sub("", field)}
                for name in map(folding.name, each.split("."))
            )
            if len(self._hides) < _REMEMBERED and len(field) <= 256:
                self._hides[field] = known
        return known

    def field(self, name: str) -> tuple[str, int, bool]:
        """A field's name without secrets, how many were in it, and True if its value is hidden."""
        known = self._names.get(name)
        if known is None:
            known = (*self._inline(name), self.hides(name))
            if len(self._names) < _REMEMBERED and len(name) <= 256:
                self._names[name] = known
        return known

    def text(self, text: str) -> tuple[str, int]:
        """The text without them, and how many parts were replaced.

        A text that is JSON, or has a line of JSON, is looked at as the value that it stands for.
        """
        if type(text) is not str:
            instance(text, "text", str)
        return self._text(text, 0, 0)

    def value(self, value: Any) -> tuple[Any, int]:
        """The value without them, and how many parts were replaced.

        Keys are redacted, too. Values of other types than those of JSON, tuples, sets, bytes,
        numbers and times are replaced whole.
        """
        return self._value(value, 0, 0)

    def head(self, text: str, most: int) -> tuple[str, int] | None:
        """The beginning of a longer text without secrets, and how many parts were replaced.

        At most `most` characters are looked at, and the last ones are left out, so that no half
        of a secret is shown. None for a text that may be JSON, of which a part cannot be read.
        """
        start = text[:most]
        if text.lstrip()[:1] in _OPEN or len(start) < 2 * TAIL:
            return None
        # A line that is JSON is looked at as a whole.
        whole = start.rfind("\n", len(start) // 2)
        said, count = self._text(start if whole < 0 else start[:whole], 0, 0)
        return said[:-TAIL], count

    def stream(self) -> RedactorStream:
        """A redactor of a text that comes in chunks. It does not read JSON."""
        return RedactorStream(self._shows)

    def _inline(self, text: str) -> tuple[str, int]:
        fields = assignments(text, self.hides) if ":" in text else ()
        found = spans(text, self._shows, fields)
        if not found:
            return text, 0
        parts: list[str] = []
        at = 0
        for span in found:
            parts += (text[at : span.start], f"[{span.kind}]")
            at = span.end
        return "".join(parts) + text[at:], len(found)

    def _text(self, text: str, depth: int, nested: int) -> tuple[str, int]:
        if len(text) < SHORTEST:
            return text, 0
        count = 0
        said = self._json(text, depth, nested) if _like_json(text) else None
        if said is None and "\n" in text:
            lines = [
                (_like_json(line) and self._json(line, depth, nested)) or (line, 0)
                for line in text.split("\n")
            ]
            said = "\n".join(line for line, _ in lines), sum(each for _, each in lines)
        if said is not None:
            text, count = said
        text, more = self._inline(text)
        return text, count + more

    def _json(self, text: str, depth: int, nested: int) -> tuple[str, int] | None:
        """A text of JSON, redacted; None if it is not JSON."""
        if nested == NESTED:
            return TOO_DEEP, 1
        twice = False

        def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
            nonlocal twice
            made = dict(items)
            twice |= len(made) != len(items)
            return made

        try:
            value = json.loads(text, object_pairs_hook=pairs)
        except RecursionError:
            return TOO_DEEP, 1
        except ValueError:
            return None
        made, count = self._value(value, depth, nested + 1)
        # Of two equal keys, only the second one was looked at.
        if not count and not twice:
            return text, 0
        return json.dumps(made, ensure_ascii=False), count

    def _value(self, value: Any, depth: int, nested: int) -> tuple[Any, int]:
        # The usual types first; the checks below take longer.
        kind = type(value)
        if kind is str:
            return self._text(value, depth, nested)
        if kind is int and -SHORT_NUMBER < value < SHORT_NUMBER:
            return value, 0
        if kind is dict and depth < DEEPEST:
            return self._mapping(value, depth, nested)
        if value is None or isinstance(value, bool):
            return value, 0
        if isinstance(value, float):
            # A card may come as 4111111111111111.0; a shorter number is no whole one.
            whole = 10**10 <= abs(value) < 10**17
            said, count = self._inline(str(float(value))) if whole else ("", 0)
            return (said, count) if count else (value, 0)
        if isinstance(value, str):
            return self._text(str.__str__(value), depth, nested)
        if isinstance(value, (int, Decimal)):
            said, count = self._number(value)
            return (said, count) if count else (value, 0)
        if isinstance(value, (bytes, bytearray, memoryview)):
            return self._bytes(bytes(value), depth, nested)
        if isinstance(value, (date, datetime, time, timedelta, UUID)):
            return value, 0
        if depth == DEEPEST:
            return TOO_DEEP, 1
        if isinstance(value, Mapping):
            return self._mapping(value, depth, nested)
        if isinstance(value, (list, tuple, set, frozenset)):
            names: Any = getattr(value, "_fields", None) if isinstance(value, tuple) else None
            hides = self._hidden_of(names, len(value))
            parts = [
                (HIDDEN, 1) if hidden else self._value(each, depth + 1, nested)
                for each, hidden in zip(value, hides, strict=True)
            ]
            count = sum(each for _, each in parts)
            if not count:
                return value, 0
            kinds: tuple[type[Any], ...] = (list, tuple, set, frozenset)
            plain = next(each for each in kinds if isinstance(value, each))
            return plain(part for part, _ in parts), count
        return f"[{type(value).__name__}]", 1

    def _hidden_of(self, names: Any, count: int) -> Iterable[bool]:
        """True for each part of a named tuple whose value is hidden."""
        if not isinstance(names, tuple) or len(names) != count:
            return (False,) * count
        return [isinstance(name, str) and self.hides(name) for name in names]

    def _hides_key(self, key: object) -> bool:
        """True if a key of another type than text names a hidden field."""
        if isinstance(key, (tuple, frozenset)):
            return any(self._hides_key(part) for part in key)
        if isinstance(key, bytes):
            key = key.decode("utf-8", "replace")
        return isinstance(key, str) and self.hides(key)

    def _number(self, value: int | Decimal) -> tuple[str, int]:
        if isinstance(value, int) and (
            -SHORT_NUMBER < value < SHORT_NUMBER or not -(10**40) < value < 10**40
        ):
            return "", 0
        return self._inline(str(value))

    def _bytes(self, value: bytes, depth: int, nested: int) -> tuple[bytes, int]:
        for coding in ("utf-8", "latin-1"):
            try:
                text = value.decode(coding)
            except UnicodeDecodeError:
                continue
            made, count = self._text(text, depth, nested)
            return (made.encode(coding, "replace"), count) if count else (value, 0)
        raise AssertionError("every byte is a character of Latin-1")

    def _mapping(self, value: Mapping[Any, Any], depth: int, nested: int) -> tuple[Any, int]:
        made: dict[Any, Any] = {}
        taken: dict[Any, int] = {}
        total = 0
        for key, each in value.items():
            name, count, hidden = key, 0, False
            if type(key) is str or isinstance(key, str):
                name, count, hidden = self._names.get(key) or self.field(key)
            elif isinstance(key, (bytes, tuple, frozenset, int)):
                name, count = self._value(key, depth + 1, nested)
                hidden = self._hides_key(key)
            part, more = (HIDDEN, 1) if hidden else self._value(each, depth + 1, nested)
            if name in made:
                name = free(name, made, taken)
            made[name] = part
            total += count + more
        return made, total


def _like_json(text: str) -> bool:
    """True if a text begins and ends as an object, a list or a text of JSON does."""
    if len(text) <= 2:
        return False
    first, last = text.lstrip()[:1], text.rstrip()[-1:]
    return bool(first) and _OPEN.get(first) == last


def free(name: Any, made: Mapping[Any, Any], taken: dict[Any, int]) -> Any:
    """A name that is taken, with a number, because two keys became the same marker.

    Args:
        made: The values that have names already.
        taken: The last number of each name; it is changed.
    """
    while True:
        taken[name] = number = taken.get(name, 1) + 1
        if f"{name} ({number})" not in made:
            return f"{name} ({number})"

"""Folding: a text as the patterns see it, one byte for each visible character."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

LETTER: Final = "\xff"
"""Stands for a letter or a digit that has no ASCII form."""
OTHER: Final = "\xfe"
"""Stands for any other character that has no ASCII form."""
_BLANK: Final = frozenset("\u115f\u1160\u3164\uffa0\u2800")
"""Letters and signs that are not visible."""
_GONE: Final = frozenset({"Cc", "Cf", "Cs", "Mn", "Me"})
"""The categories of what is left out: controls, formats such as the zero-width space, accents."""
_ODD: Final = re.compile(r"[^\t\n\r -~]")
_ESCAPE: Final = re.compile(
    r"\\{1,15}(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|([nrtbf\"'/]))|%([0-9A-Fa-f]{2})"
)
_SPACES: Final = {"n": "\n", "r": "\n", "t": "\t", "b": " ", "f": "\n"}
_MOST: Final = 50_000
"""The most characters whose form is remembered."""


class _Forms(dict[int, str | None]):
    """The form of each character, made when it is first seen."""

    def __missing__(self, code: int) -> str | None:
        form = _form(chr(code))
        if len(self) < _MOST:
            self[code] = form
        return form


def _form(char: str) -> str | None:
    if " " <= char <= "~" or char in "\t\n\r":
        return char
    kind = unicodedata.category(char)
    if kind in _GONE or char in _BLANK:
        return None
    if kind == "Nd":
        return str(unicodedata.decimal(char))
    if kind == "Pd":
        return "-"
    if kind[0] == "Z":
        return " " if kind == "Zs" else "\n"
    plain = unicodedata.normalize("NFKC", char)
    if len(plain) == 1 and plain.isascii():
        return plain
    return LETTER if kind[0] in "LN" else OTHER


_forms: Final = _Forms()


def folded(text: str) -> tuple[bytes, Sequence[int] | None]:
    """The text as bytes of Latin-1, and where each byte stands in the text.

    Digits of all scripts and wide letters become ASCII. Invisible characters are left out. The
    places are None if the byte at a number is the character at that number.
    """
    if text.isascii() and (text.isprintable() or not _ODD.search(text)):
        return text.encode("ascii"), None
    data = text.translate(_forms).encode("latin-1")
    if len(data) == len(text):
        return data, None
    return data, [at for at, char in enumerate(text) if _forms[ord(char)] is not None]


def unescaped(text: str) -> tuple[bytes, Sequence[int]] | None:
    """As `folded`, with each escape as the character that it stands for; None if there is none.

    The escapes are those of JSON (``\\u00fc``, ``\\n``), of URLs (``%20``), and ``\\x20``.
    """
    if ("\\" not in text and "%" not in text) or not _ESCAPE.search(text):
        return None
    forms: list[str] = []
    places: list[int] = []
    at = 0
    for match in _ESCAPE.finditer(text):
        _fold(text, at, match.start(), forms, places)
        code = match[1] or match[2] or match[4]
        form = _forms[int(code, 16)] if code else _SPACES.get(match[3], match[3])
        if form is not None:
            forms.append(form)
            places.append(match.start())
        at = match.end()
    _fold(text, at, len(text), forms, places)
    return "".join(forms).encode("latin-1"), places


def _fold(text: str, start: int, end: int, forms: list[str], places: list[int]) -> None:
    plain = text[start:end]
    if plain.isascii() and plain.isprintable():
        forms.append(plain)
        places.extend(range(start, end))
        return
    for at in range(start, end):
        form = _forms[ord(text[at])]
        if form is not None:
            forms.append(form)
            places.append(at)


def name(text: str) -> str:
    """A field's name as names are compared: without case, marks, and invisible characters."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return "".join(char for char in plain if char.isalnum())

"""Visible: what a person sees of a text, and which names a person could take for one another."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

LONGEST: Final = 256
"""The most characters of a person's name."""
_UNSEEN: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)
"""Fillers, blanks and variation selectors, which Unicode counts as letters, marks or symbols."""
_SCRIPTS: Final = frozenset("ARMENIAN CHEROKEE COPTIC CYRILLIC DESERET GREEK LATIN LISU".split())
"""Scripts that have letters with the shape of another one's. A word has letters of one of them."""
_LETTERS: Final = re.compile(r"[^\W\d_]+")


def seen(text: str) -> str:
    """The text as a person sees it: without invisible characters, each white space one space."""
    if text.isascii() and text.isprintable():
        return " ".join(text.split())
    kept = (
        " " if char.isspace() else char
        for char in text
        if char.isspace() or not (unicodedata.category(char)[0] == "C" or _UNSEEN.match(char))
    )
    return " ".join("".join(kept).split())


def alike(one: str, other: str) -> bool:
    """True if a person could take one name for the other: case, width and what is unseen differ."""
    return _folded(one) == _folded(other)


def name_fault(name: object) -> str:
    """Why a text is not accepted as the name of a person; "" if it is.

    A name that looks like another one would let a person approve a call of their own.
    """
    if not isinstance(name, str) or not name or len(name) > LONGEST:
        return f"must be a name of 1 to {LONGEST} characters"
    if name.isascii() and name.isprintable() and name == seen(name):
        return ""
    if name != seen(name):
        return "has invisible characters, or white space that a person does not see; remove it"
    if name != unicodedata.normalize("NFKC", name):
        return "has characters of another form than the usual one (NFKC), such as wide letters"
    for word in _LETTERS.findall(name):
        mixed = sorted({unicodedata.name(char, "").partition(" ")[0] for char in word} & _SCRIPTS)
        if len(mixed) > 1:
            said = " and ".join(map(str.title, mixed))
            return f"mixes letters of {said} in one word, which look alike"
    return ""


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", seen(unicodedata.normalize("NFKC", name))).casefold()

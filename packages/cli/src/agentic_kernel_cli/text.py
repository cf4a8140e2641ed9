"""Text from outside this program, made safe to show.

Ids, errors and summaries are labels: one line in which every character is visible. Two different
texts never have the same label, because a backslash is escaped too. A model's answer is content:
its lines and tabs stay, and invisible characters are removed. A command is a line to paste: the
shell reads exactly the intended words from it.
"""

from __future__ import annotations

import json
import re
import shlex
import unicodedata
from collections.abc import Iterable
from typing import Any, Final

from agentic_kernel import InvalidValue

_UNSEEN: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)
"""Invisible characters that `str.isprintable` counts as printable: fillers, blanks of other
scripts, and variation selectors."""
_CONTROLS: Final = {
    code: None for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in (0x09, 0x0A)
}
_SPAN = re.compile(r"([0-9]{1,5})([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def visible(text: str) -> bool:
    """True if the text is one line and every character is visible."""
    return text.isprintable() and (text.isascii() or _UNSEEN.search(text) is None)


def label(text: str, width: int | None = None) -> str:
    """One line: controls, line breaks, and invisible or bidirectional characters are escaped.

    The backslash is escaped too, so that no other text has the same label.

    Args:
        width: Cut to this many characters, the last of them an ellipsis.
    """
    return line(cut(text, width).replace("\\", r"\\"))


def named(task_id: str, width: int | None = None) -> str:
    """A Task by its id, as an error names it."""
    return f"task '{label(task_id, width)}'"


def line(text: str) -> str:
    """Make a text one visible line, if its parts are labels, commands or ``repr`` texts already.

    Invisible characters are escaped. A backslash is not escaped, so that a command in the line can
    be pasted.
    """
    if visible(text):
        return text
    return "".join(char if visible(char) else ascii(char)[1:-1] for char in text)


def cut(text: str, width: int | None) -> str:
    """The text; if it is longer than ``width``, cut to that many characters with an ellipsis."""
    return text if width is None or len(text) <= width else text[: width - 1] + "…"


def as_json(value: Any) -> str:
    """A value as one line of JSON; invisible characters are escaped as in JSON."""
    text = json.dumps(value, ensure_ascii=False)
    if visible(text):
        return text
    return "".join(char if visible(char) else json.dumps(char)[1:-1] for char in text)


def command_line(words: Iterable[str]) -> str:
    """A command line to paste, in which every character is visible.

    A word with an invisible character is written as ``$'…'``, with the UTF-8 bytes of that
    character escaped; bash, zsh and ksh read exactly that word from it, in every locale.
    """
    return " ".join(map(_word, words))


def _word(text: str) -> str:
    if visible(text):
        return shlex.quote(text)
    return "$'" + "".join(map(_quoted, text)) + "'"


def _quoted(char: str) -> str:
    if char == "\\":
        return r"\\"
    if visible(char) and char != "'":
        return char
    return "".join(f"\\x{byte:02x}" for byte in char.encode(errors="surrogateescape"))


def content(text: str) -> str:
    """A model's text without controls, and without invisible or bidirectional characters.

    The separators of lines and paragraphs (U+2028, U+2029) become line breaks.
    """
    text = text.translate(_CONTROLS)
    if text.isascii() or visible(text):
        return text
    return "".join(map(_shown, _UNSEEN.sub("", text)))


def _shown(char: str) -> str:
    match unicodedata.category(char):
        case "Cf":
            return ""
        case "Zl" | "Zp":
            return "\n"
        case _:
            return char


def utf8(given: str, name: str) -> str:
    """Return a word of the command line, which must be UTF-8.

    Python reads each byte that is not UTF-8 as a lone surrogate, which no store takes.

    Args:
        name: The name of the argument or the option, for the message.

    Raises:
        InvalidValue: It is not UTF-8.
    """
    try:
        given.encode()
    except UnicodeEncodeError as error:
        shown = cut(ascii(given), 80)
        raise InvalidValue(
            name, f"is {shown}, which is not UTF-8 at character {error.start + 1}; give it in UTF-8"
        ) from None
    return given


def seconds(span: str, option: str) -> int:
    """Return the seconds of a span like ``90s``, ``45m``, ``12h``, ``30d`` or ``2w``.

    Args:
        option: The option that gave it, for the message.

    Raises:
        InvalidValue: The text is not such a span.
    """
    found = _SPAN.fullmatch(span)
    if found is None:
        raise InvalidValue(
            option, f"{ascii(span)[:40]} is not a number with s, m, h, d or w, like 30d"
        )
    return int(found[1]) * _SECONDS[found[2]]

"""Places of the tables and keys of a TOML text, which the standard library does not keep."""

from __future__ import annotations

import re
from typing import Final

Place = tuple[int, int]
Path = tuple[str | int, ...]

_STRING: Final = r"\"\"\"(?:[^\\]|\\.)*?\"{3,5}|'''.*?'{3,5}|\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'"
_PART: Final = r"(?:[A-Za-z0-9_-]+|\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*')"
_DOTTED: Final = rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*"
_TOKEN: Final = re.compile(
    rf"^[ \t]*(?P<table>\[\[?)[ \t]*(?P<name>{_DOTTED})[ \t]*\]\]?"
    rf"|^[ \t]*(?P<key>{_DOTTED})[ \t]*="
    rf"|(?P<string>{_STRING})|#[^\n]*|(?P<open>[\[{{])|(?P<close>[\]}}])|[^\"'#\[\]{{}}\n]+|\n|.",
    re.MULTILINE | re.DOTALL,
)


def places(text: str) -> dict[Path, Place]:
    """The line and column of each table and key that starts a line; the text parses as TOML.

    A value inside of an array or an inline table has no place of its own: take the place of the
    key before it.
    """
    text = text.replace("\r\n", "\n")
    found: dict[Path, Place] = {}
    counts: dict[Path, int] = {}
    table: Path = ()
    nested = at = 0
    line, start = 1, 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        assert token is not None, "the last alternative matches any character"
        if nested and token.lastgroup in ("key", "name"):
            # Inside of an array a line may look like a key; only its brackets count.
            token = re.compile(r"[^\"'#\[\]{}\n]+|.", re.DOTALL).match(text, at) or token
            nested += token[0] in ("[", "{")
        else:
            groups = token.groupdict()
            if groups["name"]:
                table = _table(_parts(groups["name"]), counts, groups["table"] == "[[")
                found.setdefault(table, (line, token.start("table") - start + 1))
            elif groups["key"]:
                path = (*table, *_parts(groups["key"]))
                found[path] = (line, token.start("key") - start + 1)
            elif groups["open"]:
                nested += 1
            elif groups["close"]:
                nested -= 1
        line += token[0].count("\n")
        if "\n" in token[0]:
            start = at + token[0].rindex("\n") + 1
        at = token.end()
    return found


def _parts(dotted: str) -> Path:
    parts = re.findall(_PART, dotted)
    return tuple(part[1:-1] if part[0] in "\"'" else part for part in parts)


def _table(name: Path, counts: dict[Path, int], several: bool) -> Path:
    """The path of a table's header; a name of an array of tables means its last table."""
    path: Path = ()
    for index, part in enumerate(name):
        path = (*path, part)
        if several and index == len(name) - 1:
            counts[path] = counts.get(path, -1) + 1
        if path in counts:
            path = (*path, counts[path])
    return path

"""Hosted: tools that a vendor runs on its own servers, by the same words for each vendor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, get_args

import msgspec

from agentic_kernel import InvalidValue

from .. import edges, values
from .fields import check_fields

HostedTool = Literal["web_search", "code", "file_search", "mcp"]
"""The words for tools that a vendor runs: a search of the web, code in a sandbox, a search in files
that the vendor stores, and the tools of an MCP server that the vendor calls."""


def hosted_tools(
    given: Any, known: Mapping[str, Mapping[str, Any]], required: Mapping[str, Sequence[str]]
) -> list[dict[str, Any]]:
    """Return the tools as a vendor's API takes them.

    Args:
        given: Words, or a mapping of words to further fields of the vendor's tool, or to a list of
            such fields for several tools.
        known: By word: the vendor's tool.
        required: By word: the fields that the user has to give.

    Raises:
        InvalidValue: There is no such word, the vendor has no such tool, or a field is missing.
    """
    if isinstance(given, str) or not isinstance(given, Sequence | Mapping):
        raise InvalidValue("hosted", f"is {edges.came(given)}; give a list, or a mapping, of names")
    tools: list[dict[str, Any]] = []
    for index, word in enumerate(given):
        if not isinstance(word, str) or word not in known:
            raise InvalidValue("hosted", _lacking(word, known))
        if not isinstance(given, Mapping) and word in given[:index]:
            raise InvalidValue(
                "hosted", f"has {word} twice; name it once, or give a mapping for several tools"
            )
        fields = given[word] if isinstance(given, Mapping) else {}
        if fields == []:
            raise InvalidValue(f"hosted.{word}", "is an empty list; give fields, or leave it out")
        for each in fields if isinstance(fields, list) else [fields]:
            made = _tool(word, known[word], each, required.get(word, ()))
            if made in tools:
                raise InvalidValue(f"hosted.{word}", "has the same fields twice; give them once")
            tools.append(made)
    return tools


def _tool(
    word: str, base: Mapping[str, Any], fields: Any, required: Sequence[str]
) -> dict[str, Any]:
    if not isinstance(fields, Mapping):
        raise InvalidValue(f"hosted.{word}", f"is {edges.came(fields)}; give a mapping of fields")
    values.check(fields, f"hosted.{word}")
    check_fields(fields, f"hosted.{word}")
    missing = [name for name in required if name not in fields]
    if missing:
        raise InvalidValue(f"hosted.{word}", f"has no {missing[0]}; give it as a field")
    own: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(fields))
    inner = next(iter(base)) if len(base) == 1 and "type" not in base else None
    return {inner: {**base[inner], **own}} if inner else {**base, **own}


def _lacking(word: Any, known: Mapping[str, Any]) -> str:
    if not isinstance(word, str) or word not in get_args(HostedTool):
        return f"has {edges.came(word)}; use only {', '.join(get_args(HostedTool))}"
    has = f"use {', '.join(known)}, or a tool of your own" if known else "use a tool of your own"
    return f"has {word}, and this API runs no such tool; {has}"


MOST_CITATIONS: Final = 100
"""The most citations of an answer that are kept."""
LONGEST_CITED: Final = 1_000
"""The most characters of each part of a citation."""


class Citations:
    """The sources that an answer names, each once, as JSON that every store keeps."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], dict[str, str]] = {}

    def add(self, url: Any, title: Any, text: Any = "") -> None:
        """Keep a source: its address, its title, and the text in it that is cited.

        A part that is not a text, or that no store accepts, counts as empty.
        """
        address, name, cited = _kept(url), _kept(title), _kept(text)
        if (address or name) and len(self._found) < MOST_CITATIONS:
            parts = {"url": address, "title": name, "text": cited}
            told = {key: value for key, value in parts.items() if value}
            self._found.setdefault((address, name), told)

    @property
    def further(self) -> dict[str, Any]:
        """The part of `Plan.provider` that has them; empty without one."""
        return {"citations": list(self._found.values())} if self._found else {}


def citations_of(provider: Mapping[str, Any] | None) -> list[dict[str, str]]:
    """Return the sources that an answer names, from its `Plan.provider`."""
    found = (provider or {}).get("citations", ())
    return [dict(each) for each in found]


def _kept(part: Any) -> str:
    if not isinstance(part, str):
        return ""
    cut = part[:LONGEST_CITED]
    try:
        values.check_text(cut, "citation")
    except InvalidValue:
        return ""
    return str.__str__(cut)

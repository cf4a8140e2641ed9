"""Catalog: `Capability` and `Agent`, two pure value objects that the layer above loads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

from .errors import InvalidValue
from .frozen import EMPTY_DICT, FrozenDict, freeze, shown


def plain_text(value: Any, path: str) -> str:
    """Return the value as a plain string, also for a subclass of str (an enum member, say).

    Raises:
        InvalidValue: The value is not a string.
    """
    if type(value) is str:
        return value
    if not isinstance(value, str):
        raise InvalidValue(path, f"must be a string, not {type(value).__name__}")
    plain: str = str.__str__(value)
    return plain


def check_form(value: Any, path: str) -> str:
    """Return ``value`` if it has the form of a scoped name, ``<scope>/<name>``.

    A stored snapshot must pass this check. A new name must pass the stricter `check_name`.

    Raises:
        InvalidValue: The name does not have exactly one slash, a part is empty, or a character is
            a blank or is not printable.
    """
    text = plain_text(value, path)
    scope, slash, name = text.partition("/")
    if not (scope and slash and name) or "/" in name:
        raise InvalidValue(path, f"{shown(text)} is not of the form <scope>/<name>")
    if " " in text or not text.isprintable():
        raise InvalidValue(path, f"{shown(text)} has white space, control or invisible characters")
    return text


def check_name(value: Any, path: str) -> str:
    """Return ``value`` if it is a scoped name, ``<scope>/<name>``.

    A scoped name has exactly one slash, two non-empty parts, printable characters only and no
    blanks. Control characters, bidirectional overrides, zero-width characters, fillers and
    variation selectors are refused, because they would hide a part of the name.

    Raises:
        InvalidValue: ``value`` is not such a name.
    """
    text = plain_text(value, path)
    return _named(text, path) if len(text) <= _SHORT else _checked(text, path)


def _checked(text: str, path: str) -> str:
    check_form(text, path)
    if not text.isascii() and not _unseen().isdisjoint(text):
        unseen = next(character for character in text if character in _unseen())
        raise InvalidValue(
            path, f"{shown(text)} has the invisible character U+{ord(unseen):04X}; remove it"
        )
    return text


_SHORT = 128
"""The most characters of a name that `_named` remembers, so that it holds little memory."""
_named = lru_cache(maxsize=1024)(_checked)
"""`_checked` with a memory: every Task gets notes, and their keys are few."""


@cache
def _unseen() -> frozenset[str]:
    """The characters that Python calls printable and that a reader cannot see.

    They are the code points that Unicode calls default-ignorable (DerivedCoreProperties.txt), and
    other code points with a blank glyph. They are made when a name first needs them, because most
    names are ASCII.
    """
    ranges = (
        (0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x2065, 0x2065),
        (0x2800, 0x2800), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8),
        (0x13441, 0x13442), (0x16FE4, 0x16FE4), (0x1D159, 0x1D159), (0xE0000, 0xE0FFF),
    )  # fmt: skip
    return frozenset(chr(code) for first, last in ranges for code in range(first, last + 1))


@dataclass(frozen=True, slots=True)
class Capability:
    """A loadable primitive that extends an Agent's repertoire, known to the kernel by name only.

    The loader decides what the name resolves to.

    Raises:
        InvalidValue: The name is not of the form ``<scope>/<name>``.
    """

    name: str
    """Scoped name, ``<scope>/<name>``."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", check_name(self.name, "Capability.name"))


@dataclass(frozen=True, slots=True)
class Agent:
    """A static, named bundle of capabilities: a definition, not a running thing.

    An Agent has no id: the scoped name is the handle. It has no runtime kind: a Task names one.

    Raises:
        InvalidValue: A name is not scoped, or the metadata cannot be frozen.
    """

    name: str
    """Scoped name, ``<scope>/<name>``; the unique handle."""
    capabilities: tuple[Capability, ...] = ()
    """Flat and resolved; order and duplicates are kept. Strings are accepted as names."""
    metadata: Mapping[str, Any] = field(default_factory=lambda: EMPTY_DICT)
    """Open key/value pairs that the kernel never interprets."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", check_name(self.name, "Agent.name"))
        if not isinstance(self.capabilities, (list, tuple)):
            raise InvalidValue(
                "Agent.capabilities",
                f"must be a list or tuple of names, not {type(self.capabilities).__name__}",
            )
        listed = []
        for index, entry in enumerate(self.capabilities):
            if not isinstance(entry, Capability):
                entry = Capability(check_name(entry, f"Agent.capabilities[{index}]"))
            listed.append(entry)
        object.__setattr__(self, "capabilities", tuple(listed))
        object.__setattr__(self, "metadata", freeze_mapping(self.metadata, "Agent.metadata"))

    def __hash__(self) -> int:
        return hash(self.name)


def freeze_mapping(value: Any, path: str) -> Mapping[str, Any]:
    """Return the frozen mapping; ``None`` gives an empty mapping.

    Raises:
        InvalidValue: The value is not a mapping, or a part of it cannot be frozen.
    """
    if value is None:
        return EMPTY_DICT
    if type(value) is FrozenDict:
        return value
    if not isinstance(value, Mapping):
        raise InvalidValue(path, f"must be a mapping, not {type(value).__name__}")
    frozen: Mapping[str, Any] = freeze(value, path)
    return frozen

"""Catalog: what can exist. Two value objects, pure data, loaded by the layer above the kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import InvalidValue
from .frozen import EMPTY_DICT, FrozenDict, freeze, shown


def plain_text(value: Any, path: str) -> str:
    """The value as a plain string, whatever subclass of one it is (an enum member, say).

    Raises:
        InvalidValue: It is no string.
    """
    if type(value) is str:
        return value
    if not isinstance(value, str):
        raise InvalidValue(path, f"must be a string, not {type(value).__name__}")
    plain: str = str.__str__(value)
    return plain


def check_form(value: Any, path: str) -> str:
    """Return ``value`` if it has the form of a scoped name, ``<scope>/<name>``.

    This is what a snapshot that was stored must keep; `check_name` is what a new name must keep.

    Raises:
        InvalidValue: It has not exactly one slash, a part is empty, or a character of it is a
            blank or is not printable.
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

    Exactly one slash, both parts non-empty, printable throughout and without blanks: control
    characters, bidirectional overrides, zero-width characters, fillers and variation selectors are
    refused, because a name must not hide a part of itself.

    Raises:
        InvalidValue: It is not.
    """
    text = check_form(value, path)
    if not text.isascii() and not _UNSEEN.isdisjoint(text):
        unseen = next(character for character in text if character in _UNSEEN)
        raise InvalidValue(
            path, f"{shown(text)} has the invisible character U+{ord(unseen):04X}; remove it"
        )
    return text


def _unseen() -> Iterator[str]:
    """What Python calls printable and no reader can see.

    The code points that Unicode calls default-ignorable (DerivedCoreProperties.txt), and those of
    other kinds whose glyph is blank.
    """
    for first, last in (
        (0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x2065, 0x2065),
        (0x2800, 0x2800), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8),
        (0x13441, 0x13442), (0x16FE4, 0x16FE4), (0x1D159, 0x1D159), (0xE0000, 0xE0FFF),
    ):  # fmt: skip
        yield from map(chr, range(first, last + 1))


_UNSEEN = frozenset(_unseen())


@dataclass(frozen=True, slots=True)
class Capability:
    """A loadable primitive that extends an Agent's repertoire, known to the kernel by name only.

    What the name resolves to is the loader's concern.

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

    It has no id (the scoped name is the handle) and no runtime kind (that is chosen per Task).

    Raises:
        InvalidValue: A name is not scoped, or the metadata cannot be frozen.
    """

    name: str
    """Scoped name, ``<scope>/<name>``; the unique handle."""
    capabilities: tuple[Capability, ...] = ()
    """Flat and already resolved; order and duplicates are kept. Names are accepted as strings."""
    metadata: Mapping[str, Any] = field(default_factory=lambda: EMPTY_DICT)
    """Open key/value bag that the kernel never interprets."""

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
    """A frozen mapping; ``None`` gives the empty one.

    Raises:
        InvalidValue: It is not a mapping, or holds something that cannot be frozen.
    """
    if value is None:
        return EMPTY_DICT
    if type(value) is FrozenDict:
        return value
    if not isinstance(value, Mapping):
        raise InvalidValue(path, f"must be a mapping, not {type(value).__name__}")
    frozen: Mapping[str, Any] = freeze(value, path)
    return frozen

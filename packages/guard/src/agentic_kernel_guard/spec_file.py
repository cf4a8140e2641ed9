"""SpecFile: what a person says about the capabilities of a server, beside its own words.

A server's descriptions and annotations are its own claims. The file refines the specs that are made
of them: names, safety class, sensitivity, fields. It is YAML or TOML, read as a rule file is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, get_args

from agentic_kernel import InvalidValue

from .firewall import ResponseMode
from .rules.text import Form, Node, RuleError, nodes
from .spec import CapabilitySpec

MOST: Final = 2_000
"""The most capabilities of one file."""
_FIELDS: Final = (
    "description", "safety", "idempotent", "sensitivity", "allowed_fields", "sensitive_fields",
    "tags",
)  # fmt: skip
_SETS: Final = frozenset({"allowed_fields", "sensitive_fields", "tags"})


@dataclass(frozen=True, slots=True)
class Refinement:
    """The part of a spec file about one tool."""

    tool: str
    """The server's name of the tool."""
    name: str = ""
    """Name of the capability; empty for the one that it has without the file."""
    offered: bool = True
    """False if no principal gets the tool."""
    mode: ResponseMode | None = None
    """The form in which results are shown; None for the usual one."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `CapabilitySpec` with their values."""
    line: int = 0
    column: int = 0


@dataclass(frozen=True, slots=True)
class SpecFile:
    """The refinements of a file, by the server's names of the tools."""

    refinements: Mapping[str, Refinement] = field(default_factory=dict)
    trusted: bool = True
    """False if each tool counts as destructive that the file gives no safety class."""

    def refined(self, spec: CapabilitySpec, tool: str) -> CapabilitySpec | None:
        """A spec with what the file says about its tool; None if no principal gets it.

        Raises:
            RuleError: The file says something that does not fit the spec.
        """
        said = self.refinements.get(tool)
        if said is None:
            return spec
        if not said.offered:
            return None
        fields = dict(said.fields)
        if said.name:
            fields["name"] = said.name
        try:
            return replace(spec, **fields)
        except InvalidValue as error:
            raise RuleError(f"{tool}: {error}", said.line, said.column) from None

    def check(self, tools: Collection[str]) -> None:
        """Check that the server has each tool that the file names.

        Raises:
            RuleError: It has not.
        """
        for name, said in self.refinements.items():
            if name not in tools:
                known = ", ".join(sorted(tools)[:20]) or "none"
                raise RuleError(
                    f"the server has no tool {name!a:.200}; it has {known}", said.line, said.column
                )


def parse(text: str, form: Form = "yaml") -> SpecFile:
    """The refinements of a file.

    Raises:
        RuleError: The file does not parse or says something wrong; the error has the place.
    """
    root = nodes(text, form)
    said = _mapping(root, "the file", ("version", "trust_annotations", "capabilities"))
    version = said.get("version")
    if version is None or version.value != 1 or isinstance(version.value, bool):
        raise (version or root).wrong("the version is 1; write version: 1")
    trusted = _flag(said["trust_annotations"]) if "trust_annotations" in said else True
    found: dict[str, Refinement] = {}
    listed = said.get("capabilities")
    if listed is not None:
        if not isinstance(listed.value, list) or len(listed.value) > MOST:
            raise listed.wrong(f"capabilities is a list of up to {MOST:,}")
        for node in listed.value:
            each = _refinement(node)
            if each.tool in found:
                raise node.wrong(f"{each.tool!a:.200} is there twice; keep one")
            found[each.tool] = each
    return SpecFile(found, trusted)


def _refinement(node: Node) -> Refinement:
    said = _mapping(node, "a capability", ("tool", "name", "offered", "mode", *_FIELDS))
    if "tool" not in said:
        raise node.wrong("a capability names its tool; add it")
    mode = None
    if "mode" in said:
        mode = said["mode"].value
        if mode not in get_args(ResponseMode):
            raise said["mode"].wrong(f"use one of {', '.join(get_args(ResponseMode))}")
    fields: dict[str, Any] = {}
    for word in _FIELDS:
        if word not in said:
            continue
        value = said[word]
        if word in _SETS:
            if not isinstance(value.value, list):
                raise value.wrong(f"{word} is a list of texts")
            fields[word] = frozenset(map(_text, value.value))
        else:
            fields[word] = _flag(value) if word == "idempotent" else _text(value)
    return Refinement(
        _text(said["tool"]),
        _text(said["name"]) if "name" in said else "",
        _flag(said["offered"]) if "offered" in said else True,
        mode,
        fields,
        node.line,
        node.column,
    )


def _mapping(node: Node, what: str, known: tuple[str, ...]) -> dict[str, Node]:
    if not isinstance(node.value, dict):
        raise node.wrong(f"{what} is a mapping of names to values")
    for key, each in node.value.items():
        if key not in known:
            raise each.wrong(f"{what} has no {key!a:.80}; known are {', '.join(known)}")
    found: dict[str, Node] = node.value
    return found


def _text(node: Node) -> str:
    if not isinstance(node.value, str) or not node.value or len(node.value) > 10_000:
        raise node.wrong("must be a text of 1 to 10,000 characters")
    return node.value


def _flag(node: Node) -> bool:
    if not isinstance(node.value, bool):
        raise node.wrong("must be true or false")
    return node.value

"""Text of a rule file, read into nodes that know their line and column.

YAML is read from its events, so that nothing is built before it is counted. Anchors, tags,
duplicate keys, and scalars that YAML reads in surprising ways (``no``, ``010``) are refused.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from typing import Any, Final, Literal

import yaml
from yaml.resolver import Resolver

from agentic_kernel import KernelError
from agentic_kernel.frozen import shown

from .toml_places import places

Form = Literal["yaml", "toml"]

MAX_BYTES: Final = 1024 * 1024
"""The longest rule file, in bytes."""
MAX_NODES: Final = 100_000
"""The most values of a rule file, keys included."""
MAX_DEPTH: Final = 12
"""The deepest nesting of a rule file."""

_INT: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,14})", re.ASCII)
_FLOAT: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,14})\.[0-9]{1,15}", re.ASCII)
_CONSTANTS: Final[dict[str, Any]] = {"true": True, "false": False, "null": None}
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_RESOLVER: Final[Any] = Resolver()


class RuleError(KernelError, ValueError):
    """A rule file cannot be used; while it is in place, everything is denied.

    Attributes:
        problem: The fault and its remedy.
        line: The line, from 1; 0 if it is not known.
        column: The column, from 1; 0 if it is not known.
    """

    def __init__(self, problem: str, line: int = 0, column: int = 0) -> None:
        self.problem = problem
        self.line = line
        self.column = column
        super().__init__(problem, line, column)

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.problem}"


@dataclass(slots=True)
class Node:
    """A value of a rule file: a scalar, a list of nodes, or a dict of nodes by key."""

    value: Any
    line: int
    column: int

    def wrong(self, problem: str) -> RuleError:
        """The error about this value."""
        return RuleError(problem, self.line, self.column)

    def plain(self) -> Any:
        """The value without places."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value


def nodes(text: str, form: Form) -> Node:
    """The nodes of a rule file.

    Raises:
        RuleError: It does not parse, is too large or too deep, or uses a refused part of YAML.
    """
    if not isinstance(text, str):
        raise RuleError(f"must be a text, not {type(text).__name__}")
    if form not in ("yaml", "toml"):
        raise RuleError(f"has no form {shown(form)}; use yaml or toml")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise RuleError("has a lone surrogate; save the file as UTF-8") from None
    if size > MAX_BYTES:
        raise RuleError(f"is {size:,} bytes long; use up to {MAX_BYTES:,}")
    return _yaml(text) if form == "yaml" else _toml(text)


def _yaml(text: str) -> Node:
    try:
        loader = _LOADER(text)
        try:
            return _Composer(loader).document()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        if "nesting depth" in str(error.problem):  # PyYAML 6.0.4 has a limit of its own.
            raise RuleError(
                f"is nested deeper than {MAX_DEPTH}; flatten it", line, column
            ) from None
        raise RuleError(f"does not parse as YAML: {error.problem}", line, column) from None
    except yaml.YAMLError as error:
        raise RuleError(f"does not parse as YAML: {str(error)[:200]}") from None


class _Composer:
    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._left = MAX_NODES

    def document(self) -> Node:
        self._loader.get_event()
        start = self._loader.get_event()
        if isinstance(start, yaml.StreamEndEvent):
            raise RuleError("is empty; write at least one rule", 1, 1)
        root = self._node(self._loader.get_event(), 1)
        self._loader.get_event()
        after = self._loader.get_event()
        if not isinstance(after, yaml.StreamEndEvent):
            raise self._at(after, "has a second document; use one file for each")
        return root

    def _at(self, event: Any, problem: str) -> RuleError:
        return RuleError(problem, event.start_mark.line + 1, event.start_mark.column + 1)

    def _node(self, event: Any, depth: int) -> Node:
        self._left -= 1
        if self._left < 0:
            raise self._at(event, f"has over {MAX_NODES:,} values; split the file")
        if depth > MAX_DEPTH:
            raise self._at(event, f"is nested deeper than {MAX_DEPTH}; flatten it")
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise self._at(event, "uses an anchor or an alias; write the value out")
        if event.tag is not None:
            raise self._at(event, f"uses the tag {shown(event.tag)}; remove it")
        where = (event.start_mark.line + 1, event.start_mark.column + 1)
        if isinstance(event, yaml.ScalarEvent):
            return Node(self._scalar(event), *where)
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[Node] = []
            while not isinstance(each := self._loader.get_event(), yaml.SequenceEndEvent):
                items.append(self._node(each, depth + 1))
            return Node(items, *where)
        found: dict[str, Node] = {}
        while not isinstance(each := self._loader.get_event(), yaml.MappingEndEvent):
            key = self._node(each, depth + 1)
            if not isinstance(key.value, str):
                raise key.wrong("is a key, and keys are texts; put it in quotes")
            if key.value in found:
                raise key.wrong(f"the key {shown(key.value)} stands here twice; keep one")
            found[key.value] = self._node(self._loader.get_event(), depth + 1)
        return Node(found, *where)

    def _scalar(self, event: Any) -> Any:
        text: str = event.value
        if event.style:  # None or "" for plain, by the loader
            return text
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if _INT.fullmatch(text):
            return int(text)
        if _FLOAT.fullmatch(text):
            return float(text)
        if _RESOLVER.resolve(yaml.ScalarNode, text, (True, False)) != "tag:yaml.org,2002:str":
            raise self._at(
                event,
                f"{shown(text)} is not plain text to every reader of YAML; put it in quotes, or "
                "write true, false, null or a decimal number",
            )
        return text


def _toml(text: str) -> Node:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
        line, column = (int(found[1]), int(found[2])) if found else (text.count("\n") + 1, 1)
        problem = re.sub(r" \(at .*\)$", "", str(error))
        raise RuleError(f"does not parse as TOML: {problem}", line, column) from None
    except (RecursionError, ValueError) as error:
        raise RuleError(f"does not parse as TOML: {type(error).__name__}; simplify it") from None
    known = places(text)
    left = [MAX_NODES]

    def node(value: Any, path: tuple[str | int, ...], at: tuple[int, int]) -> Node:
        at = known.get(path, at)
        left[0] -= 1
        if left[0] < 0:
            raise RuleError(f"has over {MAX_NODES:,} values; split the file", *at)
        if len(path) >= MAX_DEPTH:
            raise RuleError(f"is nested deeper than {MAX_DEPTH}; flatten it", *at)
        if isinstance(value, dict):
            return Node({key: node(each, (*path, key), at) for key, each in value.items()}, *at)
        if isinstance(value, list):
            return Node([node(each, (*path, n), at) for n, each in enumerate(value)], *at)
        if not isinstance(value, (str, bool, int, float)):
            raise RuleError("is a date or a time; put it in quotes", *at)
        return Node(value, *at)

    return node(data, (), (1, 1))

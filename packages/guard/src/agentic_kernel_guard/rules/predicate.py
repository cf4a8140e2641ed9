"""Predicate: what a rule asks of one argument."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import re2

from .text import Node, RuleError

MAX_PATTERN: Final = 1_000
"""The longest pattern, in characters."""

ABSENT: Final = object()
"""Stands for an argument that was not given."""

Test = Callable[[Any], bool | None]
"""True or False, or None if a value of this type cannot be compared."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """The tests of a rule for one argument. All of its tests must hold."""

    name: str
    """The argument; a name that starts with ``/`` is a JSON Pointer to a part of one."""
    tests: tuple[tuple[str, Test], ...]
    required: bool = True

    def failed(self, arguments: Mapping[str, Any]) -> str:
        """The name of the first test that does not hold; "" if all of them do.

        Raises:
            TypeError: The argument is of a type that a test cannot compare.
        """
        value = find(arguments, self.name)
        if value is ABSENT:
            return "required" if self.required else ""
        for word, test in self.tests:
            held = test(value)
            if held is None:
                raise TypeError(
                    f"the argument {ascii(self.name)[:60]} is a {type(value).__name__}, which "
                    f"{word} cannot compare"
                )
            if not held:
                return word
        return ""


def find(arguments: Mapping[str, Any], name: str) -> Any:
    """The argument of a name, or `ABSENT`."""
    if not name.startswith("/"):
        return arguments.get(name, ABSENT)
    part: Any = arguments
    for step in name[1:].split("/"):
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(part, Mapping):
            part = part.get(key, ABSENT)
        elif isinstance(part, (list, tuple)) and key.isascii() and key.isdecimal():
            part = part[int(key)] if len(key) < 7 and int(key) < len(part) else ABSENT
        else:
            return ABSENT
    return part


def same(one: Any, other: Any) -> bool:
    """True for equal values of JSON; unlike ``==``, True is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def predicate(name: str, node: Node) -> Predicate:
    """The predicate that a rule file gives for an argument.

    Raises:
        RuleError: It is empty, has an unknown word, or a value that its word cannot use.
    """
    if not isinstance(node.value, dict) or not node.value:
        raise node.wrong(f"give tests as a mapping, of: {', '.join([*_MAKERS, 'required'])}")
    tests: list[tuple[str, Test]] = []
    required = True
    for word, value in node.value.items():
        if word == "required":
            if not isinstance(value.value, bool):
                raise value.wrong("required is true or false")
            required = value.value
        elif word in _MAKERS:
            tests.append((word, _MAKERS[word](value)))
        else:
            known = ", ".join([*_MAKERS, "required"])
            raise value.wrong(f"{ascii(word)[:60]} is not a test; use one of {known}")
    if not tests and not required:
        raise node.wrong("asks nothing of the argument; remove it, or add a test")
    return Predicate(name, tuple(tests), required)


def pattern(data: Mapping[str, Any]) -> tuple[Predicate, ...]:
    """The predicates of plain data: tests by the name of the argument.

    Raises:
        RuleError: A predicate is empty or wrong.
    """

    def node(value: Any) -> Node:
        if isinstance(value, Mapping):
            return Node({key: node(each) for key, each in value.items()}, 0, 0)
        if isinstance(value, (list, tuple)):
            return Node([node(each) for each in value], 0, 0)
        return Node(value, 0, 0)

    return tuple(predicate(name, node(tests)) for name, tests in data.items())


def _equals(node: Node) -> Test:
    wanted = node.plain()
    return lambda value: same(value, wanted)


def _one_of(node: Node) -> Test:
    if not isinstance(node.value, list) or not node.value:
        raise node.wrong("one_of is a list of at least one value")
    wanted = node.plain()
    return lambda value: any(same(value, each) for each in wanted)


def _contains(node: Node) -> Test:
    wanted = node.plain()

    def test(value: Any) -> bool | None:
        if isinstance(value, str):
            return wanted in value if isinstance(wanted, str) else None
        if isinstance(value, (list, tuple)):
            return any(same(each, wanted) for each in value)
        return None

    if wanted == "" or isinstance(wanted, (dict, list)):
        raise node.wrong("contains is a text that is not empty, a number or a boolean")
    return test


def _regex(node: Node) -> Test:
    if not isinstance(node.value, str) or not node.value:
        raise node.wrong("regex is a text that is not empty")
    pattern = compiled(node.value, node)
    return lambda value: bool(pattern.fullmatch(value)) if isinstance(value, str) else None


def compiled(pattern: str, node: Node) -> Any:
    """The pattern, compiled by RE2, which runs in linear time.

    Raises:
        RuleError: It is too long, or RE2 does not accept it.
    """
    if len(pattern) > MAX_PATTERN:
        raise node.wrong(f"has {len(pattern):,} characters; use up to {MAX_PATTERN:,}")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        said = error.args[0] if error.args else "not accepted"
        said = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        raise node.wrong(f"RE2 does not accept the pattern: {said[:200]}") from None


def _bound(holds: Callable[[Any, Any], bool], word: str) -> Callable[[Node], Test]:
    def make(node: Node) -> Test:
        wanted = node.value
        if isinstance(wanted, bool) or not isinstance(wanted, (int, float)):
            raise node.wrong(f"{word} is a number")
        if not math.isfinite(wanted):
            raise node.wrong(f"{word} is a finite number")

        def test(value: Any) -> bool | None:
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                return None
            return None if value != value else holds(value, wanted)

        return test

    return make


def _max_len(node: Node) -> Test:
    wanted = node.value
    if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 0:
        raise node.wrong("max_len is a whole number of at least 0")
    return lambda value: len(value) <= wanted if hasattr(value, "__len__") else None


_MAKERS: Final[dict[str, Callable[[Node], Test]]] = {
    "equals": _equals,
    "one_of": _one_of,
    "contains": _contains,
    "regex": _regex,
    "min": _bound(lambda value, least: value >= least, "min"),
    "max": _bound(lambda value, most: value <= most, "max"),
    "max_len": _max_len,
}

__all__ = ["ABSENT", "Predicate", "RuleError", "compiled", "find", "pattern", "predicate", "same"]

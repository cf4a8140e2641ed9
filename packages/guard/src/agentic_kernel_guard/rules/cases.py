"""Cases: tests that stand in a rule file beside its rules."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from .ruleset import Asked, RuleSet, Verdict
from .text import Form, Node, nodes
from .writing import parse

NOON: Final = datetime(2026, 1, 5, 12, tzinfo=UTC)
"""The moment of a case that names none: a Monday at noon."""
_TEXTS: Final = ("principal", "tenant", "agent", "safety")
_SETS: Final = ("roles", "carries", "has_read")
_KNOWN: Final = (
    "name", "capability", "expect", "rule", "arguments", "at", "roles", "labels", "step_count",
    "duration_ms", "carries", "has_read", *_TEXTS,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """A request, and what the rules must say to it."""

    name: str
    asked: Asked
    expect: str
    """``allow``, ``deny`` or ``require_approval``."""
    rule: str
    """The rule that must decide; empty for any."""
    line: int

    def failed(self, rules: RuleSet) -> Verdict | None:
        """The verdict, if it is another one than the case expects."""
        said = rules.decide(self.asked)
        met = said.effect == self.expect and self.rule in ("", said.rule)
        return None if met else said


def cases(text: str, form: Form = "yaml") -> tuple[Case, ...]:
    """The cases of a rule file.

    Raises:
        RuleError: The file cannot be used, or a case is wrong.
    """
    parse(text, form)
    listed = nodes(text, form).value.get("tests")
    if listed is None:
        return ()
    if not isinstance(listed.value, list) or not listed.value:
        raise listed.wrong("tests is a list of at least one case")
    return tuple(map(_case, listed.value))


def _case(node: Node) -> Case:
    if not isinstance(node.value, dict):
        raise node.wrong("a case is a mapping")
    said: dict[str, Node] = node.value
    for key, each in said.items():
        if key not in _KNOWN:
            raise each.wrong(f"a case has no {ascii(key)[:60]}; known are {', '.join(_KNOWN)}")
    for key in ("name", "capability", "expect"):
        if key not in said or not isinstance(said[key].value, str):
            raise node.wrong(f"a case has a {key}, which is a text")
    if said["expect"].value not in ("allow", "deny", "require_approval"):
        raise said["expect"].wrong("expect is allow, deny or require_approval")
    given: dict[str, Any] = {}
    for key, kind in (
        ("arguments", dict), ("labels", dict), *((word, list) for word in _SETS),
        ("step_count", int), ("duration_ms", int), *((word, str) for word in _TEXTS), ("rule", str),
    ):  # fmt: skip
        if key in said:
            if type(said[key].value) is not kind:
                raise said[key].wrong(f"{key} is a {kind.__name__}")
            given[key] = said[key].plain()
    if not all(isinstance(each, str) for each in given.get("labels", {}).values()):
        raise said["labels"].wrong("labels are texts")
    for word in _SETS:
        if not all(isinstance(each, str) for each in given.get(word, ())):
            raise said[word].wrong(f"{word} are texts")
        given[word] = frozenset(given.get(word, ()))
    rule = given.pop("rule", "")
    asked = Asked(
        said["capability"].value,
        given.pop("arguments", {}),
        _moment(said["at"]) if "at" in said else NOON,
        **given,
    )
    return Case(said["name"].value, asked, said["expect"].value, rule, node.line)


def _moment(node: Node) -> datetime:
    at: datetime | None = None
    with contextlib.suppress(TypeError, ValueError):
        at = datetime.fromisoformat(node.value)
    if at is None or at.tzinfo is None:
        raise node.wrong('at is a time with its zone, in quotes, e.g. "2026-01-05T12:00:00+00:00"')
    return at

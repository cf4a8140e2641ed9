"""Writing: what a rule file may say, checked with line and column."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, time, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo

from agentic_kernel.frozen import shown

from .predicate import compiled, predicate
from .rule import Approval, Globs, Limit, Rule, Window
from .ruleset import RuleSet
from .text import Form, Node, RuleError, nodes
from .visible import alike, name_fault

MAX_RULES: Final = 10_000
"""The most rules of one file."""
DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
_HOURS: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)", re.ASCII)


def parse(text: str, form: Form = "yaml") -> RuleSet:
    """The rules of a file.

    Raises:
        RuleError: The file does not parse or says something wrong; the error has the place.
    """
    root = nodes(text, form)
    # The tests beside the rules are read by `cases`; they decide nothing.
    said = _fields(root, "the file", required=("version", "rules"), optional=("tests",))
    if said["version"].value != 1 or isinstance(said["version"].value, bool):
        raise said["version"].wrong("the version is 1")
    listed = said["rules"]
    if not isinstance(listed.value, list) or not listed.value:
        raise listed.wrong("rules is a list of at least one rule")
    if len(listed.value) > MAX_RULES:
        raise listed.wrong(f"has {len(listed.value):,} rules; use up to {MAX_RULES:,}")
    rules: list[Rule] = []
    names: dict[str, int] = {}
    priorities: dict[int, str] = {}
    for node in listed.value:
        rule = _rule(node)
        if rule.name in names:
            raise node.wrong(f"line {names[rule.name]} has a rule {rule.name}, too; rename one")
        if rule.priority in priorities:
            other = priorities[rule.priority]
            raise node.wrong(f"{rule.name} and {other} have the same priority {rule.priority}")
        names[rule.name] = node.line
        priorities[rule.priority] = rule.name
        rules.append(rule)
    return RuleSet(rules)


def read(text: str, form: Form = "yaml") -> RuleSet:
    """The rules of a file; if it cannot be used, a rule set that denies everything."""
    try:
        return parse(text, form)
    except RuleError as error:
        return RuleSet((), error)


def _rule(node: Node) -> Rule:
    said = _fields(
        node,
        "a rule",
        required=("name", "priority", "effect", "match"),
        optional=("reason", "arguments", "when", "limit", "approval"),
    )
    name = _text(said["name"])
    if not _NAME.fullmatch(name):
        raise said["name"].wrong("a name has up to 100 letters, digits, dots, dashes, underlines")
    effect: Any = _choice(said["effect"], ("allow", "deny", "require_approval"))
    if "approval" in said and effect != "require_approval":
        raise said["approval"].wrong(f"approval goes with require_approval, not with {effect}")
    if "limit" in said and effect == "deny":
        raise said["limit"].wrong("a limit goes with allow or require_approval, not with deny")
    arguments = said.get("arguments")
    return Rule(
        name,
        _whole(said["priority"], 0),
        effect,
        **_match(said["match"]),
        arguments=tuple(
            predicate(name, each) for name, each in _some(arguments, "arguments").items()
        )
        if arguments
        else (),
        **(_when(said["when"]) if "when" in said else {}),
        limit=_limit(said["limit"]) if "limit" in said else None,
        approval=_approval(said["approval"]) if "approval" in said else Approval(),
        reason=_text(said["reason"]) if "reason" in said else "",
        line=node.line,
    )


def _match(node: Node) -> dict[str, Any]:
    words = ("capability", "agent", "principal", "tenant", "role")
    said = _fields(node, "match", optional=(*words, "safety", "labels"))
    if not said:
        raise node.wrong('match is empty; to match everything, write capability: "*"')
    found: dict[str, Any] = {word: _globs(said[word]) for word in words if word in said}
    if "safety" in said:
        known = ("read", "write", "destructive")
        found["safety"] = frozenset(_choice(each, known) for each in _list(said["safety"]))
    if "labels" in said:
        labels = _some(said["labels"], "labels")
        found["labels"] = tuple((name, _globs(each)) for name, each in labels.items())
    return found


def _globs(node: Node) -> Globs:
    patterns = tuple(_text(each) for each in _list(node))
    wild = [pattern for pattern in patterns if "*" in pattern or "?" in pattern]
    joined = "|".join(map(_as_regex, wild))
    return Globs(
        patterns,
        frozenset(patterns) - frozenset(wild),
        compiled(f"(?s:{joined})", node) if wild else None,
    )


def _as_regex(glob: str) -> str:
    words = {"*": ".*", "?": "."}
    return "".join(words.get(char) or re.escape(char) for char in glob)


def _when(node: Node) -> dict[str, Any]:
    counts, sources = ("min_step_count", "min_duration_ms"), ("carries", "has_read")
    said = _fields(node, "when", optional=("hours", "days", "timezone", *counts, *sources))
    if not said:
        raise node.wrong("when is empty; remove it, or say a time, a count or a source")
    found: dict[str, Any] = {word: _whole(said[word], 1) for word in counts if word in said}
    found |= {word: _globs(said[word]) for word in sources if word in said}
    if "hours" in said or "days" in said:
        found["window"] = _window(said)
    elif "timezone" in said:
        raise said["timezone"].wrong("a time zone goes with hours or days")
    return found


def _window(said: dict[str, Node]) -> Window:
    start = end = time(0)
    if "hours" in said:
        hours = _HOURS.fullmatch(_text(said["hours"]))
        if hours is None:
            raise said["hours"].wrong('hours are of the form "09:00-17:30"')
        start, end = time(int(hours[1]), int(hours[2])), time(int(hours[3]), int(hours[4]))
        if start == end:
            raise said["hours"].wrong("hours start and end at the same time; leave them out")
    days = frozenset(range(7))
    if "days" in said:
        days = frozenset(DAYS.index(_choice(each, DAYS)) for each in _list(said["days"]))
    zone: tzinfo = UTC
    if "timezone" in said:
        try:
            zone = ZoneInfo(_text(said["timezone"]))
        except (ValueError, OSError, LookupError):
            raise said["timezone"].wrong("is not a time zone, e.g. Europe/Berlin") from None
    return Window(zone, days, start, end)


def _limit(node: Node) -> Limit:
    said = _fields(node, "limit", required=("calls", "seconds", "per"))
    seconds = _seconds(said["seconds"])
    per: Any = _choice(said["per"], ("principal", "tenant", "capability"))
    return Limit(_whole(said["calls"], 1, 100_000), seconds, per)


def _approval(node: Node) -> Approval:
    said = _fields(node, "approval", optional=("approvers", "timeout_seconds"))
    if not said:
        raise node.wrong("approval is empty; remove it, or name approvers or a timeout")
    approvers = tuple(map(_person, _list(said["approvers"]))) if "approvers" in said else ()
    for index, name in enumerate(approvers):
        for other in approvers[:index]:
            if alike(name, other):
                raise said["approvers"].wrong(
                    f"{shown(other)} and {shown(name)} look alike; keep one"
                )
    timeout = _seconds(said["timeout_seconds"]) if "timeout_seconds" in said else None
    return Approval(approvers, timeout)


def _person(node: Node) -> str:
    fault = name_fault(node.value)
    if fault:
        raise node.wrong(f"the approver {shown(node.value)} {fault}")
    return str(node.value)


def _fields(
    node: Node, what: str, *, required: Iterable[str] = (), optional: Iterable[str] = ()
) -> dict[str, Node]:
    if not isinstance(node.value, dict):
        raise node.wrong(f"{what} is a mapping of names to values")
    known = (*required, *optional)
    for key, each in node.value.items():
        if key not in known:
            raise each.wrong(f"{what} has no {shown(key)}; known are {', '.join(known)}")
    for key in required:
        if key not in node.value:
            raise node.wrong(f"{what} has no {key}; add it")
    found: dict[str, Node] = node.value
    return found


def _some(node: Node, what: str) -> dict[str, Node]:
    if not isinstance(node.value, dict) or not node.value:
        raise node.wrong(f"{what} is a mapping with at least one name")
    found: dict[str, Node] = node.value
    return found


def _list(node: Node) -> list[Node]:
    if not isinstance(node.value, list):
        return [node]
    if not node.value:
        raise node.wrong("the list is empty; name at least one")
    return node.value


def _text(node: Node) -> str:
    if not isinstance(node.value, str) or not node.value or len(node.value) > 1_000:
        raise node.wrong("must be a text of 1 to 1,000 characters")
    return node.value


def _choice(node: Node, known: tuple[str, ...]) -> str:
    if node.value not in known or not isinstance(node.value, str):
        raise node.wrong(f"use one of {', '.join(known)}")
    return node.value


def _whole(node: Node, least: int, most: int = 10**12) -> int:
    if isinstance(node.value, bool) or not isinstance(node.value, int):
        raise node.wrong("must be a whole number")
    if not least <= node.value <= most:
        raise node.wrong(f"is {node.value:,}; use a number from {least:,} to {most:,}")
    return node.value


def _seconds(node: Node) -> float:
    value = node.value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 10**9:
        raise node.wrong("must be a number of seconds, over 0 and up to 1,000,000,000")
    return float(value)

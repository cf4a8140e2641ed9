"""Calls of hooks: one hook, called and judged as the Loop calls it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from agentic_kernel import InvalidValue
from agentic_kernel_engine import TaskFailed, values
from agentic_kernel_engine.loop import (
    Context,
    End,
    Observation,
    Plan,
    PlannerError,
    Principal,
    ToolCall,
)
from agentic_kernel_engine.seams import Invocation, Recovery, Tool, ToolContext

from .planner_answers import expect_usage, own_plan
from .rules import RuleError, broken, expect

Given = tuple[Any, ...]
"""The arguments of a hook."""

_SEQUENCES: Final = ("transcript", "tools", "goals", "instructions", "memories")
_USED: Final = ("input_tokens", "output_tokens", "cost")


@dataclass(frozen=True, slots=True)
class Called:
    """The outcome of a call of a hook, as text that can be compared."""

    said: str


def invocation(tool: Tool, arguments: Mapping[str, Any]) -> Invocation:
    """Return a call on its way to a tool, as the Loop gives it to middleware."""
    planned = values.decode(values.encode(arguments, "arguments"))
    copy = values.decode(values.encode(arguments, "arguments"))
    reports: list[Any] = []
    principal = Principal("kit", scopes=tool.scopes)
    told = ToolContext("kit", 0, 0, "kit:0:key", principal, reports.append)
    return Invocation(tool, copy, ToolCall(tool.name, planned, "call-1"), told)


async def call(middleware: Any, hook: str, given: Given) -> Called:
    """Call a hook; expect an answer that the Loop can use, and nothing changed that must not be.

    Raises:
        RuleError: The hook breaks a rule.
    """
    before = _Before(given)
    try:
        found: Any = await getattr(middleware, hook)(*given)
    except RuleError:
        raise
    except End as end:
        before.expect_unchanged(hook)
        return Called(f"ended: {end.code} {end.message}")
    except TaskFailed as fault:
        before.expect_unchanged(hook)
        return Called(f"failed: {fault.code}")
    except Exception as error:
        raise broken("hooks", f"`{hook}` of {_shown(given)} raised {error!r:.200}") from error
    before.expect_unchanged(hook)
    if hook == "before_model":
        return Called(_question(given[0]))
    if hook == "after_model":
        return Called(_answer(given[1], found))
    if hook == "before_tool":
        return Called(f"{_invocation(given[0], before)}, {_observation(hook, found)}")
    if hook == "after_tool":
        return Called(_observation(hook, found))
    if hook == "on_error":
        right = found is None or isinstance(found, Recovery)
        expect(right, "hooks", f"`on_error` gave a {type(found).__name__}; give a Recovery or None")
        return Called(_recovery(found))
    state = given[0]
    try:
        values.check(state.variables, "variables")
        msgspec.json.encode(state)
    except (InvalidValue, TypeError) as error:
        raise broken("hooks", f"`{hook}` left a state that cannot be stored: {error}") from error
    return Called(msgspec.json.encode(state).decode())


class _Before:
    """The parts of a hook's arguments that it must not change, as they were."""

    def __init__(self, given: Given) -> None:
        self.given = given
        self.sequences: list[tuple[str, Any, list[Any]]] = []
        self.stored: list[tuple[Any, bytes]] = []
        self.tool: Tool | None = None
        self.schemas = b""
        self.shown: list[Tool] = []
        for each in given:
            if isinstance(each, Context):
                self.sequences += [
                    (name, getattr(each, name), list(getattr(each, name))) for name in _SEQUENCES
                ]
                self._hold(list(each.transcript), each.remaining)
                self.schemas = _schemas(each.tools)
                self.shown = list(each.tools)
            elif isinstance(each, Plan | Observation):
                self._hold(each)
            elif isinstance(each, Invocation):
                self._hold(each.call)
                self.tool = each.tool
                self.schemas, self.shown = _schemas([each.tool]), [each.tool]

    def _hold(self, *parts: Any) -> None:
        self.stored += [(part, msgspec.json.encode(part)) for part in parts]

    def expect_unchanged(self, hook: str) -> None:
        for name, sequence, items in self.sequences:
            same = len(sequence) == len(items) and all(
                one is other for one, other in zip(sequence, items, strict=True)
            )
            expect(same, "context", f"`{hook}` changed `{name}` in place; give the context a copy")
        for part, text in self.stored:
            kind = type(part).__name__
            same = msgspec.json.encode(part) == text
            expect(same, "context", f"`{hook}` changed a {kind} that it was given: {text!r:.150}")
        if self.schemas:
            same = _schemas(self.shown) == self.schemas
            expect(same, "context", f"`{hook}` changed a tool that it was given")


def _schemas(tools: Any) -> bytes:
    shown = [
        (each.name, each.description, each.input_schema, each.output_schema, each.timeout)
        for each in tools
    ]
    return msgspec.json.encode(shown)


def _question(seen: Context) -> str:
    """The context after `before_model`, as text; expect that the Loop can use it."""
    names = [getattr(each, "name", None) for each in seen.tools]
    right = all(isinstance(each, Tool) for each in seen.tools)
    expect(right, "hooks", f"the tools of the context are {names!a:.200}")
    for name in ("instructions", "memories", "goals"):
        texts = getattr(seen, name)
        right = not isinstance(texts, str) and all(isinstance(text, str) for text in texts)
        expect(right, "hooks", f"`{name}` of the context is {texts!a:.150}; give texts")
    try:
        values.check(seen.variables, "variables")
    except InvalidValue as error:
        raise broken("hooks", f"`before_model` left variables: {error}") from error
    right = seen.planner is None or callable(getattr(seen.planner, "plan", None))
    expect(right, "hooks", f"the planner of the context is {seen.planner!r:.100}")
    response = "" if seen.response is None else _stored(seen.response, "`before_model` answered")
    texts = [list(seen.instructions), list(seen.memories), list(seen.goals), seen.variables]
    return f"{len(seen.transcript)} {names} {msgspec.json.encode(texts).decode()} {response}"


def _answer(given: Plan, found: Any) -> str:
    if found is None:
        return "as it was"
    kind = type(found).__name__
    expect(isinstance(found, Plan), "hooks", f"`after_model` gave a {kind}; give a Plan or None")
    expect_usage(found.usage, "the usage of the changed plan")
    for part in _USED:
        was, now = getattr(given.usage, part), getattr(found.usage, part)
        said = f"{part} of the call was {was}, and {now} after `after_model`"
        expect(now >= was, "budget", f"{said}; keep the plan's usage")
    return _stored(found, "`after_model` gave")


def _stored(given: Any, doing: str) -> str:
    try:
        plan = own_plan(given)
        text = msgspec.json.encode(plan)
        values.check(msgspec.json.decode(text), "plan")
        again = msgspec.json.decode(text, type=Plan)
    except (PlannerError, InvalidValue, msgspec.ValidationError, TypeError) as error:
        raise broken("hooks", f"{doing} a plan that cannot be stored: {error}") from error
    expect(again == plan, "hooks", f"{doing} {plan!a:.150}, which is stored as {again!a:.150}")
    return text.decode()


def _invocation(seen: Invocation, before: _Before) -> str:
    tool, was = seen.tool, before.tool
    same = (
        isinstance(tool, Tool)
        and was is not None
        and (
            (tool.name, tool.handler, tool.effect, tool.idempotent)
            == (was.name, was.handler, was.effect, was.idempotent)
        )
    )
    expect(same, "hooks", f"`before_tool` put {tool!r:.80} in the place of {was!r:.80}")
    kind = type(seen.arguments).__name__
    expect(isinstance(seen.arguments, Mapping), "hooks", f"`before_tool` left arguments: a {kind}")
    try:
        values.check(dict(seen.arguments), "arguments")
    except InvalidValue as error:
        raise broken("hooks", f"`before_tool` left arguments that are no JSON: {error}") from error
    return f"{msgspec.json.encode(dict(seen.arguments)).decode()} in {tool.timeout} s"


def _observation(hook: str, found: Any) -> str:
    if found is None:
        return "as it was"
    kind = type(found).__name__
    right = isinstance(found, Observation)
    expect(right, "hooks", f"`{hook}` gave a {kind}; give an Observation or None")
    for name in ("error", "message", "call", "tool"):
        text = getattr(found, name)
        expect(isinstance(text, str), "hooks", f"`{name}` of its observation is {text!r:.100}")
    try:
        values.check(msgspec.to_builtins(found), "observation")
        values.check(found.output, "output")
    except (InvalidValue, TypeError) as error:
        raise broken("hooks", f"`{hook}` gave what cannot be stored: {error}") from error
    if found.error:
        expect(bool(found.message), "hooks", f"`{hook}` gave {found.error!a} without a message")
    return msgspec.json.encode(found).decode()


def _recovery(found: Recovery | None) -> str:
    if found is None:
        return "as it was"
    plan = "" if found.plan is None else _stored(found.plan, "`on_error` fell back on")
    return f"{found.verb} after {found.delay:g} s {plan}"


def _shown(given: Given) -> str:
    """The last argument of a hook, for a report."""
    last = given[-1]
    if isinstance(last, Context):
        return "a context"
    if isinstance(last, Invocation):
        return f"a call of {last.tool.name} with {last.arguments!a:.100}"
    return f"{last!a:.150}"

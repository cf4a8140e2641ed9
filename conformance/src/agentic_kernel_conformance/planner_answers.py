"""Answers: a planner's answer to one context, read as the Loop reads it."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from agentic_kernel import InvalidValue
from agentic_kernel_engine import values
from agentic_kernel_engine.loop import (
    LENGTH,
    NOTHING_USED,
    Context,
    Delta,
    FinalAnswer,
    Plan,
    PlannerError,
    Usage,
    plan_of,
)
from agentic_kernel_engine.seams import Planner

from .rules import broken, expect

_PIECES: Final = 1_000_000
"""The most pieces of a stream; one with more, or with more text than `LENGTH`, is endless."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    pieces: tuple[Delta, ...]
    """Empty if the planner did not stream."""
    plan: Plan

    @property
    def said(self) -> str:
        """The joined pieces of the answer itself, without those of other channels."""
        return "".join(piece.text for piece in self.pieces if not piece.channel)

    @property
    def spoken(self) -> str:
        """The text that a reader of the pieces has at the end; a piece may begin it anew."""
        text = ""
        for piece in self.pieces:
            if not piece.channel:
                text = (text if piece.at is None else text[: piece.at]) + piece.text
        return text

    @property
    def text(self) -> str:
        """The text of the plan, or else its first final answer that is a string."""
        finals = [each.output for each in self.plan.actions if isinstance(each, FinalAnswer)]
        return self.plan.text or next((each for each in finals if isinstance(each, str)), "")

    def stored(self) -> str:
        """Return the plan as it is stored."""
        return msgspec.json.encode(self.plan).decode()


async def ask(planner: Planner, context: Context) -> Answer:
    """Return the planner's answer to a context.

    Raises:
        PlannerError: The planner raised it.
        RuleError: The answer, or the error, breaks a rule.
    """
    pieces: list[Delta] = []
    try:
        given: Any = planner.plan(context)
        if hasattr(given, "__aiter__"):
            return await _streamed(given, pieces)
        return Answer((), _read(await given))
    except PlannerError as error:
        _expect_used(error, pieces)
        _, slash, name = error.code.partition("/")
        right = bool(slash and name) and not error.code.startswith("engine/")
        expect(right, "plan", f"the code {error.code!a}; use one of your own, <impl>/<code>")
        expect(bool(error.message), "plan", f"{error.code} says nothing to people")
        if error.usage is not None:
            expect_usage(error.usage, f"the usage of {error.code}")
        raise
    except (AssertionError, Warning):
        raise
    except Exception as error:
        raise broken("plan", f"`plan` raised {error!r:.300}, and no PlannerError") from error


async def _streamed(stream: AsyncIterator[Any], pieces: list[Delta]) -> Answer:
    """Read every piece and the plan, then close the stream, as the Loop does."""
    last: list[Any] = []
    length = 0
    try:
        async for piece in stream:
            if last:
                raise broken("plan", f"after the plan came {piece!r:.200}")
            if not isinstance(piece, Delta):
                last.append(piece)
                continue
            for part in (piece.text, piece.channel):
                _expect_text(part, "a piece")
            if piece.usage is not None:
                expect_usage(piece.usage, "the usage of a piece")
            pieces.append(piece)
            length += len(piece.text)
            endless = length > LENGTH or len(pieces) > _PIECES
            expect(not endless, "plan", f"no end after {len(pieces):,} pieces")
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()
    expect(bool(last), "plan", f"the stream ended after {len(pieces)} pieces without a plan")
    return Answer(tuple(pieces), _read(last[0]))


def _read(given: Any) -> Plan:
    if isinstance(given, Plan):
        expect_usage(given.usage, "the usage")
    try:
        plan = own_plan(given)
    except PlannerError as error:
        raise broken("plan", error.message) from error
    for part in (plan.text, plan.reasoning, plan.model):
        _expect_text(part, "a text of the plan")
    text = msgspec.json.encode(plan)
    try:
        again = msgspec.json.decode(text, type=Plan)
    except msgspec.ValidationError as error:
        raise broken("plan", f"it cannot be read back: {error}; stored as {text!r:.200}") from error
    expect(again == plan, "plan", f"it is stored as another: {plan!r:.200} as {again!r:.200}")
    return plan


def own_plan(given: Any) -> Plan:
    """Return an answer as a plan that holds the very parts of the answer; the Loop copies them.

    Raises:
        PlannerError: The Loop does not accept the answer.
    """
    plan_of(given)
    if isinstance(given, Plan):
        return given
    return Plan(tuple(given) if isinstance(given, (list, tuple)) else (given,))


def _expect_used(error: PlannerError, pieces: Sequence[Delta]) -> None:
    """Expect that a call that failed used no less than nothing, once it had given words."""
    if error.usage is None or not isinstance(error.usage, Usage):
        return
    spoke = any(piece.text and piece.channel != "progress" for piece in pieces)
    seen = f"{error.code} came after {len(pieces)} pieces, and says that nothing was used"
    expect(not spoke or error.usage != NOTHING_USED, "budget", f"{seen}; give None if unknown")


def expect_usage(usage: Any, what: str) -> None:
    """Expect a usage whose numbers can be added to a budget."""
    expect(isinstance(usage, Usage), "budget", f"{what} is a {type(usage).__name__}")
    for name in Usage.__struct_fields__:
        value = getattr(usage, name)
        kinds = (int, float) if name == "cost" else (int,)
        number = isinstance(value, kinds) and not isinstance(value, bool)
        right = number and math.isfinite(value) and value >= 0
        expect(right, "budget", f"{name} of {what} is {value!r}; use a finite number, 0 or more")


def _expect_text(text: Any, what: str) -> None:
    expect(isinstance(text, str), "plan", f"{what} is a {type(text).__name__}")
    try:
        values.check_text(text, what)
    except InvalidValue as error:
        raise broken("plan", str(error)) from error

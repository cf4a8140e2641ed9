"""PolicyContract: the duties of a Policy to the run that it decides about. Needs the engine."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import msgspec
import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_engine import values
from agentic_kernel_engine.loop import (
    Action,
    AskUser,
    CompleteGoal,
    Context,
    Decision,
    Delegate,
    FinalAnswer,
    Principal,
    PushGoal,
    Schedule,
    Stop,
    Thought,
    ToolCall,
)
from agentic_kernel_engine.seams import STRICTNESS, Policy, Tool

from .contract import Contract, copied, supplied
from .features import PolicyFeatures
from .planner_contexts import QUESTION, context, fingerprint, tools
from .rules import RuleError, broken, expect, in_time
from .unwinding import give_up
from .values import ACCEPTED, IDS

ACTIONS: Final[dict[str, Action]] = {
    "thought": Thought("Think."),
    "empty thought": Thought(""),
    "goal": PushGoal("Below"),
    "goal completed": CompleteGoal(),
    "spawn": Delegate("spawn", instructions="Do it", summary="It", agent="somebody"),
    "spawn for nobody": Delegate("spawn"),
    "join": Delegate("join", child="0190a000-0000-7000-8000-000000000001"),
    "cancel": Delegate("cancel", child="../../nobody"),
    "question": AskUser("Which one?"),
    "schedule": Schedule("2026-01-02T03:04:05+00:00", "later"),
    "schedule for no moment": Schedule("whenever"),
    "final answer": FinalAnswer("42"),
    "no final answer": FinalAnswer(None),
    "stop": Stop(),
    "stop for a reason": Stop("I give up"),
    "a batch's final answer": FinalAnswer({"values": list(ACCEPTED.values())[:8]}),
}
"""Every action of the vocabulary except tool calls."""


_ROUNDS: Final = 9
"""The number of times that each question is asked again."""


class PolicyContract(Contract):
    """A policy decides about every action, and changes nothing.

    Fixture: ``policy``. A policy for tools of its own also supplies ``tools``. A deterministic
    policy that cannot be copied supplies ``another``, a second one. Features: `PolicyFeatures`.
    """

    contract: ClassVar[str] = "PolicyContract"
    features: ClassVar[PolicyFeatures] = PolicyFeatures()
    fixtures = frozenset({"policy", "another", "tools"})

    policy: Any = supplied("policy")
    """The `Policy` under test. Supplied by the adapter."""

    @pytest.fixture
    def tools(self) -> Sequence[Tool]:
        """The tools that may be called."""
        return tools()

    @pytest.fixture
    def another(self, policy: Policy) -> Any:
        """A second policy, made as the first; a copy of it unless it is supplied."""
        return copied(policy, "policy", self)

    @pytest.mark.rule("kit")
    async def test_the_fixture_is_a_policy(self, policy: Policy) -> None:
        """It has an ``authorize``, and a ``visible`` exactly if it declares ``filters``."""
        found = callable(getattr(policy, "authorize", None))
        expect(found, "kit", f"{policy!r:.100} has no `authorize`")
        filters, declared = hasattr(policy, "visible"), self.features.filters
        said = f"`visible` is {'there' if filters else 'missing'}; declare "
        expect(filters == declared, "kit", f"{said}filters={filters}, not {declared}")

    @pytest.mark.rule("decide", "context")
    @pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
    async def test_every_action_gets_a_decision(
        self, policy: Policy, tools: Sequence[Tool], action: Action
    ) -> None:
        """With and without tools, for principals with all, one or none of the scopes."""
        for seen in self._contexts(tools):
            await self._decided(policy, action, seen)

    @pytest.mark.rule("decide", "context")
    @pytest.mark.parametrize("value", ACCEPTED.values(), ids=ACCEPTED)
    async def test_a_call_gets_a_decision_whatever_its_arguments(
        self, policy: Policy, tools: Sequence[Tool], value: Any
    ) -> None:
        """Calls of every tool, with arguments that fit and arguments that do not."""
        for tool in tools:
            names = [*tool.input_schema.get("properties", {}), "path", "amount"]
            for arguments in (dict.fromkeys(names, value), {"": value}):
                seen = context(QUESTION, tools)
                await self._decided(policy, ToolCall(tool.name, arguments, "call-1"), seen)

    @pytest.mark.rule("decide", "context", "ids")
    @pytest.mark.parametrize("name", IDS.values(), ids=IDS)
    async def test_a_call_gets_a_decision_whatever_its_name(
        self, policy: Policy, tools: Sequence[Tool], name: str
    ) -> None:
        """Calls of unknown tools, and delegations to unknown agents and children."""
        for action in (ToolCall(name), Delegate("spawn", agent=name), Delegate("join", child=name)):
            await self._decided(policy, action, context(QUESTION, tools))

    @pytest.mark.rule("decide")
    @pytest.mark.feature("deterministic")
    async def test_the_same_question_gets_the_same_decision(
        self, policy: Policy, tools: Sequence[Tool]
    ) -> None:
        """Also after the decisions about all other actions, and for the tenth time."""
        asked = self._questions(tools)
        first = [await self._decided(policy, *each) for each in asked]
        for _ in range(_ROUNDS):
            again = [await self._decided(policy, *each) for each in reversed(asked)][::-1]
            for (action, _seen), one, other in zip(asked, first, again, strict=True):
                expect(one == other, "decide", f"{action!a:.100}: {one} became {other}")

    @pytest.mark.rule("decide")
    @pytest.mark.feature("deterministic")
    async def test_another_policy_decides_the_same(
        self, policy: Policy, another: Policy, tools: Sequence[Tool]
    ) -> None:
        """It is asked in another order, as in another process; no decision comes from a memory."""
        asked = self._questions(tools)
        first = [await self._decided(policy, *each) for each in asked]
        other = [await self._decided(another, *each) for each in reversed(asked)][::-1]
        for (action, seen), one, two in zip(asked, first, other, strict=True):
            said = f"{action!a:.100} for {seen.principal.name!a}: {one}, and by another {two}"
            expect(one == two, "decide", said)

    @pytest.mark.rule("apart")
    async def test_decisions_at_the_same_time_do_not_mix(
        self, policy: Policy, tools: Sequence[Tool]
    ) -> None:
        """Each decision is whole; a deterministic policy decides as it does alone."""
        asked = self._questions(tools)
        alone = [await self._decided(policy, *each) for each in asked]
        together = await asyncio.gather(*(self._decided(policy, *each) for each in asked))
        if self.features.deterministic:
            for (action, _), one, other in zip(asked, alone, together, strict=True):
                expect(one == other, "apart", f"{action!a:.100}: {one} alone, {other} at once")

    @pytest.mark.rule("unwind")
    async def test_a_decision_that_is_given_up_ends(
        self, policy: Policy, tools: Sequence[Tool]
    ) -> None:
        """It can be cancelled at any await, and the policy decides as before."""
        action = ToolCall(tools[0].name) if tools else Thought("Think.")
        await self._decided(policy, action, context(QUESTION, tools))
        await give_up(
            lambda: self._decided(policy, action, context(QUESTION, tools)),
            self.patience,
            "a decision",
        )
        await self._decided(policy, action, context(QUESTION, tools))

    @pytest.mark.rule("visible", "context")
    @pytest.mark.feature("filters")
    async def test_what_is_hidden_is_not_allowed(self, policy: Any, tools: Sequence[Tool]) -> None:
        """A planner may guess a hidden name. ``visible`` changes nothing."""
        for seen in self._contexts(tools):
            for tool in seen.tools:
                before = fingerprint(seen)
                shown = policy.visible(tool, seen)
                whole = isinstance(shown, bool)
                expect(whole, "visible", f"`visible` gave {shown!r:.100} for {tool.name}")
                expect(fingerprint(seen) == before, "context", "`visible` changed the context")
                for arguments in ({}, {"text": "a"}, {"a": 1, "b": 2}) if not shown else ():
                    decision = await self._decided(policy, ToolCall(tool.name, arguments), seen)
                    hidden = f"{tool.name} is hidden from {seen.principal.name!a}"
                    allowed = decision.verdict == "allow"
                    expect(not allowed, "visible", f"{hidden}, and a call of it is allowed")

    async def _decided(self, policy: Policy, action: Action, seen: Context) -> Decision:
        """Return the decision; expect it to be valid, and action and context to be unchanged."""
        before = fingerprint(seen), msgspec.json.encode(action)
        async with in_time("decide", self.patience, f"the decision about {action!a:.100}"):
            try:
                asked = policy.authorize(action, seen)
                expect(inspect.isawaitable(asked), "decide", "`authorize` is no coroutine function")
                decision = await asked
            except RuleError:
                raise
            except Exception as error:
                raise broken("decide", f"{action!a:.100} raised {error!r:.200}") from error
        right = isinstance(decision, Decision) and decision.verdict in STRICTNESS
        expect(right, "decide", f"about {action!a:.100} it said {decision!r:.100}")
        _expect_reason(decision)
        unchanged = before == (fingerprint(seen), msgspec.json.encode(action))
        expect(unchanged, "context", f"deciding about {action!a:.100} changed it, or the context")
        return decision

    def _contexts(self, tools: Sequence[Tool]) -> list[Context]:
        every = frozenset(scope for tool in tools for scope in tool.scopes)
        people = [
            Principal(),
            Principal("kit", "acme", every),
            *(Principal("one scope", scopes=frozenset({scope})) for scope in sorted(every)),
        ]
        shown = [context(QUESTION, tools, principal=each) for each in people]
        return [*shown, context(QUESTION, ())]

    def _questions(self, tools: Sequence[Tool]) -> list[tuple[Action, Context]]:
        given: list[dict[str, Any]] = [
            {"text": "a"}, {"text": "b", "amount": 10**6}, {"amount": 60}, {"number": 7}, {}
        ]  # fmt: skip
        calls = [ToolCall(tool.name, arguments) for tool in tools for arguments in given]
        actions = [*ACTIONS.values(), *calls, ToolCall("nobody_has_it")]
        return [(action, seen) for seen in self._contexts(tools) for action in actions]


def _expect_reason(decision: Decision) -> None:
    """Expect a reason that can be stored, because it goes on record and to people."""
    expect(isinstance(decision.reason, str), "decide", f"its reason is {decision.reason!r:.100}")
    try:
        values.check_text(decision.reason, "the reason")
    except InvalidValue as error:
        raise broken("decide", str(error)) from error

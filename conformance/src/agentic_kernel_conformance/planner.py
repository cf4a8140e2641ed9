"""PlannerContract: the duties of a Planner to the Loop that asks it. Needs the engine."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import pytest

from agentic_kernel_engine.loop import PlannerError
from agentic_kernel_engine.seams import Planner, Tool

from .contract import Contract, supplied
from .features import PlannerFeatures
from .planner_answers import Answer, ask, expect_usage
from .planner_contexts import CONTEXTS, PLAIN, QUESTION, fingerprint, tools
from .planner_features import PlannerPromises
from .rules import RuleError, broken, expect, in_time
from .unwinding import give_up

_AT_ONCE: Final = ("the question", "without tools", "after a result", "after an error")
_COSTLY: Final = (
    "the question", "after a supplement", "hardly anything left", "a long transcript"
)  # fmt: skip


class PlannerContract(PlannerPromises, Contract):
    """A planner answers every context, and does not change it.

    Fixtures: ``planner``; ``failing`` for the feature ``fails``, and ``another`` for
    ``reproducible``. A planner for tasks of its own kind also supplies ``question``, instructions
    that it can follow, and ``tools``, the tools that it knows. Features: `PlannerFeatures`.
    """

    contract: ClassVar[str] = "PlannerContract"
    features: ClassVar[PlannerFeatures] = PlannerFeatures()
    fixtures = frozenset({"planner", "failing", "question", "tools", "another"})

    planner: Any = supplied("planner")
    """The `Planner` under test. Supplied by the adapter."""
    failing: Any = supplied("failing", "fails")
    """A `Planner` whose provider is unreachable, for example at a closed port of this machine: its
    ``plan`` raises `PlannerError`. Supplied for the feature ``fails``."""

    another: Any = supplied("another", "reproducible")
    """A second `Planner`, made as the first one. Supplied for the feature ``reproducible``."""

    @pytest.fixture
    def question(self) -> str:
        """The instructions that the planner is given."""
        return QUESTION

    @pytest.fixture
    def tools(self) -> Sequence[Tool]:
        """The tools that the planner is shown."""
        return tools()

    @pytest.mark.rule("kit")
    async def test_the_fixture_is_a_planner(
        self, planner: Planner, question: str, tools: Sequence[Tool]
    ) -> None:
        """It answers its question, and has ``worst_case`` exactly if it declares ``forecasts``."""
        expect(callable(getattr(planner, "plan", None)), "kit", f"{planner!r:.100} has no `plan`")
        forecasts = hasattr(planner, "worst_case")
        declared = self.features.forecasts
        said = f"`worst_case` is {'there' if forecasts else 'missing'}; declare "
        expect(forecasts == declared, "kit", f"{said}forecasts={forecasts}, not {declared}")
        async with in_time("kit", self.patience, "answering the question"):
            try:
                await ask(planner, CONTEXTS["the question"](question, tools))
            except PlannerError as error:
                raise broken("kit", f"the question is refused, so nothing is shown: {error}") from (
                    error
                )

    @pytest.mark.rule("plan", "budget", "context")
    @pytest.mark.parametrize("name", CONTEXTS)
    async def test_every_context_is_answered(
        self, planner: Planner, question: str, tools: Sequence[Tool], name: str
    ) -> None:
        """The answer is one plan that reads back equal; only extreme contexts may be refused."""
        seen = CONTEXTS[name](question, tools)
        before = fingerprint(seen)
        async with in_time("plan", self.patience, f"{name}: the answer"):
            try:
                await ask(planner, seen)
            except PlannerError as error:
                if name in PLAIN:
                    raise broken("plan", f"{name}: refused with {error}") from error
        _expect_unchanged(before, fingerprint(seen), name)

    @pytest.mark.rule("apart")
    async def test_answers_at_the_same_time_do_not_mix(
        self, planner: Planner, question: str, tools: Sequence[Tool]
    ) -> None:
        """Each answer is whole, and later answers do not change it."""
        given: list[tuple[str, Answer, str]] = []

        async def one(name: str) -> None:
            try:
                answer = await ask(planner, PLAIN[name](question, tools))
            except PlannerError as error:
                raise broken("apart", f"{name}, asked beside others: {error}") from error
            given.append((name, answer, answer.stored()))

        async with in_time("apart", self.patience, "answers at the same time"):
            await one("after a supplement")
            await asyncio.gather(*map(one, _AT_ONCE))
        for name, answer, stored in given:
            now = answer.stored()
            expect(now == stored, "apart", f"{name}: given as {stored:.200}, and now {now:.200}")

    @pytest.mark.rule("apart", "context")
    async def test_an_answer_stays_when_the_run_goes_on(
        self, planner: Planner, question: str, tools: Sequence[Tool]
    ) -> None:
        """The Loop changes its own lists after the step; the plan shares no part with them."""
        for name in ("the question", "after a result", "with memories, goals and instructions"):
            seen = PLAIN[name](question, tools)
            seen.variables["kit"] = {"deep": [1]}
            async with in_time("plan", self.patience, f"{name}: the answer"):
                try:
                    answer = await ask(planner, seen)
                except PlannerError as error:
                    raise broken("plan", f"{name}: refused with {error}") from error
            stored = answer.stored()
            seen.variables["kit"]["deep"].append(2)
            seen.variables.clear()
            parts: list[Any] = [
                seen.transcript, seen.tools, seen.goals, seen.instructions, seen.memories
            ]  # fmt: skip
            for part in parts:
                part.clear()
            now = answer.stored()
            expect(now == stored, "apart", f"{name}: given as {stored:.200}, and now {now:.200}")

    @pytest.mark.rule("plan")
    async def test_a_task_that_it_can_plan_is_accepted(
        self, planner: Any, question: str, tools: Sequence[Tool]
    ) -> None:
        """``accept`` and ``model`` are optional; a planner that has them has them in their form."""
        model = getattr(planner, "model", "")
        expect(isinstance(model, str), "plan", f"its `model` is {model!r:.100}; give a text")
        if not hasattr(planner, "accept"):
            return
        task = CONTEXTS["the question"](question, tools).task
        async with in_time("plan", self.patience, "accepting a Task"):
            try:
                asked = planner.accept(task)
                awaited = inspect.isawaitable(asked)
                expect(awaited, "plan", "`accept` is no coroutine function, and is awaited")
                await asked
            except RuleError:
                raise
            except Exception as error:
                raise broken("plan", f"`accept` of its own question raised {error!r:.200}") from (
                    error
                )

    @pytest.mark.rule("unwind")
    async def test_a_call_that_is_given_up_ends(
        self, planner: Planner, question: str, tools: Sequence[Tool]
    ) -> None:
        """It can be cancelled at any await, and the planner answers as before."""
        plain = CONTEXTS["the question"]
        # The first call starts the asyncio tasks that a planner keeps for all calls.
        await ask(planner, plain(question, tools))
        await give_up(lambda: ask(planner, plain(question, tools)), self.patience, "an answer")
        async with in_time("unwind", self.patience, "an answer after one that was given up"):
            await ask(planner, plain(question, tools))

    @pytest.mark.rule("plan", "budget")
    @pytest.mark.feature("fails")
    async def test_a_provider_that_fails_is_told_by_a_code(
        self, failing: Planner, question: str, tools: Sequence[Tool]
    ) -> None:
        """The code is the same each time, and a call that gave words did not use nothing."""
        codes = []
        for _ in range(2):
            async with in_time("plan", self.patience, "the failure"):
                try:
                    answer = await ask(failing, CONTEXTS["the question"](question, tools))
                except PlannerError as error:
                    codes.append(error.code)
                else:
                    raise broken("plan", f"`failing` answered: {answer.stored():.200}")
        expect(codes[0] == codes[1], "plan", f"one failure, and the codes {codes}")

    @pytest.mark.rule("budget", "context")
    @pytest.mark.feature("forecasts")
    @pytest.mark.parametrize("name", _COSTLY)
    async def test_no_call_passes_its_worst_case(
        self, planner: Any, question: str, tools: Sequence[Tool], name: str
    ) -> None:
        """No call uses more input tokens, output tokens or cost than ``worst_case`` says.

        The same holds for the use that the pieces of a stream tell, and for that of a failure.
        """
        seen = CONTEXTS[name](question, tools)
        before = fingerprint(seen)
        worst = planner.worst_case(seen)
        expect(not inspect.isawaitable(worst), "budget", "`worst_case` returned an awaitable")
        expect_usage(worst, "the worst case")
        _expect_unchanged(before, fingerprint(seen), name)
        async with in_time("budget", self.patience, f"{name}: the answer"):
            try:
                answer = await ask(planner, seen)
                told = [answer.plan.usage, *(piece.usage for piece in answer.pieces)]
            except PlannerError as error:
                told = [error.usage]
        for used in told:
            if used is None:
                continue
            for part in ("input_tokens", "output_tokens", "cost"):
                most, was = getattr(worst, part), getattr(used, part)
                expect(was <= most, "budget", f"{name}: {part} was {was}, and {most} at the worst")


def _expect_unchanged(before: str, after: str, name: str) -> None:
    if before != after:
        at = next(
            (n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b),
            min(len(before), len(after)),
        )
        start = max(at - 40, 0)
        raise broken(
            "context",
            f"{name}: it was …{before[start : at + 60]}… and is …{after[start : at + 60]}…",
        )

"""PlannerPromises: the tests of the features that a planner may declare."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final

import pytest

from agentic_kernel_engine.loop import Context, FinalAnswer, PlannerError, ToolCall
from agentic_kernel_engine.seams import Planner, Tool, compile_schema

from .planner_answers import Answer, ask
from .planner_contexts import CONTEXTS, PLAIN, context
from .rules import expect, in_time
from .unwinding import nothing_left

_WORDS: Final = "Grüße an Zoë, 你好, 👋🏽 and a good day to all of you, my dear friends."
_SHOWN: Final = ("the question", "without tools", "an output schema")


class PlannerPromises:
    """The tests of streams, continued answers, repeated plans, and calls that fit."""

    patience: ClassVar[float]

    @pytest.mark.rule("plan")
    @pytest.mark.feature("streams")
    async def test_pieces_come_before_the_plan(
        self, planner: Planner, question: str, tools: Sequence[Tool]
    ) -> None:
        """At least one piece comes."""
        async with in_time("plan", self.patience, "a stream"):
            answer = await ask(planner, CONTEXTS["the question"](question, tools))
        expect(bool(answer.pieces), "plan", "it declares streams=True, and no piece came")

    @pytest.mark.rule("unwind")
    @pytest.mark.feature("streams")
    async def test_a_stream_that_is_left_ends(
        self, planner: Any, question: str, tools: Sequence[Tool]
    ) -> None:
        """It is closed after its first piece, as at a pause; the planner answers as before."""
        plain = CONTEXTS["the question"]
        await ask(planner, plain(question, tools))
        async with (
            in_time("unwind", self.patience, "leaving a stream"),
            nothing_left("a stream that was left"),
        ):
            stream = planner.plan(plain(question, tools))
            closable = hasattr(stream, "__aiter__") and hasattr(stream, "aclose")
            expect(closable, "plan", "it declares streams=True, and gives no async generator")
            async for _piece in stream:
                break
            await stream.aclose()
        async with in_time("unwind", self.patience, "an answer after streams that were left"):
            await ask(planner, plain(question, tools))

    @pytest.mark.rule("plan")
    @pytest.mark.feature("continues")
    async def test_an_answer_that_was_cut_is_gone_on_with(
        self, planner: Planner, question: str, tools: Sequence[Tool]
    ) -> None:
        """The beginning and the new pieces are the text of the plan; the first says its place.

        The planner continues its own answer, of characters of every length. A beginning that
        another planner wrote may also be replaced.
        """
        asked = f"{question} {_WORDS}"
        whole = (await self._answer(planner, context(asked, tools))).text
        for begun in (whole[: len(whole) // 2], whole[:-1]):
            if begun:
                answer = await self._answer(planner, context(asked, tools, continuation=begun))
                _expect_continued(answer, begun)
        begun = "The beginning of an answer that Zoë 👋 "
        answer = await self._answer(planner, context(asked, tools, continuation=begun))
        places = [piece.at for piece in answer.pieces if not piece.channel][:1]
        if not whole or answer.said != answer.text or places not in ([None], [0]):
            _expect_continued(answer, begun)

    @pytest.mark.rule("plan")
    @pytest.mark.feature("deterministic")
    @pytest.mark.parametrize("name", PLAIN)
    async def test_the_same_context_gets_the_same_plan(
        self, planner: Planner, question: str, tools: Sequence[Tool], name: str
    ) -> None:
        """Also after answers to other contexts."""
        first = await self._answer(planner, PLAIN[name](question, tools))
        for make in PLAIN.values():
            await self._answer(planner, make(question, tools))
        again = await self._answer(planner, PLAIN[name](question, tools))
        _expect_same("plan", f"{name}, asked again", first, again)

    @pytest.mark.rule("plan")
    @pytest.mark.feature("reproducible")
    async def test_another_planner_plans_the_same(
        self, planner: Planner, another: Planner, question: str, tools: Sequence[Tool]
    ) -> None:
        """It is asked in another order, as in another process; no plan comes from a memory."""
        first = {
            name: await self._answer(planner, make(question, tools)) for name, make in PLAIN.items()
        }
        first_of_another = "without tools"
        for name in (first_of_another, *reversed(list(PLAIN))):
            again = await self._answer(another, PLAIN[name](question, tools))
            _expect_same("plan", f"{name}, asked of another planner", first[name], again)

    @pytest.mark.rule("apart")
    @pytest.mark.feature("deterministic")
    async def test_answers_at_the_same_time_are_those_given_alone(
        self, planner: Planner, question: str, tools: Sequence[Tool]
    ) -> None:
        """Each context gets the same answer as alone."""
        alone = [await self._answer(planner, make(question, tools)) for make in PLAIN.values()]
        asked = [make(question, tools) for make in PLAIN.values()]
        together = await asyncio.gather(*(self._answer(planner, each) for each in asked))
        for name, one, other in zip(PLAIN, alone, together, strict=True):
            _expect_same("apart", f"{name}, asked beside others", one, other)

    @pytest.mark.rule("plan")
    @pytest.mark.feature("grounded")
    @pytest.mark.parametrize("name", _SHOWN)
    async def test_it_asks_for_what_it_is_shown(
        self, planner: Planner, question: str, tools: Sequence[Tool], name: str
    ) -> None:
        """Its calls fit tools of the context, and its final answer fits the output schema."""
        seen = CONTEXTS[name](question, tools)
        # test_every_context_is_answered judges a refusal.
        with suppress(PlannerError):
            _expect_grounded(await self._answer(planner, seen), seen)

    @pytest.mark.rule("plan")
    @pytest.mark.feature("grounded")
    async def test_it_asks_for_what_it_is_shown_now(
        self, planner: Planner, question: str, tools: Sequence[Tool]
    ) -> None:
        """One planner is shown all tools, each of them alone, none, and all of them again."""
        shown: list[Sequence[Tool]] = [tools, *([each] for each in tools), (), tools]
        for some in shown:
            for make in (CONTEXTS["the question"], CONTEXTS["an output schema"]):
                seen = make(question, some)
                with suppress(PlannerError):
                    _expect_grounded(await self._answer(planner, seen), seen)

    @pytest.mark.rule("plan")
    @pytest.mark.feature("streams")
    async def test_the_pieces_are_the_text_of_the_plan(
        self, planner: Planner, question: str, tools: Sequence[Tool]
    ) -> None:
        """Observers read the pieces, and the transcript has the text: they must not differ."""
        for make in PLAIN.values():
            answer = await self._answer(planner, make(question, tools))
            said = answer.spoken
            if said and answer.text:
                seen = f"it said {said!a:.150}, and its plan has {answer.text!a:.150}"
                expect(said == answer.text, "plan", seen)

    async def _answer(self, planner: Planner, seen: Context) -> Answer:
        async with in_time("plan", self.patience, "an answer"):
            return await ask(planner, seen)


def _expect_continued(answer: Answer, begun: str) -> None:
    seen = f"to {begun!a} it added {answer.said!a:.100}, and its plan says {answer.text!a:.200}"
    expect(begun + answer.said == answer.text, "plan", seen)
    places = [piece.at for piece in answer.pieces if not piece.channel][:1]
    expect(
        places == [len(begun)] or not answer.said,
        "plan",
        f"its first piece says at={places[0] if places else None}, so it replaces the text and "
        f"does not go on after its {len(begun)} characters",
    )


def _expect_grounded(answer: Answer, seen: Context) -> None:
    known = {tool.name: tool for tool in seen.tools}
    for action in answer.plan.actions:
        if isinstance(action, ToolCall):
            names = ", ".join(known) or "none"
            called = action.tool in known
            expect(called, "plan", f"it calls {action.tool!a:.100}, and is shown: {names}")
            _expect_fits(known[action.tool].input_schema, dict(action.arguments), action.tool)
        elif isinstance(action, FinalAnswer) and seen.output_schema is not None:
            _expect_fits(seen.output_schema, action.output, "the final answer")


def _expect_fits(schema: Mapping[str, Any], value: Any, what: str) -> None:
    problem = compile_schema(schema)(value)
    expect(problem is None, "plan", f"{what}: {value!a:.100} does not fit: {problem}")


def _expect_same(rule: str, name: str, first: Answer, again: Answer) -> None:
    def told(answer: Answer) -> tuple[object, ...]:
        plan, said = answer.plan, dict[str, str]()
        for piece in answer.pieces:
            said[piece.channel] = said.get(piece.channel, "") + piece.text
        return plan.actions, plan.text, plan.reasoning, said

    one, other = told(first), told(again)
    expect(one == other, rule, f"{name}: {one!a:.300} became {other!a:.300}")

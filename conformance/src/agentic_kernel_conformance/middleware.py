"""MiddlewareContract: the duties of a Middleware to the runs whose calls it changes.

Needs the engine. The hooks are called directly, with calls of every shape, and by the engine's Loop
in runs at the same time.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final

import msgspec
import pytest

from agentic_kernel_engine.loop import End, StopReason
from agentic_kernel_engine.loop.state import State
from agentic_kernel_engine.seams import Middleware, Tool
from agentic_kernel_engine.seams.middleware import FAILED, HOOKS

from .contract import Contract, copied, supplied
from .features import MiddlewareFeatures
from .middleware_calls import Called, Given, call, invocation
from .middleware_cases import ERRORS, INVOCATIONS, OBSERVATIONS, PLANS
from .middleware_runs import finished, plain_events
from .planner_contexts import CONTEXTS, QUESTION, context, tools
from .rules import expect, in_time
from .unwinding import give_up, nothing_left

_AT_ONCE: Final = 12
_TASK: Final = "0190a000-0000-7000-8000-0000000000aa"


class MiddlewareContract(Contract):
    """A hook takes every call, gives what its place can use, and treats each call by itself.

    Fixture: ``middleware``. A middleware for tools of its own also supplies ``tools``. A steady one
    that cannot be copied supplies ``another``, a second one. Features: `MiddlewareFeatures`.
    """

    contract: ClassVar[str] = "MiddlewareContract"
    features: ClassVar[MiddlewareFeatures] = MiddlewareFeatures()
    fixtures = frozenset({"middleware", "another", "tools"})

    middleware: Any = supplied("middleware")
    """The `Middleware` under test. Supplied by the adapter."""

    @pytest.fixture
    def tools(self) -> Sequence[Tool]:
        """The tools that are called, at least one."""
        return tools()

    @pytest.fixture
    def another(self, middleware: Middleware) -> Any:
        """A second middleware, made as the first; a copy of it unless it is supplied."""
        return copied(middleware, "middleware", self)

    @pytest.mark.rule("kit", "hooks")
    def test_the_fixture_is_a_middleware(self, middleware: Middleware) -> None:
        """It has a hook, each hook is a coroutine function, and no hook is misspelled."""
        expect(not isinstance(middleware, type), "kit", f"`middleware` is a class: {middleware!r}")
        found = [hook for hook in HOOKS if hasattr(middleware, hook)]
        expect(bool(found), "kit", f"{middleware!r:.100} has none of {', '.join(HOOKS)}")
        for hook in found:
            function = getattr(middleware, hook)
            right = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
                getattr(function, "__call__", None)  # noqa: B004
            )
            expect(right, "hooks", f"`{hook}` is no coroutine function, and the Loop awaits it")
        unknown = [
            name
            for name in dir(middleware)
            if name.startswith(("on_", "before_", "after_")) and name not in HOOKS
        ]
        expect(not unknown, "hooks", f"no Loop calls {', '.join(unknown)}; rename it")

    @pytest.mark.rule("hooks", "context")
    async def test_every_question_is_taken(
        self, middleware: Middleware, tools: Sequence[Tool]
    ) -> None:
        """`before_model` may set fields of the context; it changes no sequence of the Loop."""
        for make in CONTEXTS.values():
            await self._called(middleware, "before_model", make(QUESTION, tools))

    @pytest.mark.rule("hooks", "context", "budget")
    async def test_every_answer_is_taken(
        self, middleware: Middleware, tools: Sequence[Tool]
    ) -> None:
        """`after_model` gives a plan that can be stored, and hides no usage; or None."""
        for make in PLANS.values():
            seen = context(QUESTION, tools)
            await self._called(middleware, "before_model", seen)
            await self._called(middleware, "after_model", seen, make())

    @pytest.mark.rule("hooks", "context")
    async def test_every_call_is_taken(self, middleware: Middleware, tools: Sequence[Tool]) -> None:
        """`before_tool` may change the arguments; the planner's call and the tool stay."""
        for each in tools:
            for arguments in INVOCATIONS.values():
                await self._called(middleware, "before_tool", invocation(each, arguments))

    @pytest.mark.rule("hooks", "context")
    async def test_every_observation_is_taken(
        self, middleware: Middleware, tools: Sequence[Tool]
    ) -> None:
        """`after_tool` gives an observation that can be stored, or None."""
        for each in tools[:2]:
            for make in OBSERVATIONS.values():
                made = invocation(each, {})
                await self._called(middleware, "before_tool", made)
                await self._called(middleware, "after_tool", made, make(made))

    @pytest.mark.rule("hooks", "context")
    async def test_every_failure_is_taken(
        self, middleware: Middleware, tools: Sequence[Tool]
    ) -> None:
        """`on_error` gives a `Recovery` or None, whatever failed and however often."""
        for make in ERRORS.values():
            for failures in (1, 2, 5, 12):
                seen = context(QUESTION, tools, failures=failures)
                await self._called(middleware, "on_error", seen, make())

    @pytest.mark.rule("hooks")
    async def test_a_run_begins_and_ends_once_more_after_a_crash(
        self, middleware: Middleware
    ) -> None:
        """The first beginning stored nothing, so the second one begins from the start."""
        states = [State(), State()]
        for state in states:
            await self._called(middleware, "on_run_start", state)
        one, other = (msgspec.to_builtins(state) for state in states)
        expect(one == other, "hooks", f"begun twice: {one!a:.150}, then {other!a:.150}")
        for state in states:
            for reason in StopReason:
                end = End(reason, "a message", output={"answer": 42})
                await self._called(middleware, "on_run_end", state, end)

    @pytest.mark.rule("hooks")
    @pytest.mark.feature("steady")
    async def test_the_same_call_gets_the_same_treatment(
        self, middleware: Middleware, another: Middleware, tools: Sequence[Tool]
    ) -> None:
        """After other calls of every kind, in another order, and by another middleware."""
        made = self._every_call(tools)
        first = [await self._called(middleware, *each()) for _, each in made]
        again = [await self._called(middleware, *each()) for _, each in reversed(made)][::-1]
        others = [await self._called(another, *each()) for _, each in reversed(made)][::-1]
        for (name, _), one, *later in zip(made, first, again, others, strict=True):
            for other in later:
                expect(one == other, "hooks", f"{name}: {one}, and then {other}")

    @pytest.mark.rule("apart")
    @pytest.mark.feature("steady")
    async def test_calls_at_the_same_time_do_not_mix(
        self, middleware: Middleware, tools: Sequence[Tool]
    ) -> None:
        """Each call is treated as it is alone."""
        made = self._every_call(tools)
        alone = [await self._called(middleware, *each()) for _, each in made]
        together = await asyncio.gather(*(self._called(middleware, *each()) for _, each in made))
        for (name, _), one, other in zip(made, alone, together, strict=True):
            expect(one == other, "apart", f"{name}: {one} alone, {other} beside others")

    @pytest.mark.rule("apart", "hooks")
    async def test_runs_at_the_same_time_do_not_mix(self, middleware: Middleware) -> None:
        """Each Task ends; with ``steady``, each ends as it does alone."""
        names = [f"word{n}" for n in range(_AT_ONCE)]
        async with in_time("apart", self.patience * 2, "runs beside others"):
            together = await finished(middleware, names)
            alone = [(await finished(middleware, [name]))[0] for name in names]
        for name, one, other in zip(names, alone, together, strict=True):
            for task in (one, other):
                failed = task.failure is not None and task.failure.code == FAILED
                expect(not failed, "hooks", f"a run of {name} failed: {task.failure!a:.300}")
            if self.features.steady:
                ends = [
                    (str(task.status), task.result, task.failure and task.failure.code)
                    for task in (one, other)
                ]
                seen = f"{name}: {ends[0]!a:.150} alone, {ends[1]!a:.150} beside others"
                expect(ends[0] == ends[1], "apart", seen)

    @pytest.mark.rule("hooks")
    @pytest.mark.feature("transparent")
    async def test_a_plain_run_is_the_same_with_it(self, middleware: Middleware) -> None:
        """The same events with the same data: calls that go well, calls that fail, an answer."""
        async with in_time("hooks", self.patience, "a plain run"):
            without = await plain_events(None, _TASK)
            with_it = await plain_events(middleware, _TASK)
        for n, (one, other) in enumerate(zip(without, with_it, strict=False)):
            expect(one == other, "hooks", f"event {n}: {other!a:.250}, not {one!a:.250}")
        counts = len(without), len(with_it)
        expect(counts[0] == counts[1], "hooks", f"{counts[1]} events, and {counts[0]} without it")

    @pytest.mark.rule("unwind")
    @pytest.mark.parametrize("hook", HOOKS)
    async def test_a_hook_that_is_given_up_ends(
        self, middleware: Middleware, tools: Sequence[Tool], hook: str
    ) -> None:
        """A kill cancels a hook at any await; the next call of the hook is as before."""

        def given() -> Given:
            made = invocation(tools[0], {})
            made_of: dict[str, Callable[[], Given]] = {
                "on_run_start": lambda: (State(),),
                "on_run_end": lambda: (State(), End(StopReason.FINAL, output=42)),
                "before_model": lambda: (context(QUESTION, tools),),
                "after_model": lambda: (context(QUESTION, tools), PLANS["a call"]()),
                "before_tool": lambda: (made,),
                "after_tool": lambda: (made, OBSERVATIONS["a text"](made)),
                "on_error": lambda: (context(QUESTION, tools, failures=1), ERRORS["overloaded"]()),
            }
            return made_of[hook]()

        if not hasattr(middleware, hook):
            return
        await self._called(middleware, hook, *given())
        await give_up(lambda: self._called(middleware, hook, *given()), self.patience, f"`{hook}`")
        async with nothing_left(f"`{hook}`"):
            await self._called(middleware, hook, *given())

    def _every_call(self, tools: Sequence[Tool]) -> list[tuple[str, Callable[[], Given]]]:
        """Each hook with arguments of every kind, made anew at each use."""
        made: list[tuple[str, Callable[[], Given]]] = []

        def add(hook: str, cases: Mapping[str, Any], give: Callable[[Any], Given]) -> None:
            for name, case in cases.items():
                made.append((f"{hook} of {name}", partial(_with, hook, give, case)))

        def observed(case: Any) -> Given:
            seen = invocation(tools[0], {})
            return seen, case(seen)

        add("before_model", CONTEXTS, lambda case: (case(QUESTION, tools),))
        add("after_model", PLANS, lambda case: (context(QUESTION, tools), case()))
        add("before_tool", INVOCATIONS, lambda case: (invocation(tools[0], case),))
        add("after_tool", OBSERVATIONS, observed)
        add("on_error", ERRORS, lambda case: (context(QUESTION, tools, failures=1), case()))
        return made

    async def _called(self, middleware: Middleware, hook: str, *given: Any) -> Called:
        """Call a hook as the Loop does, if it is there; return what came of it."""
        if not hasattr(middleware, hook):
            return Called("nothing")
        async with in_time("hooks", self.patience, f"`{hook}`"):
            return await call(middleware, hook, given)


def _with(hook: str, give: Callable[[Any], Given], case: Any) -> Given:
    return hook, *give(case)

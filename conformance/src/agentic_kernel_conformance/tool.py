"""ToolContract: the contract of every Tool with the Loop that calls it. Needs the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_engine import values
from agentic_kernel_engine.loop import (
    OUTPUT_SCHEMA_FAILED,
    SCHEMA_VALIDATION_FAILED,
    TIMEOUT,
    Observation,
    Principal,
)
from agentic_kernel_engine.seams import ParallelScheduler, Tool, compile_schema

from .contract import Contract, supplied
from .features import ToolFeatures
from .rules import broken, expect, in_time
from .tool_calls import Calls, fitting, unfit
from .unheld import unheld
from .unwinding import TURNS, give_up, nothing_left
from .values import same

Effects = Callable[[], int]
"""Returns the number of effects on the world so far, by this tool or by its stand-in."""

_AT_ONCE = 8
_NOT_ITS_OWN = (SCHEMA_VALIDATION_FAILED, OUTPUT_SCHEMA_FAILED, TIMEOUT)
_SOON = 0.01


class ToolContract(Contract):
    """A tool does what its schemas, its effect and its other declarations say.

    Fixtures: ``tool``, fresh for each test; ``arguments``, for calls that succeed (the tests make
    these calls, repeatedly); ``effects``, ``failing`` and ``waiting`` for the features that need
    them. For a tool that checks its caller, also ``principal``. Features: `ToolFeatures`.
    """

    contract: ClassVar[str] = "ToolContract"
    features: ClassVar[ToolFeatures] = ToolFeatures()
    fixtures = frozenset({"tool", "arguments", "principal", "effects", "failing", "waiting"})

    tool: Any = supplied("tool")
    """The `Tool` under test. Supplied by the adapter."""
    arguments: Any = supplied("arguments")
    """A `Sequence[Mapping[str, Any]]`: arguments, each for a call that succeeds."""
    effects: Any = supplied("effects", "observable")
    """An `Effects`. Supplied by the adapter for the feature ``observable``."""
    failing: Any = supplied("failing", "fails")
    """A `Mapping[str, Any]`: arguments that fit the schema and make the call fail; the tool then
    raises `ToolError`. Supplied for ``fails``."""
    waiting: Any = supplied("waiting", "waits")
    """A `Mapping[str, Any]`: arguments of a call that runs until it is cancelled. Supplied for
    ``waits``."""

    @pytest.fixture
    def principal(self, tool: Tool) -> Principal:
        """The principal for whom the calls are made."""
        return Principal("kit", "kit", tool.scopes)

    @pytest.fixture
    def calls(self, tool: Tool, principal: Principal) -> Calls:
        """The tool, called as the Loop calls it."""
        return Calls(tool, principal)

    @pytest.mark.rule("kit")
    def test_the_fixtures_are_a_tool_and_its_arguments(
        self, tool: Tool, arguments: Sequence[Mapping[str, Any]], principal: Principal
    ) -> None:
        """At least one set of arguments; all fit the schema; the principal has the scopes."""
        expect(isinstance(tool, Tool), "kit", f"`tool` is a {type(tool).__name__}")
        expect(bool(arguments), "kit", "`arguments` is empty, so that no call goes well")
        fits = compile_schema(tool.input_schema)
        for each in arguments:
            problem = fits(each)
            expect(problem is None, "kit", f"`arguments` has {each!a:.100}, which: {problem}")
        expect(tool.scopes <= principal.scopes, "kit", "`principal` lacks scopes of the tool")

    @pytest.mark.rule("schemas")
    def test_what_a_planner_is_shown_is_accepted_anywhere(self, tool: Tool) -> None:
        """The engine's check accepts the schemas, and the description can be stored."""
        for schema in (tool.input_schema, tool.output_schema):
            try:
                if schema is not None:
                    compile_schema(schema)
                if not isinstance(tool.description, str):
                    raise InvalidValue("description", f"is {tool.description!r:.100}")
                values.check_text(tool.description, "description")
            except InvalidValue as error:
                raise broken("schemas", str(error)) from error

    @pytest.mark.rule("outcome", "schemas", "unwind")
    async def test_a_call_that_fits_gives_a_result(
        self, calls: Calls, tool: Tool, arguments: Sequence[Mapping[str, Any]]
    ) -> None:
        """The result fits the output schema, and the call leaves no asyncio task running."""
        # The first call may start tasks that the tool keeps for all calls. They are not counted.
        await self._done(calls, arguments[0])
        fits = None if tool.output_schema is None else compile_schema(tool.output_schema)
        for each in arguments:
            async with nothing_left(f"a call with {each!a:.100}"):
                observation = await self._done(calls, each)
            problem = None if fits is None else fits(observation.output)
            expect(problem is None, "schemas", f"{each!a:.100} gave what does not fit: {problem}")

    @pytest.mark.rule("schemas")
    async def test_a_call_that_does_not_fit_never_reaches_it(
        self, calls: Calls, tool: Tool, arguments: Sequence[Mapping[str, Any]]
    ) -> None:
        """The mistake may be a name, a type, or a value that is not JSON."""
        for said, wrong in unfit(tool.input_schema, arguments[0]):
            async with in_time("schemas", self.patience, f"a call {said}"):
                observation = await calls.make(wrong)
            expect(calls.entered == 0, "schemas", f"a call {said} reached the handler")
            refused = observation.error == SCHEMA_VALIDATION_FAILED
            expect(refused, "schemas", f"a call {said} gave {observation!a:.200}")

    @pytest.mark.rule("outcome")
    @pytest.mark.feature("fails")
    async def test_a_call_that_fails_says_so(
        self, calls: Calls, failing: Mapping[str, Any]
    ) -> None:
        """The planner gets a code and a message; any exception but `ToolError` is a bug."""
        async with in_time("outcome", self.patience, "a call that fails"):
            observation = await calls.make(failing)
        seen = f"{failing!a:.100} gave {observation!a:.300}; raise ToolError instead"
        told = bool(observation.error) and observation.error not in _NOT_ITS_OWN
        expect(told and "type" not in (observation.metadata or {}), "outcome", seen)
        expect(bool(observation.message), "outcome", f"{failing!a:.100} failed without a message")

    @pytest.mark.rule("outcome")
    @pytest.mark.feature("waits")
    async def test_a_call_that_takes_too_long_is_ended(
        self, tool: Tool, principal: Principal, waiting: Mapping[str, Any]
    ) -> None:
        """The planner is told of the timeout, whatever the tool does when it is cancelled."""
        calls = Calls(tool, principal, timeout=_SOON)
        async with in_time("outcome", self.patience, f"a call that may take {_SOON} s"):
            observation = await calls.make(waiting)
        ended = observation.error == TIMEOUT
        expect(ended, "outcome", f"after {_SOON} s it gave {observation!a:.200}")

    @pytest.mark.rule("unwind")
    @pytest.mark.feature("waits")
    async def test_a_call_that_is_given_up_ends(
        self, calls: Calls, waiting: Mapping[str, Any]
    ) -> None:
        """The call ends soon after a cancellation, wherever it is at that time."""
        await give_up(lambda: calls.make(waiting), self.patience, "a call")

    @pytest.mark.rule("unwind")
    async def test_a_call_that_is_cancelled_is_not_finished_first(
        self, calls: Calls, tool: Tool, arguments: Sequence[Mapping[str, Any]]
    ) -> None:
        """A coroutine function lets the cancellation pass, wherever it is at that time."""
        if tool.threaded:
            return
        await self._done(calls, arguments[0])
        await give_up(lambda: calls.make(arguments[0]), self.patience, "a call")

    @pytest.mark.rule("held")
    async def test_a_call_holds_nothing_up(
        self, calls: Calls, tool: Tool, arguments: Sequence[Mapping[str, Any]]
    ) -> None:
        """A tool that waits for a server or a disk lets the event loop run meanwhile."""
        if tool.threaded:
            return
        async with unheld("a call") as look:
            for each in arguments:
                await self._done(calls, each)
                look()

    @pytest.mark.rule("apart")
    @pytest.mark.feature("separates")
    async def test_the_calls_of_one_principal_change_nothing_for_another(
        self, tool: Tool, principal: Principal, arguments: Sequence[Mapping[str, Any]]
    ) -> None:
        """The principals differ by the tenant, by the name, or by where the one ends."""
        people = [("acme", "ann"), ("zeta", "ann"), ("acme", "bob"), ("acme/ann", ""), ("", "ann")]
        first: Observation | None = None
        for tenant, name in people:
            who = Principal(name, tenant, principal.scopes)
            found = await self._done(Calls(tool, who), arguments[0], f"key of {tenant} {name}")
            first = first or found
            said = f"the first call of {who.name!a} of {who.tenant!a} gave {found.output!a:.150}"
            equal = same(found.output, first.output)
            expect(equal, "apart", f"{said}, and that of another {first.output!a:.150}")

    @pytest.mark.rule("outcome", "schemas")
    @pytest.mark.feature("explores")
    async def test_any_arguments_that_fit_give_a_result_or_an_answer(
        self, calls: Calls, tool: Tool, arguments: Sequence[Mapping[str, Any]]
    ) -> None:
        """Empty and long values, many times: a result that fits, or a `ToolError`."""
        for said, given in fitting(tool.input_schema, arguments[0]):
            async with in_time("outcome", self.patience, f"a call with {said}"):
                found = await calls.make(given)
            seen = f"a call with {said} gave {found.error}: {found.message:.200}"
            expect(found.error != OUTPUT_SCHEMA_FAILED, "schemas", seen)
            answered = found.ok or "type" not in (found.metadata or {})
            expect(answered, "outcome", f"{seen}; raise ToolError for what goes wrong")

    @pytest.mark.rule("effects")
    @pytest.mark.feature("distinct")
    async def test_each_key_is_a_request_of_its_own(
        self,
        calls: Calls,
        tool: Tool,
        arguments: Sequence[Mapping[str, Any]],
        effects: Effects,
    ) -> None:
        """Equal calls under several keys, one after the other and at once, all have effects."""
        expect(tool.has_effect, "kit", f"distinct is open, and the tool says {tool.effect!r}")
        for each in arguments:
            before = effects()
            await self._done(calls, each)
            once = effects() - before
            before = effects()
            for _ in range(3):
                await self._done(calls, each)
            more = effects() - before
            said = f"{each!a:.100} has {once} effects, and made three times under other keys {more}"
            expect(more == 3 * once, "effects", said)
            made: list[Callable[[], Coroutine[Any, Any, Observation]]] = [
                partial(calls.make, each) for _ in range(_AT_ONCE)
            ]
            before = effects()
            async with in_time("effects", self.patience, f"{_AT_ONCE} calls at the same time"):
                told = await ParallelScheduler(_AT_ONCE).run(made, [tool.concurrent] * _AT_ONCE)
            went = [observation.error for observation in told if not observation.ok]
            expect(not went, "outcome", f"{each!a:.100}, made {_AT_ONCE} times at once: {went}")
            more = effects() - before
            said = f"{each!a:.100} has {once} effects, and made {_AT_ONCE} times at once {more}"
            expect(more == _AT_ONCE * once, "effects", f"{said}; or declare concurrent=False")

    @pytest.mark.rule("apart")
    async def test_calls_at_the_same_time_do_not_mix(
        self, calls: Calls, tool: Tool, arguments: Sequence[Mapping[str, Any]]
    ) -> None:
        """They run concurrently if the tool allows it; a steady tool returns the same as alone."""
        several = [arguments[n % len(arguments)] for n in range(_AT_ONCE)]
        alone = [await self._done(calls, each) for each in several]
        made: list[Callable[[], Coroutine[Any, Any, Observation]]] = [
            partial(calls.make, each) for each in several
        ]
        async with in_time("apart", self.patience, f"{_AT_ONCE} calls at the same time"):
            together = await ParallelScheduler(_AT_ONCE).run(made, [tool.concurrent] * _AT_ONCE)
        for given, one, other in zip(several, alone, together, strict=True):
            expect(other.ok, "apart", f"{given!a:.100} beside others: {other!a:.200}")
            equal = not self.features.steady or same(one.output, other.output)
            said = f"{given!a:.100} gave {one.output!a:.100}, beside others {other.output!a:.100}"
            expect(equal, "apart", said)

    @pytest.mark.rule("outcome")
    @pytest.mark.feature("steady")
    async def test_the_same_call_gives_the_same_result(
        self, calls: Calls, arguments: Sequence[Mapping[str, Any]]
    ) -> None:
        """The result is the same also after other calls."""
        first = [await self._done(calls, each) for each in arguments]
        again = [await self._done(calls, each) for each in reversed(arguments)][::-1]
        for given, one, other in zip(arguments, first, again, strict=True):
            said = f"{given!a:.100} gave {one.output!a:.100}, and then {other.output!a:.100}"
            expect(same(one.output, other.output), "outcome", said)

    @pytest.mark.rule("effects")
    @pytest.mark.feature("observable")
    async def test_what_has_an_effect_says_so(
        self,
        calls: Calls,
        tool: Tool,
        arguments: Sequence[Mapping[str, Any]],
        effects: Effects,
    ) -> None:
        """A call of a tool that declares ``none`` or ``read`` changes nothing."""
        before = effects()
        for each in arguments:
            await self._done(calls, each)
        changed = effects() - before
        if tool.has_effect:
            expect(changed > 0, "kit", f"`effects` saw none of a tool that says {tool.effect!r}")
        else:
            said = f"{len(arguments)} calls of a tool that says {tool.effect!r} had {changed}"
            expect(changed == 0, "effects", f"{said} effects")

    @pytest.mark.rule("effects")
    @pytest.mark.feature("observable")
    async def test_what_may_be_repeated_acts_once(
        self,
        calls: Calls,
        tool: Tool,
        arguments: Sequence[Mapping[str, Any]],
        effects: Effects,
    ) -> None:
        """The Loop makes a call again, under the same key, after a crash interrupted it."""
        for each in arguments:
            await self._done(calls, each, f"key of {each!a:.100}")
            once = effects()
            if not tool.repeatable:
                continue
            for _ in range(2):
                await self._done(calls, each, f"key of {each!a:.100}")
            more = effects() - once
            said = f"{each!a:.100}, made again under its key, had {more} more effects"
            expect(more == 0, "effects", f"{said}; declare idempotent=False, or heed the key")

    @pytest.mark.rule("effects")
    @pytest.mark.feature("observable")
    async def test_what_may_be_repeated_acts_once_at_the_same_time(
        self,
        calls: Calls,
        tool: Tool,
        arguments: Sequence[Mapping[str, Any]],
        effects: Effects,
    ) -> None:
        """Another process may make the call again while the first one is still at it."""
        if not tool.repeatable or not tool.concurrent:
            return
        for each in arguments:
            key = f"key at once of {each!a:.100}"
            before = effects()
            await self._done(calls, each, f"alone: {key}")
            once = effects() - before
            before = effects()
            async with in_time("effects", self.patience, "a call that is made twice at once"):
                told = await asyncio.gather(*(calls.make(each, key) for _ in range(3)))
            went = [observation.error for observation in told if not observation.ok]
            expect(not went, "outcome", f"{each!a:.100}, made at once under one key: {went}")
            more = effects() - before
            said = f"{each!a:.100} has {once} effects, and made three times at once under one key"
            expect(more <= once, "effects", f"{said} it has {more}")

    @pytest.mark.rule("effects", "unwind")
    @pytest.mark.feature("observable")
    async def test_what_was_given_up_and_repeated_acts_once(
        self,
        calls: Calls,
        tool: Tool,
        arguments: Sequence[Mapping[str, Any]],
        effects: Effects,
    ) -> None:
        """A kill cancels the call at any await, and the call is made again under its key."""
        if not tool.repeatable or tool.threaded:
            return
        given = arguments[0]
        before = effects()
        await self._done(calls, given, "once")
        once = effects() - before
        for turns in TURNS:
            before = effects()
            task = asyncio.ensure_future(calls.make(given, f"given up after {turns}"))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task], timeout=self.patience)
            expect(task.done(), "unwind", "a call that was given up did not end")
            await self._done(calls, given, f"given up after {turns}")
            more = effects() - before
            said = f"{given!a:.100} has {once} effects, and given up after {turns} turns and made"
            expect(more <= once, "effects", f"{said} again under its key it has {more}")

    @pytest.mark.rule("effects", "schemas")
    @pytest.mark.feature("observable")
    async def test_what_was_refused_has_no_effect(
        self,
        calls: Calls,
        tool: Tool,
        arguments: Sequence[Mapping[str, Any]],
        effects: Effects,
    ) -> None:
        """A call with arguments that do not fit, or by a principal without scopes, is refused."""
        before = effects()
        if tool.scopes:
            await Calls(tool, Principal()).make(arguments[0])
            expect(effects() == before, "effects", "a call without its scopes had an effect")
        for said, wrong in unfit(tool.input_schema, arguments[0]):
            await calls.make(wrong)
            expect(effects() == before, "effects", f"a call {said} was refused, and had an effect")

    async def _done(self, calls: Calls, given: Mapping[str, Any], key: str = "") -> Observation:
        """Make a call and expect that it succeeds."""
        async with in_time("outcome", self.patience, f"a call with {given!a:.100}"):
            observation = await calls.make(given, key)
        if not observation.ok:
            failed = (SCHEMA_VALIDATION_FAILED, OUTPUT_SCHEMA_FAILED)
            rule = "schemas" if observation.error in failed else "outcome"
            raise broken(rule, f"{given!a:.100} gave {observation.error}: {observation.message}")
        return observation

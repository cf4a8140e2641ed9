"""MemoryGovernorContract: the duties of a MemoryGovernor to a run and a memory. Needs the engine.

The memory is the engine's `InMemoryMemory`, behind a wrapper that yields at every call, and that
can fail at a call as a memory across a network does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar, Final

import msgspec
import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_engine.loop import Context, Observation, Plan
from agentic_kernel_engine.seams import Item, MemoryGovernor, Origin, Proposal, Query, Scope
from agentic_kernel_engine.seams.memory_governor import MAX_PROPOSALS

from .contract import Contract, supplied
from .features import MemoryGovernorFeatures
from .governor_cases import ENDS, HERE, STEPS, THERE, Crash, Ending, YieldingMemory, item
from .planner_contexts import fingerprint
from .rules import RuleError, broken, expect, in_time
from .unwinding import give_up, nothing_left

Make = Callable[[], MemoryGovernor]
"""Makes a governor, as each process makes one; a new object at each call."""

_CALLS: Final = 40
"""The most calls of a memory at which the kit makes one `keep` fail."""
_MANY: Final = 6
_LEAST: Final = 10
_LIMIT: Final = 1_000


class MemoryGovernorContract(Contract):
    """A governor proposes what can be stored, and keeps an item once, however often it is told.

    Fixtures: ``make``; ``most``, the most live items of a scope, for the feature ``bounds``.
    Features: `MemoryGovernorFeatures`.
    """

    contract: ClassVar[str] = "MemoryGovernorContract"
    features: ClassVar[MemoryGovernorFeatures] = MemoryGovernorFeatures()
    fixtures = frozenset({"make", "most"})

    make: Any = supplied("make")
    """A `Make`. Supplied by the adapter."""
    most: Any = supplied("most", "bounds")
    """The most live items of a scope, 10 or more. Supplied for the feature ``bounds``."""

    @pytest.fixture
    def governor(self, make: Make) -> MemoryGovernor:
        """The governor under test."""
        return make()

    @pytest.mark.rule("kit")
    def test_the_fixture_makes_governors(self, make: Make) -> None:
        """A new object each time, with the three methods."""
        one, other = make(), make()
        expect(one is not other, "kit", "`make` made one object, and gave it twice")
        names = ("of_step", "of_end", "keep")
        missing = [name for name in names if not callable(getattr(one, name, None))]
        expect(not missing, "kit", f"{one!r:.100} has no {', '.join(missing)}")

    @pytest.mark.rule("govern", "context")
    async def test_every_step_gets_proposals_that_can_be_stored(
        self, governor: MemoryGovernor
    ) -> None:
        """At most 16 of them, or none; the context, the plan and the observations stay."""
        for step in STEPS.values():
            await self._of_step(governor, *step())

    @pytest.mark.rule("govern", "context")
    async def test_every_end_gets_proposals_that_can_be_stored(
        self, governor: MemoryGovernor
    ) -> None:
        """Whatever the reason, the answer and the transcript are."""
        for ending in ENDS.values():
            await self._of_end(governor, ending)

    @pytest.mark.rule("govern")
    async def test_what_is_kept_is_in_memory(self, governor: MemoryGovernor) -> None:
        """With its text and key, in its own scope, and as often as it is told."""
        memory = YieldingMemory()
        for n in range(_MANY):
            one = item(f"task:{n}", text=f"text {n}")
            await self._keep(governor, memory, one)
            await self._expect_kept(memory, one)

    @pytest.mark.rule("govern")
    @pytest.mark.parametrize("whose", ["the same", "another"])
    async def test_to_keep_an_item_again_changes_nothing(self, make: Make, whose: str) -> None:
        """At once, after newer items, and in another process; nothing comes back to life."""
        memory, governor = YieldingMemory(), make()
        items = [item(f"task:{n}", key=f"subject {n % 2}") for n in range(_MANY)]
        for one in items:
            await self._keep(governor, memory, one)
            before = await memory.known()
            again = governor if whose == "the same" else make()
            await self._keep(again, memory, one)
            after = await memory.known()
            expect(after == before, "govern", f"kept twice: {before!a:.250} became {after!a:.250}")
        before = await memory.known()
        for one in items:
            await self._keep(governor if whose == "the same" else make(), memory, one)
        after = await memory.known()
        expect(after == before, "govern", f"all kept again: {before!a:.250} became {after!a:.250}")

    @pytest.mark.rule("govern")
    @pytest.mark.parametrize("lands", [False, True], ids=["not landed", "landed"])
    async def test_a_crash_in_the_middle_changes_nothing_in_the_end(
        self, make: Make, lands: bool
    ) -> None:
        """At each call of the memory; another process keeps the item again."""
        whole = YieldingMemory()
        await self._filled(make(), whole)
        calls = whole.calls
        await self._keep(make(), whole, _NEWEST)
        calls, wanted = whole.calls - calls, await whole.live(HERE)
        for at in range(min(calls, _CALLS)):
            memory = YieldingMemory()
            await self._filled(make(), memory)
            memory.crash(after=at, lands=lands)
            try:
                await make().keep(memory, _NEWEST)
            except Crash:
                pass
            except Exception as error:
                expect(_caused(error), "govern", f"a memory failed, and keep raised {error!r:.200}")
            else:
                # The failure was the governor's last call, or the item is there anyway.
                await self._expect_kept(memory, _NEWEST)
            memory.heal()
            await self._keep(make(), memory, _NEWEST)
            found = await memory.live(HERE)
            seen = f"after a crash at call {at} of {calls}: {found!a:.250}, not {wanted!a:.250}"
            expect(found == wanted, "govern", seen)

    @pytest.mark.rule("govern")
    async def test_a_fault_of_the_memory_is_told(self, governor: MemoryGovernor) -> None:
        """`keep` raises; otherwise the Loop takes the item for kept, and it is lost."""
        memory = YieldingMemory()
        memory.crash(after=0, lands=False, for_ever=True)
        for _ in range(2):
            async with in_time("govern", self.patience, "keeping in a memory that fails"):
                try:
                    await governor.keep(memory, _NEWEST)
                except Exception:
                    continue
            raise broken("govern", "every call of the memory failed, and `keep` raised nothing")
        memory.heal()
        await self._keep(governor, memory, _NEWEST)
        await self._expect_kept(memory, _NEWEST)

    @pytest.mark.rule("scopes")
    async def test_other_scopes_stay_as_they_are(self, governor: MemoryGovernor) -> None:
        """Items with the same ids and keys, in the scopes of other people and sessions."""
        memory = YieldingMemory()
        scopes = (THERE, Scope("acme", "bob", HERE.session), Scope("", "ann", HERE.session))
        for scope in scopes:
            for n in range(_MANY):
                await memory.propose(item(f"task:{n}", key=f"subject {n % 2}", scope=scope))
        before = [await memory.live(scope) for scope in scopes]
        for n in range(_MANY):
            await self._keep(governor, memory, item(f"task:{n}", key=f"subject {n % 2}"))
        after = [await memory.live(scope) for scope in scopes]
        expect(after == before, "scopes", f"of other scopes {before!a:.250} became {after!a:.250}")

    @pytest.mark.rule("apart")
    async def test_runs_of_one_session_keep_at_the_same_time(self, make: Make) -> None:
        """Two processes, items of one subject and of several; none is lost, and none fails."""
        memory, governors = YieldingMemory(), [make(), make()]
        await self._keep(governors[0], memory, item("task:first", key="subject"))
        items = [
            item(f"run{n % 2}:{n}", key="subject" if n < 2 else f"subject {n}", text=f"of {n}")
            for n in range(_MANY)
        ]
        calls = [governors[n % 2].keep(memory, one) for n, one in enumerate(items)]
        async with in_time("apart", self.patience, "several that keep at the same time"):
            told = await asyncio.gather(*calls, return_exceptions=True)
        failed = [each for each in told if each is not None]
        expect(not failed, "apart", f"keeping at the same time raised {failed!r:.200}")
        for one in items:
            await self._keep(governors[0], memory, one)
            known = await memory.knows(one)
            expect(known, "apart", f"kept at the same time, {one.id} is not in memory")

    @pytest.mark.rule("govern")
    @pytest.mark.feature("replaces")
    async def test_a_newer_item_takes_the_place_of_the_older(
        self, governor: MemoryGovernor
    ) -> None:
        """Of one key there is one live item, the newest; items without a key all stay."""
        memory = YieldingMemory()
        for n in range(_MANY):
            await self._keep(governor, memory, item(f"task:{n}", key="subject", text=f"text {n}"))
            found = [text for key, text in await memory.live(HERE) if key]
            expect(found == [f"text {n}"], "govern", f"of one key these are live: {found!a:.200}")
        for n in range(3):
            await self._keep(governor, memory, item(f"other:{n}", text=f"other {n}"))
        found = [text for key, text in await memory.live(HERE) if not key]
        wanted = [f"other {n}" for n in (2, 1, 0)]
        expect(found == wanted, "govern", f"of the items without a key, {found!a:.200} are live")
        other = item("task:again", key="another subject", text="another")
        await self._keep(governor, memory, other)
        found = [text for key, text in await memory.live(HERE) if key]
        wanted = ["another", f"text {_MANY - 1}"]
        expect(found == wanted, "govern", f"of two keys these are live: {found!a:.200}")

    @pytest.mark.rule("govern")
    @pytest.mark.feature("bounds")
    async def test_the_oldest_items_are_forgotten(self, make: Make, most: int) -> None:
        """Never the newest, in the one process or in the other."""
        expect(most >= _LEAST, "kit", f"`most` is {most}; use {_LEAST} or more")
        memory, governors = YieldingMemory(), [make(), make()]
        count = most + 3
        for n in range(count):
            await self._keep(governors[n % 2], memory, item(f"task:{n}", text=f"text {n}"))
        found = [text for _, text in await memory.live(HERE)]
        wanted = [f"text {n}" for n in range(count)][::-1][:most]
        expect(len(found) <= most, "govern", f"{len(found)} items are live; the bound is {most}")
        expect(found == wanted[: len(found)], "govern", f"of {count} kept these are live: {found}")

    @pytest.mark.rule("govern")
    @pytest.mark.feature("deterministic")
    async def test_the_same_step_gets_the_same_proposals(self, make: Make) -> None:
        """A step that a crash undid is done again, and asked about again, maybe elsewhere."""
        first, other = make(), make()
        for name, step in STEPS.items():
            told = await self._of_step(first, *step())
            for governor in (first, other):
                again = await self._of_step(governor, *step())
                expect(again == told, "govern", f"{name}: {told!a:.150}, and then {again!a:.150}")
        for name, ending in ENDS.items():
            told = await self._of_end(first, ending)
            for governor in (first, other):
                again = await self._of_end(governor, ending)
                expect(again == told, "govern", f"{name}: {told!a:.150}, and then {again!a:.150}")

    @pytest.mark.rule("apart")
    async def test_questions_at_the_same_time_do_not_mix(self, governor: MemoryGovernor) -> None:
        """Each Task gets its own proposals; a deterministic governor gives the same as alone."""
        steps = list(STEPS.values())
        alone = [await self._of_step(governor, *step()) for step in steps]
        together = await asyncio.gather(*(self._of_step(governor, *step()) for step in steps))
        if self.features.deterministic:
            for one, other in zip(alone, together, strict=True):
                expect(one == other, "apart", f"{one!a:.150} alone, {other!a:.150} beside others")

    @pytest.mark.rule("unwind")
    async def test_a_call_that_is_given_up_can_be_made_again(self, make: Make) -> None:
        """A Loop gives a governor ten seconds, and calls it again at the next step."""
        memory, governor = YieldingMemory(), make()
        step = STEPS["a call"]
        await self._filled(governor, memory)
        await give_up(lambda: governor.keep(memory, _NEWEST), self.patience, "a `keep`")
        await give_up(lambda: self._of_step(governor, *step()), self.patience, "an `of_step`")
        async with nothing_left("a `keep`"):
            await self._keep(governor, memory, _NEWEST)
        await self._expect_kept(memory, _NEWEST)

    async def _filled(self, governor: MemoryGovernor, memory: YieldingMemory) -> None:
        """Keep some items: of the subject of `_NEWEST`, twice side by side, and of others."""
        for n in range(_MANY):
            one = item(f"task:{n}", key=f"subject {n % 3}", text=f"text {n}")
            await self._keep(governor, memory, one)
        await memory.propose(item("beside:0", key="newest", text="beside 0"))
        await memory.propose(item("beside:1", key="newest", text="beside 1"))

    async def _keep(self, governor: MemoryGovernor, memory: YieldingMemory, one: Item) -> None:
        await self._answered(governor.keep(memory, one), f"`keep` of {one.id}")

    async def _expect_kept(self, memory: YieldingMemory, one: Item) -> None:
        hits = await memory.inner.recall(Query(one.scope, limit=_LIMIT))
        found = [(hit.item.text, hit.item.key) for hit in hits]
        kept = (one.text, one.key) in found
        expect(kept, "govern", f"{one.id} was kept, and these are live: {found!a:.250}")

    async def _of_step(
        self, governor: MemoryGovernor, context: Context, plan: Plan, seen: Sequence[Observation]
    ) -> list[Proposal]:
        before = fingerprint(context), msgspec.json.encode((plan, seen))
        asked = governor.of_step(context, plan, seen)
        found = _proposals(await self._answered(asked, "`of_step`"))
        same = before == (fingerprint(context), msgspec.json.encode((plan, seen)))
        expect(same, "context", f"`of_step` changed the step {plan!a:.200}, or its context")
        return found

    async def _of_end(self, governor: MemoryGovernor, ending: Ending) -> list[Proposal]:
        task, end, transcript = ending()
        before = _stored(end, transcript)
        found = _proposals(
            await self._answered(governor.of_end(task, end, transcript), f"`of_end` of {end!r}")
        )
        same = _stored(end, transcript) == before
        expect(same, "context", f"`of_end` of {end!r:.100} changed the end, or the transcript")
        return found

    async def _answered(self, asked: Awaitable[Any], doing: str) -> Any:
        async with in_time("govern", self.patience, doing):
            try:
                return await asked
            except RuleError:
                raise
            except Exception as error:
                raise broken("govern", f"{doing:.200} raised {error!r:.200}") from error


_NEWEST: Final = item("task:newest", key="newest", text="the newest of all")


def _caused(error: BaseException | None) -> bool:
    """True if the failure of the memory is among the causes of an error."""
    while error is not None:
        if isinstance(error, Crash):
            return True
        error = error.__cause__ or error.__context__
    return False


def _stored(end: Any, transcript: Sequence[Any]) -> bytes:
    return msgspec.json.encode(
        (end.reason, end.message, end.output, end.code, end.metadata, transcript)
    )


def _proposals(found: Any) -> list[Proposal]:
    """The proposals; expect that the Loop can put them on record."""
    expect(not isinstance(found, str | bytes), "govern", f"it proposed {found!r:.100}")
    try:
        given = list(found)
    except TypeError as error:
        raise broken("govern", f"it proposed {found!r:.100}; give a sequence") from error
    expect(len(given) <= MAX_PROPOSALS, "govern", f"it made {len(given)} proposals")
    for n, each in enumerate(given):
        expect(isinstance(each, Proposal), "govern", f"a proposal is a {type(each).__name__}")
        try:
            Item(f"kit:{n}", HERE, each.text, each.key, Origin("kit", 0))
        except InvalidValue as error:
            raise broken("govern", f"a proposal cannot be stored: {error}") from error
    return given

"""CompactorContract: the duties of a Compactor to the run whose transcript it shortens.

Needs the engine. A run of the engine's Loop shows that the cuts that it asks for can be made.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec
import pytest

from agentic_kernel import InvalidValue, Task, TaskStatus
from agentic_kernel_engine import Host, Limits, Loop, tool, values
from agentic_kernel_engine.loop import (
    AskUser,
    Context,
    Entry,
    FinalAnswer,
    Notice,
    Observation,
    Plan,
    Remaining,
    Summary,
    Thought,
    ToolCall,
    Transcript,
    Turn,
    UserMessage,
)
from agentic_kernel_engine.plans import vocabulary
from agentic_kernel_engine.seams import Compaction, Compactor, ScriptedPlanner
from agentic_kernel_engine.seams.compactor import LONGEST

from .contract import Contract, copied, supplied
from .features import CompactorFeatures
from .planner_contexts import CONTEXTS, QUESTION, tools
from .rules import RuleError, broken, expect, in_time
from .unwinding import nothing_left
from .values import ACCEPTED

STEPS: Final = 500
"""The steps of the run that a compactor with ``shortens`` shortens at least twice."""
_SMALL: Final = 20_000
"""Bytes of a transcript that is repeated often."""
_REMAINING: Final = (Remaining(1_000), Remaining(1, 0, 0.001, 1, 0.0, 1, 1), Remaining(0))


class CompactorContract(Contract):
    """A compactor answers every transcript, by nothing but its content, and leaves it alone.

    Fixture: ``compactor``; a compactor that cannot be copied also supplies ``another``, a second
    one. Features: `CompactorFeatures`.
    """

    contract: ClassVar[str] = "CompactorContract"
    features: ClassVar[CompactorFeatures] = CompactorFeatures()
    fixtures = frozenset({"compactor", "another"})

    compactor: Any = supplied("compactor")
    """The `Compactor` under test. Supplied by the adapter."""

    @pytest.fixture
    def another(self, compactor: Compactor) -> Any:
        """A second compactor, made as the first; a copy of it unless it is supplied."""
        return copied(compactor, "compactor", self)

    @pytest.mark.rule("kit")
    def test_the_fixture_is_a_compactor(self, compactor: Compactor) -> None:
        """It has a ``compact``, which is a plain function."""
        compact = getattr(compactor, "compact", None)
        found = callable(compact) and not isinstance(compactor, type)
        expect(found, "kit", f"{compactor!r:.100} has no `compact`")
        expect(not inspect.iscoroutinefunction(compact), "compact", "`compact` is a coroutine")

    @pytest.mark.rule("compact", "context", "unwind")
    async def test_every_transcript_is_answered(self, compactor: Compactor) -> None:
        """With a cut that can be made, or with None; alone, and as a part of a long one."""
        for name, make in CONTEXTS.items():
            entries = list(make(QUESTION, tools()).transcript)
            small = len(msgspec.json.encode(entries)) < _SMALL
            async with nothing_left(f"`compact` of {name}"):
                for remaining in _REMAINING:
                    _asked(compactor, _many(entries, 1), remaining, name)
                for times in (20, 300) if small else (2,):
                    long = _many(entries, times)
                    _asked(compactor, long, _REMAINING[0], f"{times} times {name}")

    @pytest.mark.rule("compact", "context")
    async def test_a_transcript_of_every_shape_is_answered(self, compactor: Compactor) -> None:
        """After a compaction, after another Task, with no turn, and with texts of every kind."""
        for shape, make in SHAPES.items():
            for length in (0, 1, 2, 50, 1_000):
                _asked(compactor, make(length), _REMAINING[0], f"{shape}, {length} entries")

    @pytest.mark.rule("compact")
    async def test_the_answer_depends_on_the_arguments_alone(
        self, compactor: Compactor, another: Compactor
    ) -> None:
        """After other transcripts, from an equal one, in a thread, and by another compactor."""
        made = [(shape, make, length) for shape, make in SHAPES.items() for length in (1, 50, 400)]
        first = [_asked(compactor, make(n), _REMAINING[0], shape) for shape, make, n in made]
        again = [
            _asked(compactor, make(n), _REMAINING[0], shape) for shape, make, n in reversed(made)
        ][::-1]
        others = [
            _asked(another, make(n), _REMAINING[0], shape) for shape, make, n in reversed(made)
        ][::-1]
        threads = await asyncio.gather(
            *(
                asyncio.to_thread(_asked, compactor, make(n), _REMAINING[0], shape)
                for shape, make, n in made
            )
        )
        told = zip(made, first, again, others, threads, strict=True)
        for (shape, _, n), one, *later in told:
            for other in later:
                said = f"{shape}, {n} entries: {_short(one)}, and then {_short(other)}"
                expect(one == other, "compact", said)

    @pytest.mark.rule("context")
    async def test_no_transcript_is_kept(self, compactor: Compactor) -> None:
        """A transcript may be megabytes, and the Loop goes on appending to it."""
        for length in (50, 1_000):
            transcript = SHAPES["head"](length)
            before = sys.getrefcount(transcript)
            compactor.compact(transcript, _REMAINING[0])
            kept = sys.getrefcount(transcript) - before
            expect(kept <= 0, "context", f"the transcript of {length} entries was kept")

    @pytest.mark.rule("compact")
    @pytest.mark.feature("shortens")
    async def test_a_long_run_is_shortened(self, compactor: Compactor) -> None:
        """At least twice in 500 steps; each cut that the compactor asks for is made."""
        asked, told, lengths = await self._run(compactor)
        refused = told.get(vocabulary.RUN_NOT_COMPACTED, [])
        expect(not refused, "compact", f"cuts that were not made: {refused!a:.300}")
        made = len(told.get(vocabulary.RUN_COMPACTED, []))
        idle = f"of {asked} cuts that it asked for, {made} were made; the others replace nothing"
        expect(asked == made, "compact", idle)
        expect(made >= 2, "compact", f"in {STEPS} steps there were {made} cuts")
        longest = max(lengths)
        expect(longest < STEPS, "compact", f"of {STEPS} steps the planner was shown {longest}")

    async def _run(
        self, compactor: Compactor
    ) -> tuple[int, dict[str, list[Mapping[str, Any]]], list[int]]:
        """Run a Loop; return the cuts that were asked for, the events, and the lengths."""
        counting, lengths = _Counting(compactor), list[int]()

        def plan(context: Context) -> Any:
            lengths.append(len(context.transcript))
            if context.step >= STEPS:
                return FinalAnswer("done")
            return ToolCall("echo", {"text": f"step {context.step}"}, f"call-{context.step}")

        echo = tool(_echo, name="echo", effect="none", inline=True)
        planner = ScriptedPlanner(*[plan] * (STEPS + 1))
        loop = Loop(planner, [echo], compactor=counting, limits=Limits(max_iterations=STEPS + 1))
        told: dict[str, list[Mapping[str, Any]]] = {}
        task = Task.new(summary="A long run", instructions=QUESTION, runtime_kind="loop")
        async with in_time("compact", self.patience * 3, "a long run"), Host(loop) as host:
            done = await host.run(task)
            async for event in host.stream(task.id):
                told.setdefault(event.type, []).append(event.data)
        expect(done.status is TaskStatus.SUCCESS, "compact", f"the run ended as {done!a:.300}")
        return counting.asked, told, lengths


class _Counting:
    """A compactor that counts the cuts that another one asks for."""

    def __init__(self, compactor: Compactor) -> None:
        self._compactor = compactor
        self.asked = 0

    def compact(self, transcript: Transcript, remaining: Remaining) -> Compaction | None:
        found = self._compactor.compact(transcript, remaining)
        self.asked += found is not None
        return found


def _asked(
    compactor: Compactor, transcript: Transcript, remaining: Remaining, name: str
) -> Compaction | None:
    """The answer; expect that it can be carried out, and the transcript unchanged."""
    before, length = list(transcript), len(transcript)
    stored = msgspec.json.encode(before)
    try:
        found: Any = compactor.compact(transcript, remaining)
    except RuleError:
        raise
    except Exception as error:
        raise broken("compact", f"{name}: it raised {error!r:.200}") from error
    if inspect.iscoroutine(found):
        found.close()
    same = len(transcript) == length and all(
        a is b for a, b in zip(transcript, before, strict=True)
    )
    unchanged = same and msgspec.json.encode(before) == stored
    expect(unchanged, "context", f"{name}: it changed the transcript")
    if found is None:
        return None
    expect(isinstance(found, Compaction), "compact", f"{name}: it gave a {type(found).__name__}")
    count, summary = found.entries, found.summary
    whole = type(count) is int and type(summary) is str
    expect(whole, "compact", f"{name}: its Compaction is {found!r:.100}")
    inside = 1 <= count <= length
    expect(inside, "compact", f"{name}: it replaces {count} entries of {length}")
    told = bool(summary.strip()) and len(summary) <= LONGEST
    expect(told, "compact", f"{name}: its summary has {len(summary):,} characters")
    try:
        values.check_text(summary, "the summary")
    except InvalidValue as error:
        raise broken("compact", f"{name}: {error}") from error
    return Compaction(count, summary)


def _echo(text: str) -> str:
    """Give the text back."""
    return text


def _turns(count: int) -> list[Entry]:
    """Turns with calls that go well, calls that fail, thoughts, texts and notices."""
    found: list[Entry] = []
    for n in range(count):
        call = ToolCall("look_up", {"word": f"word {n}", "limit": n}, f"call-{n}")
        ended = Observation({"found": ["a", n]}, call=call.id, tool=call.tool)
        if n % 5 == 1:
            ended = Observation(error="handler_error", message="it is odd", call=call.id)
        plan = Plan((Thought(f"thought {n}"), call), text=f"text {n}" if n % 3 else "")
        found.append(Turn(plan, (Observation(), ended)))
        if n % 7 == 3:
            found.append(UserMessage(f"and {n}, please"))
        if n % 11 == 5:
            found.append(Notice("The last steps brought nothing new."))
    return found[:count]


def _made(head: Sequence[Entry], more: Sequence[Entry], fixed: int | None = None) -> Transcript:
    """A transcript that may be cut after each entry."""
    fixed = len(head) if fixed is None else fixed
    entries = [*head, *more]
    return Transcript(entries, [(n, (n, 0)) for n in range(fixed, len(entries) + 1)], fixed)


def _many(entries: Sequence[Entry], times: int) -> Transcript:
    return _made(entries[:1], [*entries[1:]] * times)


def _short(found: Compaction | None) -> str:
    return "None" if found is None else f"{found.entries} entries to {found.summary!a:.60}"


_TEXTS: Final = [value for value in ACCEPTED.values() if isinstance(value, str)]
_QUESTION: Final = Turn(Plan((AskUser("Which one?"),)), (Observation(),))

SHAPES: Final[dict[str, Callable[[int], Transcript]]] = {
    "head": lambda n: _made([UserMessage(QUESTION)], _turns(n)),
    "summary": lambda n: _made(
        [UserMessage(QUESTION), UserMessage("stays"), _QUESTION, Summary("said: a\nsaid: b")],
        _turns(n),
    ),
    "carried over": lambda n: _made([*_turns(5), UserMessage(QUESTION)], _turns(n), 1),
    "only texts": lambda n: _made(
        [UserMessage("")], [UserMessage(_TEXTS[k % len(_TEXTS)][:5_000]) for k in range(n)]
    ),
    "hollow": lambda n: _made([UserMessage("")], [Turn(Plan(()), ()) for _ in range(n)]),
}
"""Transcripts with so many entries after their opening. Each call makes a new one."""

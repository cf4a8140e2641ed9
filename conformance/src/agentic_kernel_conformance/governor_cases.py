"""Cases for governors: steps and ends of runs, and a memory that yields and can fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from agentic_kernel import Task
from agentic_kernel_engine.loop import (
    HANDLER_ERROR,
    POLICY_DENIED,
    CompleteGoal,
    Context,
    Delegate,
    End,
    Entry,
    FinalAnswer,
    Observation,
    Plan,
    PushGoal,
    StopReason,
    Thought,
    ToolCall,
    Turn,
    UserMessage,
)
from agentic_kernel_engine.seams import Hit, Item, Query, Remembered, Scope, UnknownItem
from agentic_kernel_engine.seams.memories import InMemoryMemory

from .planner_contexts import PLAIN, QUESTION, context, tools
from .values import ACCEPTED

HERE: Final = Scope("acme", "ann", "monday")
THERE: Final = Scope("acme", "ann", "tuesday")

Step = Callable[[], tuple[Context, Plan, Sequence[Observation]]]
"""Makes a step that was done; two calls share nothing."""
Ending = Callable[[], tuple[Task, End, Sequence[Entry]]]
"""Makes the end of a run; two calls share nothing."""


class Crash(Exception):
    """A failure of a memory, or of its process."""


class YieldingMemory:
    """A memory that lets other tasks run before and after each call, and can fail at a call."""

    def __init__(self) -> None:
        self.inner = InMemoryMemory()
        self.calls = 0
        """The number of calls so far."""
        self._failing: tuple[int, bool, bool] | None = None

    def crash(self, after: int, lands: bool, for_ever: bool = False) -> None:
        """Make a call raise `Crash`.

        Args:
            after: The number of calls that go well before it.
            lands: True if the call takes effect nevertheless.
            for_ever: True if all later calls fail, too.
        """
        self._failing = self.calls + after, lands, for_ever

    def heal(self) -> None:
        """Make all later calls go well."""
        self._failing = None

    async def _call(self, name: str, *args: Any) -> Any:
        number, self.calls = self.calls, self.calls + 1
        at, lands, for_ever = self._failing or (-1, True, False)
        failing = number == at or (for_ever and number >= at >= 0)
        await asyncio.sleep(0)
        if failing and not lands:
            raise Crash(f"call {number}, {name}, did not land")
        found = await getattr(self.inner, name)(*args)
        await asyncio.sleep(0)
        if failing:
            raise Crash(f"call {number}, {name}, landed, and its answer was lost")
        return found

    async def propose(self, item: Item) -> bool:
        return bool(await self._call("propose", item))

    async def supersede(self, predecessor: str, item: Item) -> bool:
        return bool(await self._call("supersede", predecessor, item))

    async def tombstone(self, scope: Scope, id: str, reason: str) -> bool:
        return bool(await self._call("tombstone", scope, id, reason))

    async def recall(self, query: Query) -> Sequence[Hit]:
        found: Sequence[Hit] = await self._call("recall", query)
        return found

    async def explain(self, scope: Scope, id: str) -> Remembered:
        found: Remembered = await self._call("explain", scope, id)
        return found

    async def export(self, scope: Scope) -> dict[str, Any]:
        found: dict[str, Any] = await self._call("export", scope)
        return found

    async def restore(self, scope: Scope, exported: Mapping[str, Any]) -> int:
        return int(await self._call("restore", scope, exported))

    async def live(self, scope: Scope) -> list[tuple[str, str]]:
        """The key and the text of each live item, the newest first."""
        hits = await self.inner.recall(Query(scope, limit=1_000))
        return [(hit.item.key, hit.item.text) for hit in hits]

    async def known(self) -> dict[str, Any]:
        """All that is known of the scope `HERE`."""
        return await self.inner.export(HERE)

    async def knows(self, item: Item) -> bool:
        """True if the item was ever remembered, or a live item has its text."""
        try:
            await self.inner.explain(item.scope, item.id)
        except UnknownItem:
            return (item.key, item.text) in await self.live(item.scope)
        return True


def item(id: str, *, text: str = "", key: str = "", scope: Scope = HERE) -> Item:
    """Return an item as the Loop makes it from a proposal."""
    return Item(id, scope, text or f"text of {id}", key)


def _step(*pairs: tuple[Any, Observation], text: str = "") -> Step:
    def made() -> tuple[Context, Plan, Sequence[Observation]]:
        plan = Plan(tuple(action for action, _ in pairs), text=text)
        return context(QUESTION, tools()), plan, [observation for _, observation in pairs]

    return made


def _call(n: int, output: Any, arguments: Any = None, **more: Any) -> tuple[Any, Observation]:
    call = ToolCall("look_up", {"word": f"word {n}"} if arguments is None else arguments, f"c{n}")
    return call, Observation(output, call=call.id, tool=call.tool, **more)


_OTHERS: Final = (
    (Thought("Think."), Observation()),
    (PushGoal("Below"), Observation()),
    (CompleteGoal("reached"), Observation()),
    (Delegate("spawn", instructions="Do it"), Observation({"child": "one"})),
    (Delegate("join", child="one"), Observation("it is done")),
    (FinalAnswer({"too": "early"}), Observation(error="skipped", message="not alone")),
)

STEPS: Final[dict[str, Step]] = {
    "a call": _step(_call(0, {"found": ["a"]})),
    "a call and a text": _step(_call(0, "found"), text="I look it up."),
    "a call that failed": _step(_call(0, None, error=HANDLER_ERROR, message="it is odd")),
    "a call that was denied": _step(_call(0, None, error=POLICY_DENIED, message="not you")),
    "a batch of every kind": _step(
        *_OTHERS, _call(0, "one"), _call(1, None, error="acme_error"), _call(2, [1, 2])
    ),
    "a batch of 128 calls": _step(*[_call(n, f"result {n}") for n in range(128)]),
    "no action": _step(text="Only a text."),
    "a thought": _step((Thought("Think."), Observation())),
    "results of every shape": _step(
        *[_call(n, value) for n, value in enumerate(ACCEPTED.values())]
    ),
    "arguments of every shape": _step(
        *[_call(n, "found", {"word": value}) for n, value in enumerate(ACCEPTED.values())]
    ),
    "texts of every kind": _step(
        *[(Thought(value), Observation()) for value in ACCEPTED.values() if isinstance(value, str)],
        text=str(ACCEPTED["long text"]),
    ),
    "a long result": _step(_call(0, "long " * 10_000)),
    "an empty result": _step(_call(0, "")),
    "a result without a value": _step(_call(0, None)),
}
"""Steps of which a governor is told."""


def _end(reason: StopReason, output: Any = None, question: str = QUESTION) -> Ending:
    def made() -> tuple[Task, End, Sequence[Entry]]:
        make = PLAIN["after a result"]
        seen = make(question, tools())
        message = "" if reason is StopReason.FINAL else f"the run ended: {reason}"
        return seen.task, End(reason, message, output=output), seen.transcript

    return made


def _short_end() -> tuple[Task, End, Sequence[Entry]]:
    seen = context("", tools())
    return seen.task, End(StopReason.FINAL, output=""), [UserMessage("")]


def _long_end() -> tuple[Task, End, Sequence[Entry]]:
    seen = context("long " * 10_000, tools())
    turn = Turn(Plan((ToolCall("add"),)), (Observation("long " * 100),))
    return seen.task, End(StopReason.FINAL, output="long " * 10_000), [turn] * 200


ENDS: Final[dict[str, Ending]] = {
    **{f"end: {reason}": _end(reason) for reason in StopReason if reason is not StopReason.ERROR},
    **{f"answer: {name}": _end(StopReason.FINAL, value) for name, value in ACCEPTED.items()},
    **{
        f"asked: {name}": _end(StopReason.FINAL, "42", value)
        for name, value in ACCEPTED.items()
        if isinstance(value, str)
    },
    "a short end": _short_end,
    "a long end": _long_end,
}
"""Ends of which a governor is told."""

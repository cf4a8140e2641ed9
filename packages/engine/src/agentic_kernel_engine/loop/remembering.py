"""Remembering: how a run uses memory, and how it goes on when memory fails.

A step begins by bringing into memory what the last commit put on record, and by recalling what is
about the matter at hand. It ends with the governor's proposals in its commit. So memory is written
behind the record and never before it: after a crash the same items, under the same ids, are
brought in again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, TypeVar

from agentic_kernel import InvalidValue, Task

from .. import edges, values
from ..errors import StoreError, TaskFailed
from ..faults import is_a, report
from ..plans import vocabulary
from ..plans.ending import End, unhandled
from ..plans.observation import Observation
from ..plans.plan import Plan
from ..plans.reasons import StopReason
from ..plans.transcript import UserMessage
from ..principal import Principal
from ..seams.governor import MAX_PROPOSALS, MemoryGovernor, Proposal
from ..seams.memory import MAX_NAME, MAX_TEXT, Hit, Item, Memory, Origin, Query, Scope
from ..seams.planner import Context
from .run import LoopRun
from .session import SESSION
from .state import Ended, State

HITS: Final = 8
"""How many items are recalled at a step."""
CHARACTERS: Final = 8_000
"""How long they are in all; an item that does not fit is left out."""
PENDING: Final = 32
"""How many items wait for a memory that fails; beyond that the oldest are lost."""
PATIENCE: Final = 10.0
"""Seconds that a step waits for memory when it recalls, and when it writes, and for what its
governor proposes; then it goes on."""
SEEDS: Final = 64
"""How many items of seed memory there may be."""
_LOOK_BACK: Final = 8
"""Entries of the transcript among which the last words of the user are looked for."""

T = TypeVar("T")


class Remembering:
    """A memory and its governor, as a run uses them; no fault of theirs ends the run.

    Args:
        memory: What is recalled from.
        governor: Decides what is remembered; without one, nothing new is.
        principal: Whose memory it is.
    """

    def __init__(
        self, memory: Memory, governor: MemoryGovernor | None, principal: Principal
    ) -> None:
        self._memory = memory
        self._governor = governor
        self._principal = principal

    def scope(self, task: Task) -> Scope:
        """Where a Task's items belong; one that names no session is a session of its own.

        Raises:
            TaskFailed: The Task names no proper session.
        """
        session = task.metadata.get(SESSION, task.id)
        if not isinstance(session, str) or not 0 < len(session) <= MAX_NAME:
            raise TaskFailed(
                "engine/bad_session",
                f"metadata[{SESSION!r}] must be a string of 1 to {MAX_NAME} characters",
            )
        return Scope(self._principal.tenant, self._principal.name, session)

    def _scope_of(self, run: LoopRun) -> Scope:
        run.scope = self.scope(run.task)
        return run.scope

    async def inject(self, run: LoopRun, context: Context) -> None:
        """Settle what the last step decided to remember; then show the planner what is known."""
        if run.state.remembering:
            await self._write(run, PENDING)
        if run.state.at_hand is not None:
            return
        recalled = await _tried(run, "recall", self._recall(run))
        if recalled:
            hits, texts = recalled
            run.record(vocabulary.MEMORY_RECALLED, hits=hits)
            context.memories = [*context.memories, *texts]

    async def note(
        self, run: LoopRun, context: Context, plan: Plan, observations: Sequence[Observation]
    ) -> None:
        """Have the governor decide about a step; its commit carries what is to be remembered."""
        if self._governor is not None:
            asked = partial(self._governor.of_step, context, plan, observations)
            await self._propose(run, "of_step", asked)

    async def conclude(self, run: LoopRun, end: End) -> None:
        """The same for the end of a run, which is put on record before memory is written.

        So after a crash in between, the run ends as it was about to, and remembers the same.
        """
        state = run.state
        if self._governor is not None and state.ended is None:
            if end.reason is not StopReason.ERROR:
                asked = partial(self._governor.of_end, run.task, end, run.transcript)
                await self._propose(run, "of_end", asked)
            if state.remembering and not await self._prepared(run, end):
                return
        if state.remembering:
            await self._write(run, 0)

    async def _recall(self, run: LoopRun) -> tuple[list[dict[str, Any]], list[str]] | None:
        """What fits into the context, for the record and for the planner; None if nothing does.

        A hit of another scope would be a leak, and is a fault.
        """
        scope = run.scope or self._scope_of(run)
        query = Query(scope, _matter(run)[:MAX_TEXT], HITS)
        hits: list[dict[str, Any]] = []
        texts: list[str] = []
        room = CHARACTERS
        for hit in islice(await self._memory.recall(query), HITS):
            if not isinstance(hit, Hit) or not isinstance(hit.item, Item):
                raise InvalidValue("hits", "must be made of hits, and these of items")
            if hit.item.scope != scope or not -1 <= hit.score <= 1:
                raise InvalidValue("hits", "must be of the scope asked for, with a score")
            if len(hit.item.text) <= room:
                hits.append({"id": hit.item.id, "score": float(hit.score)})
                texts.append(hit.item.text)
                room -= len(hit.item.text)
        return (hits, texts) if hits else None

    async def _propose(
        self, run: LoopRun, doing: str, asked: Callable[[], Awaitable[Sequence[Proposal]]]
    ) -> None:
        async def made() -> list[Item]:
            proposals = list(islice(await asked(), MAX_PROPOSALS + 1))
            if len(proposals) > MAX_PROPOSALS:
                raise InvalidValue("proposals", f"are too many; give {MAX_PROPOSALS} at most")
            task, step, scope = run.task.id, run.state.step, run.scope or self._scope_of(run)
            return [
                Item(f"{task}:{step}:{index}", scope, each.text, each.key, Origin(task, step))
                for index, each in enumerate(proposals)
            ]

        items = await _tried(run, doing, made())
        if items:
            run.state.remembering = (*run.state.remembering, *items)
            run.record(vocabulary.MEMORY_NOTED, items=[item.id for item in items])

    async def _write(self, run: LoopRun, most: int) -> None:
        """Bring what is on record into memory; of what fails, so much is left for the next time."""
        if self._governor is not None:
            await _tried(run, "keep", self._keep(run.state, self._governor))
        left = run.state.remembering
        lost = [item.id for item in left[: max(len(left) - most, 0)]]
        if lost:
            run.record(vocabulary.MEMORY_LOST, items=lost)
            run.state.remembering = left[len(lost) :]

    async def _keep(self, state: State, governor: MemoryGovernor) -> None:
        """Bring into memory what waits for it; one that fails keeps no other from it."""
        fault: Exception | None = None
        for item in state.remembering:
            try:
                await governor.keep(self._memory, item)
            except Exception as error:
                fault = error
                if _unwinding():  # The governor made another error of it.
                    break
            else:
                state.remembering = tuple(i for i in state.remembering if i is not item)
        if fault is not None:
            raise fault

    async def _prepared(self, run: LoopRun, end: End) -> bool:
        """Put the end on record; whether that went well. If not, the run ends without memory."""
        state, events = run.state, run.events
        state.ended = Ended(
            end.reason, end.message, end.output, end.code,
            None if end.metadata is None else dict(end.metadata),
        )  # fmt: skip
        state.reserved = None  # No call follows.
        try:
            values.check(state.ended.output, "output")
            values.check(state.ended.metadata, "metadata")
            await run.commit()
        except Exception as fault:
            run.events, state.ended = events, None
            _failed(run, "keep", fault)
            run.record(vocabulary.MEMORY_LOST, items=[item.id for item in state.remembering])
            return False
        return True


async def _tried(run: LoopRun, doing: str, call: Coroutine[Any, Any, T]) -> T | None:
    """What a call gives; None if it fails, which is put on record. Only the run's end is raised.

    One that takes longer than `PATIENCE` has failed.
    """
    bound = asyncio.timeout(PATIENCE)
    try:
        async with bound:
            return await call
    except asyncio.CancelledError as error:
        if _unwinding():
            raise
        fault: BaseException = error
    except Exception as error:
        if bound.expired():
            late = TimeoutError(f"no answer within {PATIENCE:g} seconds")
            run.record(vocabulary.MEMORY_FAILED, doing=doing, message=unhandled(late).message)
            return None
        fault = error
    _failed(run, doing, fault)
    return None


def _unwinding() -> bool:
    """Whether somebody wants the run's asyncio task to end, or what it is at."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _failed(run: LoopRun, doing: str, fault: BaseException) -> None:
    if not is_a(fault, StoreError):
        where = "the governor" if doing.startswith("of_") else f"the memory ({doing})"
        report(fault, run.task.id, run.state.step, where)
    run.record(vocabulary.MEMORY_FAILED, doing=doing, message=unhandled(fault).message[:500])


def _matter(run: LoopRun) -> str:
    """What a step is about: the current goal, and the last words of the user."""
    words = run.task.instructions
    for entry in reversed(run.transcript[-_LOOK_BACK:]):
        if isinstance(entry, UserMessage):
            words = entry.text
            break
    return f"{run.state.goals[-1]}\n{words}" if run.state.goals else words


def seeds(given: Sequence[str]) -> Sequence[str]:
    """Seed memory, checked.

    Raises:
        InvalidValue: It is too much, or a part is no text that can be stored.
    """
    found = edges.several(given, "seed_memory", "texts", SEEDS)
    texts = tuple(edges.text(text, f"seed_memory[{at}]") for at, text in enumerate(found))
    if sum(map(len, texts)) > CHARACTERS:
        raise InvalidValue("seed_memory", f"is longer than {CHARACTERS:,} characters in all")
    return texts

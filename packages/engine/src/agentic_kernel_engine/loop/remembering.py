"""Remembering: the use of memory by a run, which goes on if memory fails.

A step first writes the items of the last commit into memory, and recalls items about its subject.
It ends with the governor's proposals in its commit. So memory is written after the record and never
before it: after a crash the same items are written again, under the same ids.
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
from ..faults import is_a, report, reraise_run_end
from ..plans import vocabulary
from ..plans.ending import End, unhandled
from ..plans.observation import Observation
from ..plans.plan import Plan
from ..plans.reasons import StopReason
from ..plans.transcript import UserMessage
from ..seams.memory import MAX_NAME, MAX_TEXT, Hit, Item, Memory, Origin, Query, Scope
from ..seams.memory_governor import MAX_PROPOSALS, MemoryGovernor, Proposal
from ..seams.planner import Context
from .continuation import SESSION
from .run import LoopRun
from .state import Ended, State

HITS: Final = 8
"""The most items that are recalled at a step."""
CHARACTERS: Final = 8_000
"""The most characters that they have together; an item that does not fit is left out."""
PENDING: Final = 32
"""The most items that wait for a memory that fails; beyond that the oldest are lost."""
PATIENCE: Final = 10.0
"""Seconds that a step waits for each recall, each write of memory and each proposal of the
governor; then the step goes on."""
SEEDS: Final = 64
"""The most items of seed memory."""
_LOOK_BACK: Final = 8
"""The number of last entries of the transcript that are searched for a message of the user."""

T = TypeVar("T")


def session_of(task: Task) -> str:
    """The name of a Task's session; a Task that names no session is a session of its own.

    Raises:
        TaskFailed: The name is not valid.
    """
    session = task.metadata.get(SESSION, task.id)
    if not isinstance(session, str) or not 0 < len(session) <= MAX_NAME:
        came = f"{len(session):,} characters" if isinstance(session, str) else edges.came(session)
        raise TaskFailed(
            "engine/bad_session",
            f"metadata[{SESSION!r}] must be a string of 1 to {MAX_NAME} characters, not {came}",
        )
    return session


class Remembering:
    """A memory and its governor, as a run uses them; no fault of theirs ends the run.

    Args:
        memory: The memory to recall from and to write to.
        governor: Decides which items are remembered; without one, no new item is.
    """

    def __init__(self, memory: Memory, governor: MemoryGovernor | None) -> None:
        self._memory = memory
        self._governor = governor

    async def inject(self, run: LoopRun, context: Context) -> None:
        """Write the items of the last step into memory; then add recalled items to the context."""
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
        """Ask the governor about a step; the step's commit carries the items to remember."""
        if self._governor is not None:
            asked = partial(self._governor.of_step, context, plan, observations)
            await self._propose(run, "of_step", asked)

    async def conclude(self, run: LoopRun, end: End) -> None:
        """Ask the governor about the end of a run, and commit the end before memory is written.

        So after a crash between the two, the run ends in the same way and remembers the same.
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
        """The recalled items that fit into the context, for the record and the planner; or None.

        A hit of another scope would be a leak, so it is a fault.
        """
        scope = _scope_of(run)
        query = Query(scope, _matter(run)[:MAX_TEXT], HITS)
        hits: list[dict[str, Any]] = []
        texts: list[str] = []
        room = CHARACTERS
        for hit in islice(await self._memory.recall(query), HITS):
            if not isinstance(hit, Hit) or not isinstance(hit.item, Item):
                raise InvalidValue("hits", "must be a sequence of Hit, each with an Item")
            if hit.item.scope != scope or not -1 <= hit.score <= 1:
                raise InvalidValue(
                    "hits", "must be of the scope of the query, with a score from -1 to 1"
                )
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
                raise InvalidValue("proposals", f"are over {MAX_PROPOSALS:,}; propose fewer")
            task, step, scope = run.task.id, run.state.step, _scope_of(run)
            return [
                Item(f"{task}:{step}:{index}", scope, each.text, each.key, Origin(task, step))
                for index, each in enumerate(proposals)
            ]

        items = await _tried(run, doing, made())
        if items:
            run.state.remembering = (*run.state.remembering, *items)
            run.record(vocabulary.MEMORY_NOTED, items=[item.id for item in items])

    async def _write(self, run: LoopRun, most: int) -> None:
        """Write the recorded items into memory; keep ``most`` of those that fail for later."""
        if self._governor is not None:
            await _tried(run, "keep", self._keep(run.state, self._governor))
        left = run.state.remembering
        lost = [item.id for item in left[: max(len(left) - most, 0)]]
        if lost:
            run.record(vocabulary.MEMORY_LOST, items=lost)
            run.state.remembering = left[len(lost) :]

    async def _keep(self, state: State, governor: MemoryGovernor) -> None:
        """Write the waiting items into memory; an item that fails does not stop the others."""
        fault: BaseException | None = None
        for item in state.remembering:
            try:
                await governor.keep(self._memory, item)
            except BaseException as error:
                reraise_run_end(error)
                fault = error
                if _unwinding():  # The governor turned the cancellation into another error.
                    break
            else:
                state.remembering = tuple(i for i in state.remembering if i is not item)
        if fault is not None:
            raise fault

    async def _prepared(self, run: LoopRun, end: End) -> bool:
        """Commit the end; True if that succeeded. If not, the run ends without memory."""
        state = run.state
        state.ended = Ended(
            end.reason, end.message, end.output, end.code,
            None if end.metadata is None else dict(end.metadata),
        )  # fmt: skip
        state.reserved = None  # No call follows.
        try:
            values.check(state.ended.output, "output")
            values.check(state.ended.metadata, "metadata")
            await run.commit()
        except BaseException as fault:
            reraise_run_end(fault)
            state.ended = None
            _record_fault(run, "keep", fault)
            run.record(vocabulary.MEMORY_LOST, items=[item.id for item in state.remembering])
            return False
        return True


def _scope_of(run: LoopRun) -> Scope:
    """The scope of a Task's items: those of its principal in the session that it names.

    Raises:
        TaskFailed: The name of the Task's session is not valid.
    """
    if run.scope is None:
        principal = run.job.principal
        run.scope = Scope(principal.tenant, principal.name, session_of(run.task))
    return run.scope


async def _tried(run: LoopRun, doing: str, call: Coroutine[Any, Any, T]) -> T | None:
    """The result of a call; None if it fails, and the failure is recorded.

    A call that takes longer than `PATIENCE` has failed. Only the cancellation of the run is raised.
    """
    bound = asyncio.timeout(PATIENCE)
    try:
        async with bound:
            return await call
    except BaseException as fault:
        reraise_run_end(fault)
        if bound.expired():
            late = TimeoutError(f"no answer within {PATIENCE:g} seconds")
            run.record(vocabulary.MEMORY_FAILED, doing=doing, message=unhandled(late).message)
        else:
            _record_fault(run, doing, fault)
    return None


def _unwinding() -> bool:
    """True if the run's asyncio task, or the work that it does now, is being cancelled."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _record_fault(run: LoopRun, doing: str, fault: BaseException) -> None:
    if not is_a(fault, StoreError):
        where = "the governor" if doing.startswith("of_") else f"the memory ({doing})"
        report(fault, run.task.id, run.state.step, where)
    run.record(vocabulary.MEMORY_FAILED, doing=doing, message=unhandled(fault).message[:500])


def _matter(run: LoopRun) -> str:
    """The subject of a step: the current goal, and the last message of the user."""
    words = run.task.instructions
    for entry in reversed(run.transcript[-_LOOK_BACK:]):
        if isinstance(entry, UserMessage):
            words = entry.text
            break
    return f"{run.state.goals[-1]}\n{words}" if run.state.goals else words


def seeds(given: Sequence[str]) -> Sequence[str]:
    """Check seed memory.

    Raises:
        InvalidValue: It is too long, or a part is not text that can be stored.
    """
    found = edges.several(given, "seed_memory", "texts", SEEDS)
    texts = tuple(edges.text(text, f"seed_memory[{at}]") for at, text in enumerate(found))
    length = sum(map(len, texts))
    if length > CHARACTERS:
        raise InvalidValue(
            "seed_memory",
            f"is {length:,} characters long in all, and at most {CHARACTERS:,} are allowed",
        )
    return texts

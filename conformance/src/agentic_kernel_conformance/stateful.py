"""Random sequences of verbs, one verb at a time; the model is `apply` itself.

Hypothesis draws and shrinks the sequences. Its state machine runs in a thread, so that the system
under test stays on the event loop of its fixtures.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar, cast

from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from agentic_kernel import (
    Complete,
    Fail,
    Failure,
    IllegalTransition,
    Kill,
    Mutation,
    Pause,
    Resume,
    Task,
    apply,
)

from .history import seen, view_of
from .rules import broken, expect

T = TypeVar("T")
Wait = Callable[[Coroutine[Any, Any, Any]], Any]

_STEPS = 16
_TASKS = 3


class Driver(Protocol):
    """The state machine's access to the system under test; each method runs on its event loop."""

    async def begin(self) -> Task:
        """Start one more Task and return its first snapshot, which is running."""
        ...

    async def perform(self, task_id: str, mutation: Mutation) -> bool | None:
        """Do it; return True or False as the system reports a change, None if it reports neither.

        Raises:
            IllegalTransition: The Task's status forbids it.
        """
        ...

    async def read(self, task_id: str) -> Sequence[Task]:
        """Return the Task once for each way of reading it."""
        ...


_TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXTS
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=6,
)
_CODES = st.sampled_from(["acme/one", "acme/two"])
# Hypothesis shrinks toward the first choice. The ends come last, so an example has few ends.
_MUTATIONS = st.one_of(
    st.just(Pause()),
    st.builds(Resume, st.none() | _TEXTS),
    st.builds(Complete, _VALUES),
    st.builds(Fail, st.builds(Failure, _CODES, st.just("as drawn"), st.just({"by": "chance"}))),
    st.just(Kill()),
)


class _Over(BaseException):
    """The event loop answers no more. Not an Exception, so that Hypothesis does not shrink."""


class _Baton:
    """Lets either the machine's thread or the event loop run, never both.

    The loop blocks while the machine draws its next step. A running loop would compete for the
    interpreter lock, which the machine needs a thousand times for one sequence.
    """

    def __init__(self) -> None:
        self.calls = 0
        self._asked: SimpleQueue[Coroutine[Any, Any, Any] | None] = SimpleQueue()
        self._answers: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self._over = False

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the work on the loop and return its result. Called in the machine's thread."""
        if self._over:
            work.close()
            raise _Over
        self._asked.put(work)
        answer, error = self._answers.get()
        if error is not None:
            raise error
        return cast(T, answer)

    def put_down(self) -> None:
        """Tell the loop that no more work comes. Called in the machine's thread."""
        self._asked.put(None)

    async def serve(self, patience: float) -> None:
        """Run each work that is asked for, until `put_down`. Called on the loop.

        Raises:
            RuleError: A call took longer than the patience.
        """
        try:
            while (work := self._asked.get()) is not None:
                self.calls += 1
                limit = asyncio.timeout(patience)
                try:
                    async with limit:
                        answer = await work
                except Exception as error:
                    if limit.expired():
                        late = f"a call did not come back within {patience:g} seconds"
                        raise broken("C2", late) from None
                    self._answers.put((None, error))
                else:
                    self._answers.put((answer, None))
        finally:
            self._over = True
            self._answers.put((None, _Over()))


async def hold_against_apply(
    driver: Driver,
    examples: int,
    first_seed: int,
    patience: float,
    extra: Callable[[str], str] = str,
) -> int:
    """Run the state machine on the driver; return the number of calls that it made.

    Args:
        examples: The number of sequences to try.
        first_seed: The seed of the sequences.
        patience: Seconds after which a call counts as hanging.
        extra: Returns the extra of a resume for a drawn text; the text itself by default.

    Raises:
        RuleError: A snapshot or an answer differs from `apply`, or a call hangs.
    """
    baton = _Baton()
    machine = seed(first_seed)(_machine(driver, baton.wait, extra))
    quietly = settings(
        max_examples=examples,
        stateful_step_count=_STEPS,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )

    def run() -> None:
        try:
            run_state_machine_as_test(machine, settings=quietly)
        except _Over:
            pass  # `serve` raises the reason
        finally:
            baton.put_down()

    running = asyncio.get_running_loop().run_in_executor(None, run)
    await baton.serve(patience)
    await running
    return baton.calls


def _machine(
    driver: Driver, wait: Wait, extra: Callable[[str], str]
) -> type[RuleBasedStateMachine]:
    class Machine(RuleBasedStateMachine):
        """Several Tasks, each with the Task that `apply` made as its model."""

        ids = Bundle[str]("ids")

        def __init__(self) -> None:
            super().__init__()
            self.model: dict[str, Task] = {}

        @precondition(lambda self: len(self.model) < _TASKS)
        @rule(target=ids)
        def dispatch(self) -> str:
            task: Task = wait(driver.begin())
            self.model[task.id] = task
            return task.id

        @rule(task_id=ids, mutation=_MUTATIONS)
        def mutate(self, task_id: str, mutation: Mutation) -> None:
            if isinstance(mutation, Resume) and mutation.extra is not None:
                mutation = Resume(extra(mutation.extra))
            before = self.model[task_id]
            doing = f"{mutation.verb} of a Task that is {before.status}"
            after = _after(before, mutation)
            if after is None:
                expect(_refused(wait, driver, task_id, mutation), "table", f"{doing} was accepted")
                return
            changed = wait(driver.perform(task_id, mutation))
            expect(
                changed in (None, after is not before),
                "C2",
                f"{doing} said that it {'changed' if changed else 'did not change'} it",
            )
            self.model[task_id] = after

        @invariant()
        def as_modelled(self) -> None:
            for task_id, wanted in self.model.items():
                for task in wait(driver.read(task_id)):
                    told = f"{seen(view_of(task))} and not {seen(view_of(wanted))}"
                    expect(_same(task, wanted), "table", f"a Task is {told}")

        def teardown(self) -> None:
            for task_id in self.model:
                wait(driver.perform(task_id, Kill()))

    return Machine


def _after(before: Task, mutation: Mutation) -> Task | None:
    """Return the Task after the mutation; None if the mutation is illegal."""
    try:
        return apply(before, mutation, datetime.now(UTC))
    except IllegalTransition:
        return None


def _refused(wait: Wait, driver: Driver, task_id: str, mutation: Mutation) -> bool:
    try:
        wait(driver.perform(task_id, mutation))
    except IllegalTransition:
        return True
    return False


def _same(task: Task, wanted: Task) -> bool:
    """True if the Task equals the one that `apply` made, except for times and notes."""
    given = wanted.metadata.keys() - wanted.noted
    return (
        view_of(task) == view_of(wanted)
        and task.failure == wanted.failure
        and task.instructions == wanted.instructions
        and (task.ended_at is None) is (wanted.ended_at is None)
        and all(task.metadata.get(key) == wanted.metadata[key] for key in given)
    )

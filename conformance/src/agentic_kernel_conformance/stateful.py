"""Random sequences of verbs, one after the other, where the model is `apply` itself.

Drawn and shrunk by Hypothesis. Its machine runs in a thread, so that the system under test stays on
the event loop of its fixtures.
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
    """What the machine does to the system under test; every method may be called on its loop."""

    async def begin(self) -> Task:
        """Start one more Task and return its first snapshot, which is running."""
        ...

    async def perform(self, task_id: str, mutation: Mutation) -> bool | None:
        """Do it, return whether it said that it changed the Task; None if it does not say.

        Raises:
            IllegalTransition: The Task's status forbids it.
        """
        ...

    async def read(self, task_id: str) -> Sequence[Task]:
        """The Task in each of the ways in which it can be read."""
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
# The ends come last: a shrunk example then has as few of them as it needs.
_MUTATIONS = st.one_of(
    st.just(Pause()),
    st.builds(Resume, st.none() | _TEXTS),
    st.builds(Complete, _VALUES),
    st.builds(Fail, st.builds(Failure, _CODES, st.just("as drawn"), st.just({"by": "chance"}))),
    st.just(Kill()),
)


class _Over(BaseException):
    """There is nobody to answer. Not an Exception: smaller cases would not be answered either."""


class _Baton:
    """Lets either the machine's thread or the event loop run, never both.

    The loop stands still while the machine draws its next step. Left running, it would keep the
    interpreter from a machine that needs it a thousand times for one sequence.
    """

    def __init__(self) -> None:
        self.calls = 0
        self._asked: SimpleQueue[Coroutine[Any, Any, Any] | None] = SimpleQueue()
        self._answers: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self._over = False

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """What the work gives on the loop. For the machine's thread."""
        if self._over:
            work.close()
            raise _Over
        self._asked.put(work)
        answer, error = self._answers.get()
        if error is not None:
            raise error
        return cast(T, answer)

    def put_down(self) -> None:
        """There is no more to ask. For the machine's thread."""
        self._asked.put(None)

    async def serve(self, patience: float) -> None:
        """Do what is asked until it is put down. For the loop.

        Raises:
            RuleError: Something took longer than the patience.
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
    driver: Driver, examples: int, first_seed: int, patience: float
) -> int:
    """Run the machine on the driver; returns how many calls it made.

    Args:
        examples: How many sequences are tried.
        first_seed: Decides which.
        patience: Seconds after which a call is taken to hang.

    Raises:
        RuleError: A snapshot is not what `apply` makes of the one before, or a call hangs.
    """
    baton = _Baton()
    machine = seed(first_seed)(_machine(driver, baton.wait))
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
            pass  # whoever stopped answering says why
        finally:
            baton.put_down()

    running = asyncio.get_running_loop().run_in_executor(None, run)
    await baton.serve(patience)
    await running
    return baton.calls


def _machine(driver: Driver, wait: Wait) -> type[RuleBasedStateMachine]:
    class Machine(RuleBasedStateMachine):
        """Several Tasks, and what `apply` says that they are."""

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
    """The Task after the mutation; None where that is illegal."""
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
    """Whether it is the Task that `apply` made, but for the moments and for notes."""
    given = wanted.metadata.keys() - wanted.noted
    return (
        view_of(task) == view_of(wanted)
        and task.failure == wanted.failure
        and task.instructions == wanted.instructions
        and (task.ended_at is None) is (wanted.ended_at is None)
        and all(task.metadata.get(key) == wanted.metadata[key] for key in given)
    )

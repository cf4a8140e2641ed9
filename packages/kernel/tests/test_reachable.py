"""Every state that one Task can reach, and every pair of them.

The alphabet is finite (two results, two extras, two notes, three moments, at most two
supplements), so the enumeration closes, and what is asserted holds for each of its states. That is
why `apply` may skip the checks of the constructor.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from agentic_kernel import (
    Complete,
    Dispatch,
    Fail,
    Failure,
    IllegalTransition,
    Kill,
    Mutation,
    Pause,
    Resume,
    Task,
    TaskStatus,
    annotate,
    apply,
)
from agentic_kernel.invariants import check, follows

START = datetime(2026, 1, 1, tzinfo=UTC)
MOMENTS = [timedelta(seconds=seconds) for seconds in (-1, 1, 2)]
NOTES = [None, {"acme/n": 1}]
MUTATIONS: list[Mutation] = [
    make
    for notes in NOTES
    for make in (
        Dispatch(notes=notes),
        Pause(notes=notes),
        Resume(notes=notes),
        Resume("", notes=notes),
        Resume("more", notes=notes),
        Kill(notes=notes),
        Complete(None, notes=notes),
        Complete([1], notes=notes),
        Fail(Failure("acme/x", "x"), notes=notes),
    )
]
MAX_SUPPLEMENTS = 2


def _successors(task: Task) -> Iterator[Task]:
    for mutation in MUTATIONS:
        longer = isinstance(mutation, Resume) and mutation.extra is not None
        if longer and len(task.supplements) >= MAX_SUPPLEMENTS:
            continue
        for moment in MOMENTS:
            try:
                yield apply(task, mutation, task.created_at + moment)
            except IllegalTransition:
                continue
    for notes in ({"acme/n": 1}, {"acme/n": 2}):
        yield annotate(task, notes)


class Graph:
    """Every reachable state with the indices of the states that one step leads to."""

    def __init__(self, start: Task) -> None:
        self.states = [start]
        self.steps: list[set[int]] = []
        # By text, because equal Tasks of one id share one hash and 1 would equal True.
        index = {repr(start): 0}
        while len(self.steps) < len(self.states):
            steps = set()
            for task in _successors(self.states[len(self.steps)]):
                place = index.setdefault(repr(task), len(self.states))
                if place == len(self.states):
                    self.states.append(task)
                steps.add(place)
            self.steps.append(steps)

    def reachable(self, origin: int) -> set[int]:
        found, queue = {origin}, [origin]
        while queue:
            fresh = self.steps[queue.pop()] - found
            found |= fresh
            queue.extend(fresh)
        return found


@pytest.fixture(scope="module")
def graph() -> Graph:
    return Graph(
        Task.new(
            summary="s", instructions="i", runtime_kind="k", metadata={"given": 1}, id="t", at=START
        )
    )


def test_the_enumeration_closes_over_every_status(graph: Graph) -> None:
    assert {task.status for task in graph.states} == set(TaskStatus)
    notes, supplements, starts, stamps = 3, 1 + 2 + 4, 3, 3 + 2 + 1
    never_ran = notes + notes * len(MOMENTS)  # not started; killed before a start
    alive = 2 * starts * supplements * notes  # running, paused
    ended = 4 * stamps * supplements * notes  # two results, a failure, a kill
    assert len(graph.states) == never_ran + alive + ended


@pytest.mark.rule("C3")
def test_every_reachable_state_keeps_the_invariants(graph: Graph) -> None:
    for task in graph.states:
        check(task)


@pytest.mark.rule("C3")
def test_every_reachable_state_is_what_the_constructor_would_have_made(graph: Graph) -> None:
    for task in graph.states:
        fields = {name: getattr(task, name) for name in Task.__slots__}
        built = Task(**fields)
        assert repr(built) == repr(task)
        assert built == task
        for name, value in fields.items():
            assert type(getattr(built, name)) is type(value), name


@pytest.mark.rule("C7")
def test_follows_is_exactly_reachability(graph: Graph) -> None:
    """Hence it is reflexive and transitive, and a terminal state is followed by itself only."""
    for origin, earlier in enumerate(graph.states):
        reachable = graph.reachable(origin)
        for place, later in enumerate(graph.states):
            if follows(earlier, later) != (place in reachable):
                pytest.fail(f"follows is wrong about\n{earlier}\nand then\n{later}")

"""The checker itself: what it accepts, what it refuses, how it shrinks and draws."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import permutations

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
    apply,
)
from agentic_kernel_conformance.history import ABSENT, Operation, View, view_of
from agentic_kernel_conformance.linearizability import VERBS, State, explains, linearize
from agentic_kernel_conformance.rules import RuleError
from agentic_kernel_conformance.shrinking import shrink
from agentic_kernel_conformance.timeline import expect_linearizable, told

R, P = TaskStatus.RUNNING, TaskStatus.PAUSED
PAUSED = State((P, (), ""))


def op(
    caller: str, called: int, returned: int | None, verb: str, argument: object = None,
    effect: str = "", view: View | None = None,
) -> Operation:  # fmt: skip
    return Operation(caller, called, returned, verb, argument, effect, view)


def read(caller: str, called: int, returned: int, status: TaskStatus, *extras: str) -> Operation:
    return op(caller, called, returned, "get", None, "none", (status, extras, ""))


@pytest.mark.parametrize("status", list(TaskStatus))
@pytest.mark.parametrize(
    ("mutation", "argument"),
    [
        (Dispatch(), None),
        (Pause(), None),
        (Resume("x"), "x"),
        (Resume(), None),
        (Kill(), None),
        (Complete(1), "1"),
        (Fail(Failure("a/b", "text")), "a/b"),
    ],
)
def test_the_model_is_apply(status: TaskStatus, mutation: Mutation, argument: object) -> None:
    """Reduced to what observers see, cell by cell; a kill of what is not stored finds nothing."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    task = replace(
        Task.new(summary="", instructions="", runtime_kind="a", at=at),
        status=status,
        started_at=at if status is not TaskStatus.NOT_STARTED else None,
        ended_at=at if status.terminal else None,
        failure=Failure("c/d", "text") if status is TaskStatus.FAILURE else None,
    )
    effects = dict(VERBS[mutation.verb](State(view_of(task)), argument))
    if status is TaskStatus.NOT_STARTED and mutation.verb != "dispatch":
        assert effects == {"refused": State(view_of(task))}
        return
    try:
        after = apply(task, mutation, at)
    except IllegalTransition:
        assert effects["refused"] == State(view_of(task))
        return
    assert effects["none" if after is task else "transition"] == State(view_of(after))


def test_of_two_resumers_one_may_be_told_yes() -> None:
    one = op("a", 0, 4, "resume", "x", "transition")
    other = op("b", 1, 5, "resume", "y", "none")
    assert linearize([one, other], PAUSED).holds
    assert not linearize([one, replace(other, effect="transition")], PAUSED).holds


def test_an_operation_without_an_answer_may_have_happened_or_not() -> None:
    lost = op("a", 0, None, "resume", "x")
    assert linearize([lost, read("b", 1, 2, P)], PAUSED).holds
    assert linearize([lost, read("b", 1, 2, R, "x")], PAUSED).holds
    assert linearize([lost, read("b", 1, 2, P), read("b", 3, 4, R, "x")], PAUSED).holds
    assert not linearize([lost, read("b", 1, 2, R, "x"), read("b", 3, 4, P)], PAUSED).holds
    assert not linearize([read("b", 1, 2, R, "x"), replace(lost, called=3)], PAUSED).holds


def test_a_request_and_the_checkpoint_that_honours_it_are_two() -> None:
    request = op("a", 0, 1, "pause", None, "requested", (R, (), ""))
    honoured = op("run", 4, 5, "checkpoint", (), "paused")
    running = State((R, (), ""))
    assert linearize([request, read("b", 2, 3, R), honoured, read("b", 6, 7, P)], running).holds
    assert not linearize([request, replace(honoured, effect="kept")], running).holds
    withdrawn = op("c", 2, 3, "resume", "x", "withdrawn", (R, (), ""))
    assert linearize([request, withdrawn, replace(honoured, effect="kept")], running).holds
    assert not linearize([request, withdrawn, honoured], running).holds


def test_a_late_result_never_ends_the_next_run() -> None:
    history = [
        op("run 0", 0, None, "finish", ((), "by run 0")),
        op("a", 1, 2, "resume", "x", "transition"),
    ]
    for entry, holds in (((), False), (("x",), True)):
        finish = replace(history[0], argument=(entry, "by run 0"))
        end = op("b", 3, 4, "get", None, "none", (TaskStatus.SUCCESS, ("x",), "by run 0"))
        assert linearize([finish, history[1], end], PAUSED).holds is holds


def test_reads_of_one_observer_that_run_backwards_break_c7() -> None:
    history = [
        op("a", 0, 9, "resume", "x", "transition"),
        read("b", 1, 2, R, "x"),
        read("b", 3, 4, P),
    ]
    with pytest.raises(RuleError) as caught:
        expect_linearizable([op("a", -2, -1, "dispatch", None, "transition"),
                             op("a", -1, 0, "honour", None, "transition"), *history])  # fmt: skip
    assert caught.value.rule.name == "C7"


def test_an_acknowledged_extra_that_is_gone_breaks_c2() -> None:
    history = [op("a", 0, 1, "resume", "x", "transition"), read("b", 2, 3, R)]
    witness = shrink(history, PAUSED)
    assert witness.rule == "C2"
    assert witness.operations == tuple(history)
    assert told(witness) == (
        "no order of these 2 operations explains what was told:\n"
        "before: paused\n"
        "a  resume('x')  ├──┤           → yes\n"
        "b  get()              ├──┤     → running\n"
        "the longest explanation: after a resume('x') the Task is running [x]; "
        "that leaves b get() → running"
    )


def histories(many: int, size: int, callers: int) -> Iterator[list[Operation]]:
    """Histories of a perfect Task: each operation takes effect at one moment within its call."""
    for seed in range(many):
        chance, state, clock = random.Random(seed), State(), 0
        under_way: dict[int, Operation] = {}
        done: list[Operation] = []
        while len(done) < size:
            caller, clock = chance.randrange(callers), clock + 1
            call = under_way.get(caller)
            if call is None:
                verb = chance.choice(
                    ["pause", "resume", "get", "checkpoint", *(["kill"] if clock > size else [])]
                )
                verb = "dispatch" if clock == 1 else verb
                argument = {"resume": str(clock), "checkpoint": state.view[1]}.get(verb)
                under_way[caller] = op(f"c{caller}", clock, None, verb, argument)
            elif not call.effect:
                told, state = chance.choice(VERBS[call.verb](state, call.argument))
                under_way[caller] = replace(call, effect=told, view=state.view)
            else:
                heard = replace(
                    call, returned=clock, view=None if call.effect == "refused" else call.view
                )
                done.append(call.forgotten() if chance.random() < 0.05 else heard)
                del under_way[caller]
        yield [*done, *(call.forgotten() for call in under_way.values())]


def test_histories_of_a_perfect_task_hold() -> None:
    for history in histories(300, 40, 4):
        expect_linearizable(history)


def by_hand(history: Sequence[Operation], start: State) -> bool:
    """True if some order of some of the operations explains all, tried one by one."""
    known = [each for each in history if each.returned is not None]
    unknown = [each for each in history if each.returned is None]
    subsets = [[each for n, each in enumerate(unknown) if mask >> n & 1]
               for mask in range(1 << len(unknown))]  # fmt: skip
    return any(
        _explained(order, start)
        for some in subsets
        for order in permutations([*known, *some])
        if all(
            later.returned is None or later.returned > earlier.called
            for n, earlier in enumerate(order)
            for later in order[n + 1 :]
        )
    )


def _explained(order: Sequence[Operation], start: State) -> bool:
    states = {start}
    for each in order:
        states = {after for state in states for after in explains(state, each)}
    return bool(states)


@pytest.mark.parametrize(
    "how",
    ["as told", pytest.param("only accepted, and a read at the end", marks=pytest.mark.torture)],
)
def test_the_search_agrees_with_trying_everything(how: str) -> None:
    """On small histories, half of them spoilt."""
    verdicts = []
    for seed, history in enumerate(histories(300, 5, 3)):
        chance = random.Random(seed)
        spoilt = list(history) if how == "as told" else _ending_with_a_read(history, chance)
        if chance.random() < 0.7:
            index = chance.randrange(len(spoilt))
            effect = chance.choice(["transition", "none", "requested", "withdrawn", "lost"])
            spoilt[index] = replace(spoilt[index], effect=effect, returned=spoilt[index].called + 1)
        moments = [m for each in spoilt for m in (each.called, each.returned) if m is not None]
        if len(set(moments)) != len(moments):
            continue
        holds = linearize(spoilt).holds
        assert holds is by_hand(spoilt, State()), seed
        verdicts.append(holds)
    assert len(verdicts) > 100
    assert 20 < verdicts.count(False) < len(verdicts) - 20


def _ending_with_a_read(history: Sequence[Operation], chance: random.Random) -> list[Operation]:
    """The same, had its callers been told no more than a Runtime must tell them."""
    views = [each.view for each in history if each.view is not None] or [ABSENT]
    accepted = [
        replace(each, effect="accepted", view=None)
        if each.verb in ("pause", "resume", "kill") and each.effect not in ("", "refused")
        else each
        for each in history
    ]
    return [*accepted, op("z", 1_000, 1_001, "get", None, "none", chance.choice(views))]


def test_what_is_shrunk_still_fails_and_is_small() -> None:
    """One extra is taken out of every read; what is left is a handful of operations."""
    sizes = []
    for history in histories(100, 40, 4):
        resumed = (each for each in history if each.verb == "resume")
        lost = next((each.argument for each in resumed if each.effect == "transition"), None)
        spoilt = [_without(each, lost) if each.reads else each for each in history]
        if linearize(spoilt).holds:
            continue
        witness = shrink(spoilt)
        assert not linearize(witness.operations, witness.start).holds
        assert not linearize([*witness.operations, *witness.aside], witness.start).holds
        sizes.append(len(witness.operations))
    assert len(sizes) > 20
    assert sorted(sizes)[len(sizes) // 2] <= 6


def _without(operation: Operation, extra: object) -> Operation:
    status, supplements, end = operation.view or ABSENT
    if operation.view is None:
        return operation
    left = tuple(each for each in supplements if each != extra)
    return replace(operation, view=(status, left, end))

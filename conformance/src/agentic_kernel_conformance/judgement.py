"""Judgement: compares a recorded history, and its traces in the store, with the models."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from agentic_kernel_engine import Host, Record, Store
from agentic_kernel_engine.events import from_stored

from .contest import STEP, Contest
from .history import Operation, Recorder, View, snapshot
from .parts import Part
from .rules import RuleError, broken, in_time
from .timeline import expect_linearizable
from .traces import Trace, expect_steps


async def judged(contest: Contest, trial: str, patience: float = 60.0) -> None:
    """Run a contest, judge it, and end its Task if it has not ended.

    Args:
        patience: Seconds after which the contest counts as hung; it usually takes milliseconds.

    Raises:
        RuleError: The models do not explain the answers to the callers, or the stored events and
            the stored record.
    """
    script = contest.script
    about = f"history {script.seed} ({script.race.name}: {script.race.about}), {trial}"
    async with in_time("C2", patience, about):
        record = await contest.run()
    await judge(contest.store, record, contest.history, contest.given, contest.dead, about)
    if not record.task.status.terminal:
        control = Host(store=contest.store)
        await control.kill(record.task.id)
        await control.close()


async def together(
    store: Store, seed: int, parts: Sequence[Part], clock: Callable[[], int], about: str
) -> int:
    """End a history of several parts, judge it, and return its number of operations.

    Raises:
        RuleError: The models do not explain the history.
    """
    task_id = f"contest-{seed}"
    recorder = Recorder(clock)
    control = Host(store=store)
    await recorder.call("the last", "kill", None, control.kill(task_id))
    await recorder.call("at the end", "get", None, control.get(task_id), snapshot)
    await control.close()
    history = [operation for part in parts for operation in part.operations]
    history += recorder.operations
    given = [each for part in parts for each in part.given]
    await judge(store, await store.load(task_id), history, given, None, about)
    return len(history)


async def judge(
    store: Store,
    record: Record,
    history: Sequence[Operation],
    given: Iterable[tuple[str, int, View]],
    dead: Collection[str] | None,
    about: str,
) -> None:
    """Compare a history, and the events and the record that it left, with the models.

    Raises:
        RuleError: A model does not explain them.
    """
    stored = await store.events(record.task.id, limit=1_000_000)
    events = [from_stored(id, text) for id, text in stored]
    try:
        expect_linearizable(history)
        trace = Trace(mortal=dead)
        trace.follow(events)
        for rule, version, view in given:
            trace.expect_seen(version, view, rule)
        trace.expect_left(record)
        expect_steps(events, STEP, record)
    except RuleError as error:
        raise broken(error.rule.name, f"in {about}: {error.seen}") from None

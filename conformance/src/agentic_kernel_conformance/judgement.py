"""Judgement: a recorded history, and what it left in the store, held against the models."""

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
        patience: Seconds after which it is taken to hang; one takes some milliseconds.

    Raises:
        RuleError: What its callers were told, or what it left in the store, is not explained.
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
    """End a history to which several contributed, and judge it; returns how many operations.

    Raises:
        RuleError: It is not explained.
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
    """Hold a history, and the trace that it left, against the models.

    Raises:
        RuleError: One of them does not explain it.
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

"""Plans of `SubstrateContract`: crashes and take-overs, always between processes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from agentic_kernel import Task

from .rules import expect
from .substrate_bench import Bench
from .substrate_pauses import MARKS
from .substrate_script import Say, Script
from .substrate_trial import Stop, Trial

_SAYS: Script = tuple(Say(f"text-{number}") for number in range(6))


async def crash_at_commits(bench: Bench) -> None:
    """Kill the process before each commit lands, and after it landed, before it is acknowledged.

    At first one Task dies at one commit after the other. What a run does after a crash hides the
    commits that it would have made otherwise. So then each Task dies once, at another commit.
    """
    script = MARKS if bench.features.marks else _SAYS
    await _gauntlet(bench, script, lambda stop: stop.what in ("commit", "landed"), made=False)
    calm = await _at_commit(bench, script, None)
    places = [(what, str(at)) for at in range(1, calm.commits + 1) for what in ("landed", "commit")]
    for place in bench.some(places):
        await _at_commit(bench, script, place)


async def _at_commit(bench: Bench, script: Script, place: tuple[str, str] | None) -> Trial:
    """Run a Task whose process dies once, at this commit; None for no crash."""
    trial = await bench.begin(script, stepwise=True)
    left = {place}

    async def act(stop: Stop) -> None:
        if (stop.what, stop.name) in left:
            left.clear()
            await bench.crash(trial, stop)
        else:
            stop.go()

    await bench.play(trial, act)
    await bench.compare(trial)
    return trial


async def crash_before_marks(bench: Bench) -> None:
    """Kill the process while each mark waits; the mark does not happen."""
    await _gauntlet(bench, MARKS, lambda stop: stop.what == "mark", made=False)


async def crash_after_marks(bench: Bench) -> None:
    """Kill the process when each mark has happened, before its answer arrives."""
    await _gauntlet(bench, MARKS, lambda stop: stop.what == "mark", made=True)


async def _gauntlet(
    bench: Bench, script: Script, wanted: Callable[[Stop], bool], *, made: bool
) -> None:
    """Crash once at each wanted stop; a Task that gave up after a report is begun again."""
    seen = set[tuple[str, str]]()
    while len(seen) < bench.most:
        known = len(seen)
        trial = await bench.begin(script, stepwise=not made)

        async def act(stop: Stop, trial: Trial = trial) -> None:
            place = (stop.what, stop.name)
            if not wanted(stop) or place in seen or len(seen) >= bench.most:
                stop.go()
                return
            seen.add(place)
            await bench.crash(trial, stop, made=made)

        task = await bench.play(trial, act)
        await bench.compare(trial)
        if str(task.status) == "success" or len(seen) == known:
            return


async def take_over_at_every_mark(bench: Bench) -> None:
    """Drain the worker while each mark waits: another worker goes on after it."""
    trial = await bench.begin(MARKS)

    async def act(stop: Stop) -> None:
        if stop.what == "mark":
            await bench.drain(trial, stop)
        stop.go()

    await bench.play(trial, act)
    await bench.compare(trial)


async def expire_at_a_mark(bench: Bench) -> None:
    """Declare the living worker dead while a mark waits: it begins no mark after it lost the Task.

    Two other workers race for the Task; one of them gets it.
    """
    trial = await bench.begin(MARKS)
    first = await bench.until(trial, "two")
    old = first.worker
    assert old is not None
    trial.tell("expired", worker=old)
    await bench.world.expire(old)
    await asyncio.gather(bench.world.worker(), bench.world.worker())
    await trial.claimed(old)
    first.go()
    place = len(trial.log)
    task: Task = await bench.play(trial)
    late = [s for s in trial.log[place:] if s.what == "asked" and s.worker == old.number]
    expect(
        len(late) < bench.bounds.steps,
        "once",
        f"worker {old.number} had lost the Task to another worker, and began "
        f"{', '.join(seen.name for seen in late)} afterwards\n{trial.story()}",
    )
    if str(task.status) == "success":
        await bench.compare(trial)

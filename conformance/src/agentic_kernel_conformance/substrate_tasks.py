"""Plans of `SubstrateContract`: Tasks that nothing interrupts, alone and at once."""

from __future__ import annotations

import asyncio
from collections import deque

from agentic_kernel import CannotStart, TaskNotFound, TaskStatus

from .rules import RuleError, broken, expect, refused
from .substrate_bench import Bench
from .substrate_left import files
from .substrate_pauses import MARKS
from .substrate_script import Fail, Hear, Mark, Say, Script
from .substrate_trial import Stop, Trial
from .work import RefusingWork

LONG = 18
"""The marks of the script by which the growth of a state is measured."""
_OTHER: Script = (Mark("east"), Say("the-other"), Mark("west"), Mark("north"), Mark("south"))


async def every_step_once(bench: Bench) -> None:
    """Run scripts of every kind of step; each is done once and in order, twice with one result."""
    scripts: list[Script] = [(Say("alone"),)]
    if bench.features.marks:
        scripts += [(Mark("single"),), MARKS]
    if bench.features.hears:
        scripts.append((Hear(), Mark("heard-nothing"), Hear()))
    worker = await bench.world.worker()
    for script in scripts:
        trial = await bench.begin(script, worker)
        task = await bench.play(trial)
        expect(
            task.status is TaskStatus.SUCCESS,
            "progress",
            f"the Task ended {task.status}\n{trial.story()}",
        )
        expect(
            bench.work.same(await bench.plain(script), task.result),
            "result",
            f"the same script gave {task.result!r:.500} once, and before "
            f"{await bench.plain(script)!r:.500}; `SubstrateWork.same` must call results equal "
            f"that differ from run to run\n{trial.story()}",
        )


async def failing_work(bench: Bench) -> None:
    """Let the work fail: the Task ends in failure with a code, and no later step is done."""
    worker = await bench.world.worker()
    before: Script = (Mark("before"),) if bench.features.marks else ()
    after: Script = (Mark("never"),) if bench.features.marks else ()
    for code in (1, 3, 125):
        trial = await bench.begin((*before, Fail(code), *after), worker)
        task = await bench.play(trial)
        expect(
            task.status is TaskStatus.FAILURE and task.failure is not None,
            "outcome",
            f"the work failed with the exit code {code}, and the Task ended {task.status}\n"
            f"{trial.story()}",
        )
        assert task.failure is not None
        expect(
            not task.failure.code.startswith("engine/"),
            "outcome",
            f"the work failed with the exit code {code}, and the Task's failure has the code "
            f"{task.failure.code}, which is the Host's for a fault; raise TaskFailed with a code "
            f"of your own: {task.failure.message:.300}",
        )
        expect(
            "never" not in [seen.name for seen in trial.log],
            "outcome",
            f"the work went on after the step that failed\n{trial.story()}",
        )
    await bench.play(await bench.begin((Say("on"),), worker))


async def failing_mark(bench: Bench) -> None:
    """Refuse a mark: the Task does not succeed as if it had been made."""
    trial = await bench.begin(MARKS)
    refusals = 0
    while (stop := await trial.next()).what != "ended":
        refuse = stop.what == "mark" and stop.name == "two"
        refusals += refuse
        if refusals > 20:
            break  # It tries for ever, so it did not miss the refusal.
        stop.go(not refuse)
    task = trial.task
    if task.status is TaskStatus.SUCCESS:
        expect(
            not bench.work.same(await bench.plain(MARKS), task.result),
            "outcome",
            f"the mark two failed each of {refusals} times, and the Task succeeded with the same "
            f"result as if it had been made\n{trial.story()}",
        )


async def refusals(bench: Bench) -> None:
    """Dispatch a Task that the substrate refuses: nothing is stored, and nothing is started."""
    work = bench.work
    assert isinstance(work, RefusingWork)
    worker = await bench.world.worker()
    before = files(worker.folder)
    for _ in range(3):
        task = work.refused()
        with refused("edges", CannotStart, "the dispatch of a Task that `refused` made"):
            await worker.dispatch(task)
        with refused("edges", TaskNotFound, "a `get` of a Task that was refused"):
            await bench.world.control.get(task.id)
    left = [*files(worker.folder)[len(before) :], *worker.processes().values()]
    expect(not left, "edges", f"the substrate refused Tasks, and left {', '.join(left)}")
    await bench.play(await bench.begin((Say("on"),), worker))


async def free_loop(bench: Bench) -> None:
    """Let each mark wait until the worker's event loop has answered, or is found held."""
    trial = await bench.begin(MARKS)
    while True:
        stop = await trial.next()
        if stop.what == "ended":
            break
        if stop.what == "mark" and stop.worker is not None:
            await stop.worker.call("pulse")
        stop.go()
    await bench.judge(trial)


async def two_at_once(bench: Bench) -> None:
    """Run two Tasks in one worker, step by step in turns; then kill one of two."""
    worker = await bench.world.worker()
    for victim in (False, True):
        one = await bench.begin(MARKS, worker)
        other = await bench.begin(_OTHER, worker)
        going = [one, other]
        while going:
            for trial in list(going):
                stop = await trial.next("clause1")
                if stop.what == "ended":
                    going.remove(trial)
                elif victim and trial is one and stop.name == "two":
                    await bench.kill(one)
                else:
                    stop.go()
        for trial in (one, other):
            await _apart(bench, trial)


async def twins(bench: Bench) -> None:
    """Run two Tasks of one script in one worker; both wait at a mark before one goes on."""
    worker = await bench.world.worker()
    one = await bench.begin(MARKS, worker)
    other = await bench.begin(MARKS, worker, twin=one)
    going = {asyncio.ensure_future(trial.next("clause1")): trial for trial in (one, other)}
    running, waiting = 2, deque[Stop]()
    try:
        while running:
            done, _ = await asyncio.wait(going, return_when=asyncio.FIRST_COMPLETED)
            for future in done:
                trial, stop = going.pop(future), future.result()
                if stop.what == "ended":
                    running -= 1
                else:
                    waiting.append(stop)
                    going[asyncio.ensure_future(trial.next("clause1"))] = trial
            if waiting and len(waiting) >= running:
                waiting.popleft().go()
    finally:
        for future in going:
            future.cancel()
        await asyncio.gather(*going, return_exceptions=True)
    for trial in (one, other):
        await _apart(bench, trial)


async def _apart(bench: Bench, trial: Trial) -> None:
    if trial.task.status is TaskStatus.CANCELLED:
        return
    try:
        await bench.judge(trial)
    except RuleError as found:
        # Alone the script does well, as another test proves.
        raise broken("clause1", f"two Tasks ran at once, and in one {found.seen}") from found
    foreign = _OTHER if trial.script is MARKS else MARKS
    output = bench.work.output(trial.task, await bench.events(trial))
    for step in foreign:
        if isinstance(step, Say) and step.text in output:
            raise broken(
                "clause1",
                f"two Tasks ran at once, and the output of one has {step.text!r} of the other\n"
                f"{trial.story()}",
            )
    expected = await bench.plain(trial.script)
    expect(
        bench.work.same(expected, trial.task.result),
        "clause1",
        f"alone the result is {expected!r:.300}, and beside another Task it is "
        f"{trial.task.result!r:.300}\n{trial.story()}",
    )


async def small_states(bench: Bench) -> None:
    """Run a long script: no state is large, and none grows with the steps that were done."""
    script: Script = tuple(Mark(f"long-and-unforgettable-{number:02d}") for number in range(LONG))
    if not bench.features.marks:
        script = tuple(Say(f"long-and-unforgettable-{number:02d}") for number in range(LONG))
    trial = await bench.begin(script)
    await bench.play(trial)
    sizes = [seen.size for seen in trial.log if seen.what == "committed"]
    largest = max(sizes, default=0)
    expect(
        largest <= bench.bounds.state,
        "small",
        f"a state has {largest:,} bytes; Bounds.state is {bench.bounds.state:,}",
    )
    third = len(sizes) // 3
    if third:
        early, late = max(sizes[:third]), max(sizes[-third:])
        allowed = bench.bounds.growth * (LONG - LONG // 3)
        expect(
            late - early <= allowed,
            "small",
            f"within {LONG} steps the state grew from {early:,} to {late:,} bytes; at most "
            f"{allowed:,} more are allowed, {bench.bounds.growth} a step (Bounds.growth). Put "
            "history into events, and read them with job.history()",
        )

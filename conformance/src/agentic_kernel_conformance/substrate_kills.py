"""Plans of `SubstrateContract`: kills, and what a Task leaves behind."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from .rules import broken, expect
from .substrate_bench import Bench
from .substrate_left import files
from .substrate_pauses import MARKS
from .substrate_script import Fail, Hear, Mark, Say, Script, tokens
from .substrate_trial import Stop, Trial
from .substrate_world import Worker

RUNS = {
    "processes": "process",
    "threads": "thread",
    "tasks": "asyncio task",
    "sockets": "open socket",
}
"""All that can run, and its name in a message."""
_TOLD: Script = (Mark("a"), Mark("b"), Hear(), Mark("c"))
_SHORT: Script = (Say("a-word"), Mark("short"))


@dataclass(frozen=True, slots=True)
class Sight:
    """All that is alive in a worker, or lies in its folder."""

    processes: list[str]
    threads: list[str]
    tasks: list[str]
    sockets: list[str]
    files: list[str]

    def beyond(self, calm: Sight, kinds: Mapping[str, str]) -> list[str]:
        """Name what there is more of than in a calm worker, of these kinds."""
        found = []
        for kind, name in kinds.items():
            now, then = getattr(self, kind), getattr(calm, kind)
            if len(now) > len(then):
                new = list((Counter(now) - Counter(then)).elements())
                found += [f"{name} {each}" for each in new[: len(now) - len(then)]]
        return found


async def look(worker: Worker) -> Sight:
    """Look at a worker, from inside and from outside."""
    inside = await worker.call("look")
    return Sight(
        sorted(worker.processes().values()),
        inside["threads"],
        inside["tasks"],
        inside["sockets"],
        files(worker.folder),
    )


async def calm(bench: Bench, worker: Worker, before: Sight, rule: str, trial: Trial) -> None:
    """Wait until there is no more in a worker than before, for at most `Bounds.wait`."""
    kinds = RUNS if rule == "unwind" else {**RUNS, "files": "file"}
    loop = asyncio.get_running_loop()
    end = loop.time() + bench.bounds.wait
    while left := (await look(worker)).beyond(before, kinds):
        if loop.time() > end:
            raise broken(
                rule,
                f"{bench.bounds.wait:g} s (Bounds.wait) after the Task ended "
                f"{trial.task.status}, this is left of it: {'; '.join(left)}\n{trial.story()}",
            )
        await asyncio.sleep(0.01)


async def settled(bench: Bench) -> tuple[Worker, Sight]:
    """Start a worker, let it do one Task, and look at it when nothing changes any more.

    A substrate may keep a pool, a connection or a server of its own; these are there now.
    """
    worker = await bench.world.worker()
    await bench.play(await bench.begin(_SHORT, worker))
    last = await look(worker)
    for _ in range(50):
        await asyncio.sleep(0.01)
        now = await look(worker)
        if now == last:
            break
        last = now
    return worker, last


async def kill_at_every_mark(bench: Bench) -> None:
    """Kill the Task while each mark waits: nothing of it runs on, and its output is kept."""
    worker, before = await settled(bench)
    for token in tokens(MARKS):
        trial = await bench.begin(MARKS, worker)
        stop = await bench.until(trial, token)
        await _kill(bench, trial, stop, worker, before)
        await _output_kept(bench, trial, token)
    await bench.play(await bench.begin(_SHORT, worker))


async def kill_at_every_extra(bench: Bench) -> None:
    """Kill the Task while the mark of an extra waits, and another extra was not taken up yet."""
    worker, before = await settled(bench)
    extras = ("told-1", "told-2")
    for token in extras:
        trial = await bench.begin(_TOLD, worker, extras)
        for mark, extra in zip(("a", "b"), extras, strict=True):
            stop = await bench.until(trial, mark)
            await bench.pause(trial, stop)
            stop.go()
            await bench.paused(trial)
            await bench.resume(trial, extra)
        stop = await bench.until(trial, token, "extras")
        await _kill(bench, trial, stop, worker, before)
    await bench.play(await bench.begin(_SHORT, worker))


async def _kill(bench: Bench, trial: Trial, stop: Stop, worker: Worker, before: Sight) -> None:
    """Kill the Task at a mark: within `Bounds.wait` nothing of it runs, and no mark is begun."""
    place = len(trial.log)
    await bench.kill(trial)
    await calm(bench, worker, before, "unwind", trial)
    stop.go(False)
    late = [seen.name for seen in trial.log[place:] if seen.what == "asked"]
    expect(
        not late,
        "unwind",
        f"the Task was killed, and its work began {', '.join(late)} afterwards\n{trial.story()}",
    )


async def _output_kept(bench: Bench, trial: Trial, token: str) -> None:
    if not bench.features.keeps_output:
        return
    output = bench.work.output(trial.task, await bench.events(trial))
    before = MARKS[: MARKS.index(Mark(token))]
    for step in before:
        if isinstance(step, Say) and step.text not in output:
            raise broken(
                "output",
                f"the work said {step.text!r} before the mark {token}, the Task was killed at "
                f"that mark, and its output has the text no more: {output!r:.500}\n"
                f"{trial.story()}",
            )


async def leave_nothing(bench: Bench) -> None:
    """Run Tasks that succeed, fail, are paused or killed: the worker is as before each time."""
    worker, before = await settled(bench)
    scripts = [_SHORT, MARKS]
    if bench.features.fails:
        scripts.append((Mark("well"), Fail(), Mark("never")))
    for script in scripts:
        trial = await bench.begin(script, worker)

        async def act(stop: Stop, trial: Trial = trial) -> None:
            if stop.what == "mark" and bench.features.pauses:
                await bench.pause(trial, stop)
            elif stop.what == "paused":
                await calm(bench, worker, before, "clean", trial)
                await bench.resume(trial)
            stop.go()

        await bench.play(trial, act)
        await calm(bench, worker, before, "clean", trial)
    killed = await bench.begin(_SHORT, worker)
    stop = await bench.until(killed, "short")
    await bench.kill(killed)
    await calm(bench, worker, before, "clean", killed)
    stop.go(False)

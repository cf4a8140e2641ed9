"""Plans of `SubstrateContract`: pauses, resumes and extras."""

from __future__ import annotations

from .rules import broken, expect
from .substrate_bench import Bench
from .substrate_script import Hear, Mark, Say, Script, tokens
from .substrate_trial import Stop
from .substrate_world import Worker

MARKS: Script = (
    Say("the-first"),
    Mark("one"),
    Mark("two"),
    Say("the-second"),
    Mark("three"),
    Mark("four"),
)
"""The script that most plans interrupt."""
_HEARS: Script = (Mark("before"), Hear(), Mark("between"), Mark("after"), Hear())
_EXTRAS = ("extra-1", "extra-2", "extra-3")
_AGAIN = ("extra-1", "extra-2", "extra-1")
"""Extras of which two are equal; each counts by itself."""


async def pause_at_every_mark(bench: Bench) -> None:
    """Ask for a pause while each mark waits, and resume the Task each time."""
    trial = await bench.begin(MARKS)

    async def act(stop: Stop) -> None:
        if stop.what == "mark":
            await bench.pause(trial, stop)
        elif stop.what == "paused":
            await bench.resume(trial)
        stop.go()

    await bench.play(trial, act)
    paused = sum(seen.what == "paused" for seen in trial.log)
    expect(
        paused >= len(tokens(MARKS)) // bench.bounds.steps - 1 and paused > 0,
        "safe",
        f"a pause was asked for at each of {len(tokens(MARKS))} marks, and the Task was paused "
        f"{paused} times\n{trial.story()}",
    )
    await bench.compare(trial)


async def pause_at_every_commit(bench: Bench) -> None:
    """Ask for a pause before a commit lands, and resume the Task; each time at another commit."""
    worker = await bench.world.worker()
    calm = await bench.begin(MARKS, worker, stepwise=True)
    await bench.play(calm)
    for number in bench.some(range(1, calm.commits + 1)):
        await _pause_at_commit(bench, worker, str(number))


async def _pause_at_commit(bench: Bench, worker: Worker, number: str) -> None:
    trial = await bench.begin(MARKS, worker, stepwise=True)
    left = {number}

    async def act(stop: Stop) -> None:
        # The request changes the record, so the same commit comes again.
        if stop.what == "commit" and stop.name in left:
            left.clear()
            await bench.pause(trial, stop)
        elif stop.what == "paused":
            await bench.resume(trial)
        stop.go()

    await bench.play(trial, act)
    await bench.compare(trial)


async def there_and_back(bench: Bench) -> None:
    """Pause the Task at each mark, and resume it in the other one of two living workers."""
    workers = [await bench.world.worker(), await bench.world.worker()]
    trial = await bench.begin(MARKS, workers[0])

    async def act(stop: Stop) -> None:
        if stop.what == "mark":
            await bench.pause(trial, stop)
        elif stop.what == "paused":
            workers.reverse()
            await bench.resume_in(workers[0], trial)
        stop.go()

    await bench.play(trial, act)
    await bench.compare(trial)


async def extras(bench: Bench) -> None:
    """Resume with an extra after each pause: all are heard, in order; or none has an effect."""
    heard = bench.features.hears
    script = _HEARS if heard else MARKS
    trial = await bench.begin(script, extras=_AGAIN)
    left = list(_AGAIN)

    async def act(stop: Stop) -> None:
        if stop.what == "mark" and stop.name in tokens(script) and left:
            await bench.pause(trial, stop)
        elif stop.what == "paused":
            await bench.resume(trial, left.pop(0) if left else None)
        stop.go()

    await bench.play(trial, act)
    made = [seen.name for seen in trial.log if seen.what == "made" and seen.name in _AGAIN]
    if heard:
        expect(
            made == trial.extras and len(made) > 0,
            "extras",
            f"the Task was resumed with {trial.extras}, and it took up {made}\n{trial.story()}",
        )
        return
    expect(
        not made,
        "extras",
        f"the feature hears is closed, and the work took up {made}; declare hears=True\n"
        f"{trial.story()}",
    )
    await bench.compare(trial)


async def extras_and_crashes(bench: Bench) -> None:
    """Kill the process while an extra's mark waits: no other extra is lost or heard again."""
    trial = await bench.begin(_HEARS, extras=_EXTRAS)
    left, crashed = list(_EXTRAS), set[str]()

    async def act(stop: Stop) -> None:
        if stop.what == "mark" and stop.name in _EXTRAS and stop.name not in crashed:
            crashed.add(stop.name)
            await bench.crash(trial, stop, made=stop.name == _EXTRAS[1])
            return
        if stop.what == "mark" and stop.name in tokens(_HEARS) and left:
            await bench.pause(trial, stop)
        elif stop.what == "paused":
            await bench.resume(trial, left.pop(0) if left else None)
        stop.go()

    task = await bench.play(trial, act)
    if str(task.status) != "success":
        return  # It reported that it cannot know if an extra's mark was made.
    reported = list(bench.work.indeterminate(task, await bench.events(trial)))
    made = {seen.name for seen in trial.log if seen.what == "made"}
    for token in trial.extras:
        if token not in made and not any(token in text for text in reported):
            raise broken(
                "extras",
                f"the extra {token} was sent, was never taken up, and the record does not call "
                f"its mark indeterminate\n{trial.story()}",
            )

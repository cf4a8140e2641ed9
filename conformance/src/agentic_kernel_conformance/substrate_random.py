"""Plan of `SubstrateContract`: a random script with random interruptions."""

from __future__ import annotations

from .substrate_bench import Bench
from .substrate_script import LONGEST, Hear, Mark, Say, Script, Step
from .substrate_trial import Stop

_MOST = 6
"""The most interruptions of one Task."""


def script_of(bench: Bench) -> Script:
    """Draw a script of up to six steps, of the kinds that the substrate can do."""
    kinds = ["say"]
    if bench.features.marks:
        kinds += ["mark"] * 4
    if bench.features.hears:
        kinds.append("hear")
    steps: list[Step] = []
    for number in range(bench.random.randint(1, LONGEST)):
        kind = bench.random.choice(kinds)
        if kind == "mark":
            steps.append(Mark(f"mark-{number}"))
        elif kind == "say":
            steps.append(Say(f"text-{number}"))
        else:
            steps.append(Hear())
    return tuple(steps)


async def random_history(bench: Bench) -> None:
    """Interrupt a random script at random places, in every way there is."""
    script = script_of(bench)
    extras = [f"extra-{number}" for number in range(_MOST)]
    trial = await bench.begin(script, extras=extras, stepwise=True)
    ways = ["crash", "crash", "drain"]
    if bench.features.pauses:
        ways += ["pause", "pause"]
    left, unheard = _MOST, list(extras)

    async def act(stop: Stop) -> None:
        nonlocal left
        if stop.what == "paused":
            with_extra = bench.features.hears and bench.random.random() < 0.7 and bool(unheard)
            await bench.resume(trial, unheard.pop(0) if with_extra else None)
        elif stop.worker is not None and left and bench.random.random() < 0.35:
            left -= 1
            way = bench.random.choice(ways)
            if way == "crash":
                made = stop.what == "mark" and bench.random.random() < 0.5
                await bench.crash(trial, stop, made=made)
                return
            if way == "pause":
                await bench.pause(trial, stop)
            else:
                await bench.drain(trial, stop)
        stop.go()

    await bench.play(trial, act)
    if not trial.extras:
        await bench.compare(trial)

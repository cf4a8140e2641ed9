"""Five hundred SIGKILLs at random moments: no healthy substrate is taken for a faulty one."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_kernel_conformance import Bounds, SubstrateFactory, SubstrateFeatures, SubstrateWork
from agentic_kernel_conformance.level import LEVELS
from agentic_kernel_conformance.substrate_bench import Bench, Subject, bench
from agentic_kernel_conformance.substrate_honest import HonestWork
from agentic_kernel_conformance.substrate_random import random_history

from .shell_substrate import ShellSubstrate, ShellWork

pytestmark = pytest.mark.torture

KILLS = 500
PATIENCE = 60.0
FEATURES = SubstrateFeatures(
    marks=True, pauses=True, keeps_output=True, hears=True, fails=True, refuses=True
)
HEALTHY: dict[str, tuple[str, SubstrateWork]] = {
    "honest": ("agentic_kernel_conformance.substrate_honest:make", HonestWork()),
    "shell": (f"{ShellSubstrate.__module__}:{ShellSubstrate.__name__}", ShellWork()),
}


@pytest.mark.parametrize("name", HEALTHY)
async def test_half_of_five_hundred_kills_flag_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the two takes half: random scripts, until so many of their processes were killed."""
    place, work = HEALTHY[name]
    subject = Subject(SubstrateFactory(place), work, FEATURES, Bounds())
    killed = 0
    crash = Bench.crash

    async def counted(self: Bench, *arguments: Any, **others: Any) -> Any:
        nonlocal killed
        killed += 1
        return await crash(self, *arguments, **others)

    monkeypatch.setattr(Bench, "crash", counted)
    for seed in range(20 * KILLS):
        async with bench(subject, LEVELS["quick"], PATIENCE, seed) as made:
            await random_history(made)
        if killed >= KILLS // len(HEALTHY):
            return
    pytest.fail(f"{killed} kills in {20 * KILLS} histories")

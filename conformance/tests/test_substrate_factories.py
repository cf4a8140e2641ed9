"""A factory that makes no substrate is reported as soon as it ends, with its own words."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentic_kernel_conformance import Bounds, SubstrateFactory
from agentic_kernel_conformance.rules import RuleError
from agentic_kernel_conformance.substrate_forks import kill
from agentic_kernel_conformance.substrate_world import World

from . import broken_factories

PATIENCE = 60.0
"""Seconds; a kit that waits for all of them says that the worker was not ready in time."""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "raises",
            r"the factory failed in a worker process:[\s\S]*LookupError: no mesh at 127.0.0.1",
        ),
        ("leaves", r"the factory failed in a worker process:[\s\S]*SystemExit: no license"),
        ("ends_the_process", "a worker process ended before it was ready"),
    ],
)
async def test_a_factory_that_makes_nothing_is_reported_at_once(
    name: str, said: str, tmp_path: Path
) -> None:
    factory = SubstrateFactory(f"{broken_factories.__name__}:{name}")
    async with World(factory, Bounds(), PATIENCE, tmp_path) as world:
        with pytest.raises(RuleError, match=said) as found:
            await world.worker()
    assert found.value.rule.name == "kit"


async def test_a_worker_that_was_never_started_is_not_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no process id yet, and signal 9 to process 0 ends everything that runs this test."""
    factory = SubstrateFactory(f"{broken_factories.__name__}:raises")
    asked: list[int] = []
    async with World(factory, Bounds(), PATIENCE, tmp_path) as world:
        monkeypatch.setattr(world.forks, "start", lambda *_: [][0])
        monkeypatch.setattr(world.forks, "kill", asked.append)
        with pytest.raises(IndexError):
            await world.worker()
    assert asked == []


@pytest.mark.parametrize("process", [0, -1])
def test_no_group_of_processes_is_killed(process: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.kill", lambda *_: pytest.fail("a group was killed"))
    with pytest.raises(ValueError, match=f"must be over 0, not {process}"):
        kill(process)

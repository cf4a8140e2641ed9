"""Histories of races: the faulty are caught, every time, and the healthy are not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentic_kernel_conformance.contest import Contest
from agentic_kernel_conformance.judgement import judged
from agentic_kernel_conformance.races import RACES, Script
from agentic_kernel_conformance.rules import RuleError
from agentic_kernel_conformance.runtime_histories import RuntimeContest
from agentic_kernel_conformance.store_histories import SIZE
from agentic_kernel_conformance.timeline import expect_linearizable
from agentic_kernel_conformance.workbench import Workbench
from agentic_kernel_engine import Host, MemoryStore

from . import faulty_hosts as faulty
from . import faulty_runtimes, faulty_stores
from .dict_runtime import DictRuntime
from .dict_work import DictWork

FAULTS: dict[str, tuple[type[MemoryStore], type[Host], set[str]]] = {
    "SwallowedConflict": (faulty.SwallowedConflict, Host, {"C2"}),
    "TakenForMine": (faulty.TakenForMine, Host, {"C2", "R5"}),
    "LaggingReplica": (faulty.LaggingReplica, Host, {"C2", "C7", "R5", "R15"}),
    "LostExtra": (faulty.LostExtra, Host, {"C2", "C3", "C7"}),
    "LateResult": (faulty.LateResult, Host, {"C2", "R1"}),
    "RequestLostAtTakeOver": (faulty.RequestLostAtTakeOver, Host, {"C2"}),
    "ClaimFromTheLiving": (faulty.ClaimFromTheLiving, Host, {"R14"}),
    "EventsTwice": (faulty.EventsTwice, Host, {"C2", "R5"}),
    "ResurrectedTerminal": (faulty.ResurrectedTerminal, Host, {"C2", "R1"}),
    "NoLock": (faulty_stores.NoLock, Host, {"C2", "R5"}),
    "TornWrite": (faulty_stores.TornWrite, Host, {"C2", "C3", "C7", "R1"}),
    "BothToldYes": (MemoryStore, faulty.BothToldYes, {"C2"}),
    "DeafToWithdrawal": (MemoryStore, faulty.DeafToWithdrawal, {"C2"}),
    "GuessedReceipt": (MemoryStore, faulty.GuessedReceipt, {"C2"}),
}
"""Each with the rules of which at least one must be reported."""


async def first_broken(
    store: type[MemoryStore], host: type[Host], first_seed: int, many: int
) -> tuple[str, int, str]:
    """The rule that the first history that does not hold breaks, how many it took, and the text."""
    for tried in range(many):
        contest = Contest(store(), Script(first_seed + tried, SIZE), host=host)
        try:
            await judged(contest, f"trial {tried + 1}")
        except RuleError as error:
            return error.rule.name, tried + 1, error.seen
    return "", many, ""


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", [0, 10_000])
@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_that_shows_in_races_is_caught_every_time(name: str, first_seed: int) -> None:
    store, host, rules = FAULTS[name]
    rule, tried, text = await first_broken(store, host, first_seed, 6_000)
    assert rule in rules, f"{rule or 'nothing'} after {tried} histories: {text}"


RUNTIMES = {
    "NoLock": {"C2", "C7"},
    "StaleCache": {"C2", "C7"},
    "Resurrected": {"C2", "C7"},
    "TornResume": {"C2", "C7"},
    "EmptyExtraDropped": {""},
    "FalsyResultReplaced": {""},
}
"""Faulty runtimes that show in races, and two that do not: nothing is made up about them."""


@pytest.mark.parametrize("first_seed", [0, 10_000])
@pytest.mark.parametrize("name", RUNTIMES)
async def test_a_fault_of_a_runtime_is_caught_by_what_its_callers_saw(
    name: str, first_seed: int
) -> None:
    work = DictWork()
    runtime: DictRuntime = getattr(faulty_runtimes, name)(work.perform)
    bench = Workbench(runtime, work, 20.0)
    rule = ""
    for seed in range(first_seed, first_seed + 60):
        contest = RuntimeContest(bench, Script(seed, SIZE))
        try:
            await contest.run()
            expect_linearizable(contest.recorder.operations)
        except RuleError as error:
            rule = error.rule.name
            break
    await runtime.close()
    assert rule in RUNTIMES[name]


async def test_the_healthy_are_not_flagged() -> None:
    """The quick level of the contract begins with seed 0; these are others."""
    assert await first_broken(MemoryStore, Host, 1_000_000, 150) == ("", 150, "")


@pytest.mark.slow
@pytest.mark.parametrize("turns", [250, pytest.param(1_000, marks=pytest.mark.torture)])
@pytest.mark.parametrize("race", ["births", "silence"])
async def test_writes_that_are_lost_on_their_way_are_not_taken_for_those_of_others(
    race: str, turns: int
) -> None:
    first = [each.name for each in RACES].index(race)
    for turn in range(turns):
        script = Script(first + turn * len(RACES), SIZE)
        script.race = replace(script.race, unsent=0.08)
        await judged(Contest(MemoryStore(), script), "")

"""The mistakes of strangers are reported by the rules that they break."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ..matrices import matrix, reported
from .adapters import ADAPTERS, SETS, TEN

# The kit waits for acts that a faulty implementation never does; one interpreter is enough.
pytestmark = pytest.mark.slow

_FILE = Path(__file__).with_name("adapters.py")
IN_GATE = frozenset(
    name
    for each in SETS.values()
    for name in random.Random(7).sample(sorted(each), max(1, len(each) // 10))
)
"""Those that the gate runs; the others are torture."""
_TRIED = [
    name if name in IN_GATE else pytest.param(name, marks=pytest.mark.torture) for name in ADAPTERS
]
_RUNS = 10
_APART = 10_000
"""From one run's first seed to the next one's."""


@pytest.fixture(scope="module")
def matrices(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bool], dict[str, Any]]:
    """The kit's report about those in the gate, or about the others."""

    @cache
    def found(in_gate: bool) -> dict[str, Any]:
        names = [name for name in ADAPTERS if (name in IN_GATE) is in_gate]
        return matrix(_FILE, names, tmp_path_factory.mktemp("strangers") / "report")

    return found


@pytest.mark.parametrize("adapter", _TRIED)
def test_a_mistake_is_reported_by_the_rule_that_it_breaks(
    matrices: Callable[[bool], dict[str, Any]], adapter: str
) -> None:
    row = matrices(adapter in IN_GATE)[adapter]
    assert row["rules"][ADAPTERS[adapter].breaks] == "failed", row
    assert reported(row) & ADAPTERS[adapter].reported, row


@pytest.mark.torture
@pytest.mark.parametrize("name", SETS)
def test_each_mistake_of_a_set_is_reported_in_each_of_ten_runs(name: str, tmp_path: Path) -> None:
    for run in range(_RUNS):
        rows = matrix(_FILE, SETS[name], tmp_path / f"report-{run}", seed=run * _APART)
        missed = [
            adapter
            for adapter, row in rows.items()
            if not reported(row) & SETS[name][adapter].reported
        ]
        assert not missed, f"run {run}"
        assert set(rows) == set(SETS[name])


@pytest.mark.parametrize("name", SETS)
def test_nine_of_the_ten_mistakes_of_a_set_are_reported(name: str) -> None:
    assert TEN - 1 <= len(SETS[name]) <= TEN


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_each_has_a_story(adapter: str) -> None:
    assert ADAPTERS[adapter].faulty.__doc__

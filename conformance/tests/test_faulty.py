"""Every faulty implementation is caught by the rule that it breaks."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from .faulty_adapters import ADAPTERS
from .matrices import matrix, reported
from .strangers.adapters import ADAPTERS as STRANGERS
from .strangers.test_strangers import IN_GATE as STRANGERS_IN_GATE

# They wait out what the faulty never do, so one interpreter is enough.
pytestmark = pytest.mark.slow

_FILE = Path(__file__).with_name("faulty_adapters.py")
_LONG = {"TestPlannerCallsFromMemory", "TestStoreTornWrite"}
"""Those that take a minute each, because the kit waits out what they never do."""
_SLOW = {
    name for name in ADAPTERS if name.startswith(("TestStore", "TestSubstrate", "TestRuntime"))
}
"""Those that take seconds each."""
_PARTS = ((ADAPTERS.keys() - _SLOW - _LONG, len(ADAPTERS) // 5), (_SLOW - _LONG, 8))
_IN_GATE = frozenset(
    name for names, count in _PARTS for name in random.Random(18).sample(sorted(names), count)
)
"""Those that the gate runs, a fifth of all with the strangers' ones; the others are torture."""
_TRIED = [
    name if name in _IN_GATE else pytest.param(name, marks=pytest.mark.torture) for name in ADAPTERS
]


@pytest.fixture(scope="module")
def matrices(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bool], dict[str, Any]]:
    """The kit's own report about the faults in the gate, or about the others."""

    @cache
    def found(in_gate: bool) -> dict[str, Any]:
        names = sorted(name for name in ADAPTERS if (name in _IN_GATE) is in_gate)
        return matrix(_FILE, names, tmp_path_factory.mktemp("faulty") / "report")

    return found


@pytest.mark.parametrize("adapter", _TRIED)
def test_a_faulty_implementation_breaks_the_rule_that_it_is_named_for(
    matrices: Callable[[bool], dict[str, Any]], adapter: str
) -> None:
    rule = ADAPTERS[adapter].breaks
    row = matrices(adapter in _IN_GATE)[adapter]
    assert row["rules"][rule] == "failed", row
    assert reported(row) & ADAPTERS[adapter].reported, row


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_each_has_a_story(adapter: str) -> None:
    assert ADAPTERS[adapter].faulty.__doc__


def test_the_gate_runs_a_fifth() -> None:
    assert 5 * (len(_IN_GATE) + len(STRANGERS_IN_GATE)) >= len(ADAPTERS) + len(STRANGERS)

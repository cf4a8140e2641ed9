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

# They wait out what the faulty never do, so one interpreter is enough.
pytestmark = pytest.mark.slow

_FILE = Path(__file__).with_name("faulty_adapters.py")
_LONG = {"TestPlannerCallsFromMemory", "TestStoreTornWrite"}
"""Those that take a minute each, because the kit waits out what they never do."""
_TENTH = frozenset(random.Random(18).sample(sorted(ADAPTERS.keys() - _LONG), len(ADAPTERS) // 10))
"""Those that the gate runs; the others are torture."""
_TRIED = [
    name if name in _TENTH else pytest.param(name, marks=pytest.mark.torture) for name in ADAPTERS
]


@pytest.fixture(scope="module")
def matrices(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bool], dict[str, Any]]:
    """What the kit's own report says about the tenth, or about the others."""

    @cache
    def found(tenth: bool) -> dict[str, Any]:
        names = sorted(name for name in ADAPTERS if (name in _TENTH) is tenth)
        return matrix(_FILE, names, tmp_path_factory.mktemp("faulty") / "report")

    return found


@pytest.mark.parametrize("adapter", _TRIED)
def test_a_faulty_implementation_breaks_the_rule_that_it_is_named_for(
    matrices: Callable[[bool], dict[str, Any]], adapter: str
) -> None:
    rule = ADAPTERS[adapter].breaks
    row = matrices(adapter in _TENTH)[adapter]
    assert row["rules"][rule] == "failed", row
    assert reported(row) & ADAPTERS[adapter].reported, row


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_each_has_a_story(adapter: str) -> None:
    assert ADAPTERS[adapter].faulty.__doc__

"""Every faulty implementation is caught by the rule that it breaks."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from .faulty_adapters import ADAPTERS

# They wait out what the faulty never do, so one interpreter is enough.
pytestmark = pytest.mark.slow

_FILE = Path(__file__).with_name("faulty_adapters.py")
_FIFTH = frozenset(random.Random(18).sample(sorted(ADAPTERS), len(ADAPTERS) // 5))
"""Those that the gate runs; the others are torture."""
_TRIED = [
    name if name in _FIFTH else pytest.param(name, marks=pytest.mark.torture) for name in ADAPTERS
]


@pytest.fixture(scope="module")
def matrices(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bool], dict[str, Any]]:
    """What the kit's own report says about the fifth, or about the others."""

    @cache
    def matrix(fifth: bool) -> dict[str, Any]:
        names = sorted(name for name in ADAPTERS if (name in _FIFTH) is fifth)
        return _matrix(names, tmp_path_factory.mktemp("faulty") / "report")

    return matrix


def _matrix(names: list[str], report: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider"]
    options = ["--once-is-enough", f"--conformance-report={report}"]
    done = subprocess.run(
        [*command, *options, *(f"{_FILE}::{name}" for name in names)],
        capture_output=True,
        text=True,
        timeout=1_500,
        check=False,
    )
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout[-4000:] + done.stderr
    rows = json.loads(report.with_suffix(".json").read_text(encoding="utf-8"))["adapters"]
    return {f"Test{row['adapter']}": row for row in rows}


@pytest.mark.parametrize("adapter", _TRIED)
def test_a_faulty_implementation_breaks_the_rule_that_it_is_named_for(
    matrices: Callable[[bool], dict[str, Any]], adapter: str
) -> None:
    rule = ADAPTERS[adapter].breaks
    row = matrices(adapter in _FIFTH)[adapter]
    assert row["rules"][rule] == "failed", row
    reasons = [test["detail"] for test in row["tests"] if test["outcome"] == "failed"]
    reported = {reason.partition(":")[0] for reason in reasons}
    assert reported & ADAPTERS[adapter].reported, reasons


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_each_has_a_story(adapter: str) -> None:
    assert ADAPTERS[adapter].faulty.__doc__

"""Every faulty implementation is caught by the rule that it breaks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .faulty_adapters import ADAPTERS

# They wait out what the faulty never do, so one interpreter is enough.
pytestmark = pytest.mark.slow

_FILE = Path(__file__).with_name("faulty_adapters.py")


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the kit's own report says about all of them."""
    report = tmp_path_factory.mktemp("faulty") / "report"
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--once-is-enough", f"--conformance-report={report}", str(_FILE)],
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout[-4000:] + done.stderr
    rows = json.loads(report.with_suffix(".json").read_text(encoding="utf-8"))["adapters"]
    return {f"Test{row['adapter']}": row for row in rows}


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_a_faulty_implementation_breaks_the_rule_that_it_is_named_for(
    matrix: dict[str, Any], adapter: str
) -> None:
    rule = ADAPTERS[adapter].breaks
    row = matrix[adapter]
    assert row["rules"][rule] == "failed", row
    reasons = [test["detail"] for test in row["tests"] if test["outcome"] == "failed"]
    reported = {reason.partition(":")[0] for reason in reasons}
    assert reported & ADAPTERS[adapter].reported, reasons


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_each_has_a_story(adapter: str) -> None:
    assert ADAPTERS[adapter].faulty.__doc__

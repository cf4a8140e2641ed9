"""The kit's own report about faulty adapters, which run in a process of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest


def matrix(file: Path, names: Iterable[str], report: Path, seed: int = 0) -> dict[str, Any]:
    """Run the adapters of these names; return the row of each, by its name.

    Each adapter is run by the tests of its rule only, until one of them reports it.

    Args:
        file: The file that has the adapters.
        names: The names of the classes in it.
        report: Where the kit writes the report.
        seed: The seed of what is random.
    """
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider"]
    options = ["--once-is-enough", f"--conformance-report={report}", f"--conformance-seed={seed}"]
    done = subprocess.run(
        [*command, *options, *(f"{file}::{name}" for name in sorted(names))],
        capture_output=True,
        text=True,
        timeout=1_500,
        check=False,
    )
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout[-4000:] + done.stderr
    rows = json.loads(report.with_suffix(".json").read_text(encoding="utf-8"))["adapters"]
    return {f"Test{row['adapter']}": row for row in rows}


def reported(row: dict[str, Any]) -> set[str]:
    """Return the rules that the tests of an adapter reported as broken."""
    failed = [test["detail"] for test in row["tests"] if test["outcome"] == "failed"]
    return {detail.partition(":")[0] for detail in failed}

"""The package's names."""

from __future__ import annotations

import subprocess
import sys

import agentic_kernel_guard as guard


def test_every_public_name_is_there_and_stands_in_order() -> None:
    assert sorted(guard.__all__, key=lambda name: (name.islower(), name)) == guard.__all__
    assert all(getattr(guard, name) is not None for name in guard.__all__)


def test_the_rules_load_nothing_else_of_the_guard_nor_the_engine() -> None:
    said = subprocess.run(
        [sys.executable, "-c", "import sys, agentic_kernel_guard.rules; print(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    ours = {name for name in said if name.startswith(("agentic_kernel_engine", "agentic_kernel_g"))}
    assert "agentic_kernel_guard.rules.ruleset" in ours
    assert all(name.startswith("agentic_kernel_guard") for name in ours)
    assert {name for name in ours if name.count(".") == 1} == {"agentic_kernel_guard.rules"}

"""AgentDojo's injections: how many are stopped, and how many of the user's tasks are completed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peers.catalog import Contestant
from peers.environment import Absent, interpreter, told

ROOT = Path(__file__).parents[1]
AGENTDOJO = Contestant("AgentDojo", "agentdojo", "", requires=("agentdojo==0.1.35",))
OURS = ("kernel", "engine", "guard")
PATIENCE = 3_600
"""Seconds after which the runs are given up."""


@dataclass(frozen=True, slots=True)
class Suite:
    """What was found of one suite of AgentDojo."""

    found: dict[str, Any]

    def record(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {"agentdojo": AGENTDOJO.version, **self.found}


def measure() -> list[Suite]:
    """Each suite, in an environment that has AgentDojo and our packages.

    Raises:
        Absent: The environment cannot be made, or the runs failed.
    """
    python = interpreter(AGENTDOJO)
    parts = [part for name in OURS for part in ("-e", str(ROOT / "packages" / name))]
    told(python, "-m", "pip", "install", "--quiet", *parts)
    run = subprocess.run(
        [python, "-m", "integration.injections"], cwd=ROOT, text=True, stdout=subprocess.PIPE,
        timeout=PATIENCE, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    if run.returncode:
        raise Absent(f"python -m integration.injections ended with {run.returncode}")
    return [Suite(found) for found in json.loads(run.stdout)]


def table(suites: Sequence[dict[str, Any]]) -> str:
    """The shares by suite and setting, and what was not stopped."""
    from integration.injections.table import left, shares

    return f"{shares(suites)}\n\n{left(suites)}"


sys.path.append(str(ROOT))

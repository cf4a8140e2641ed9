"""Forks: the kit's handle on the process that starts the workers of one factory."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from dataclasses import asdict
from functools import cache
from typing import Any

from .rules import broken
from .substrate_worker import Orders


class Forks:
    """Starts and ends worker processes; its calls block for a few milliseconds.

    Args:
        path: The path of the factory.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._process = subprocess.Popen(
            [sys.executable, "-m", "agentic_kernel_conformance.substrate_forks", path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        atexit.register(self.close)
        threads = self._answer()["threads"]
        if threads:
            raise broken(
                "kit",
                f"the import of {path} started the threads {', '.join(threads)}; the kit forks its "
                "workers, so start threads in the factory and not in the import",
            )

    def start(self, orders: Orders, environment: dict[str, str], output: str) -> int:
        """Start a worker, and return its process id."""
        told = {"orders": asdict(orders), "environment": environment, "output": output}
        pid: int = self._ask({"start": told})["pid"]
        return pid

    def kill(self, pid: int) -> None:
        """End a worker as ``kill -9`` does; return when it is gone."""
        self._ask({"kill": pid})

    def close(self) -> None:
        """End all workers, and the process itself."""
        self._process.communicate()
        atexit.unregister(self.close)

    def _ask(self, told: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps(told)}\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        line = self._process.stdout.readline()
        if not line:
            trouble = self._process.stderr.read()[-2_000:]
            raise broken(
                "kit", f"the process that imports {self._path} ended without a word:\n{trouble}"
            )
        found: dict[str, Any] = json.loads(line)
        return found


@cache
def forks(path: str) -> Forks:
    """Return the `Forks` of a factory; there is one in this process."""
    return Forks(path)

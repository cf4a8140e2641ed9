"""The command ``serve`` as a process, for tests and sessions."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

PATIENCE = 60.0
"""Seconds after which something that should have happened counts as stuck."""


class Serving:
    """One run of the command ``serve``."""

    def __init__(self, folder: Path, *words: str, state: str = "") -> None:
        self.log = folder / "serve.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable, "-m", "agentic_kernel_cli",
                    "--state", state or str(folder / "state"),
                    "serve", "--listen", "127.0.0.1:0", *words,
                ],
                cwd=folder, stderr=log,
            )  # fmt: skip
        listens = self.said("listening on")
        self.url = str(listens["message"].split()[-1])

    def said(self, text: str, times: int = 1) -> dict[str, Any]:
        """Wait until the log has a record with this text; the last of them."""

        def found() -> list[dict[str, Any]]:
            lines = self.log.read_text().splitlines()
            return [json.loads(line) for line in lines if text in line]

        until(lambda: len(found()) >= times, lambda: self.log.read_text())
        return found()[-1]

    def get(self, path: str) -> httpx.Response:
        """One request on a connection of its own, so that it may reach any process."""
        return httpx.get(self.url + path, timeout=30.0)

    def stop(self) -> int:
        """Stop it, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


def until(holds: Callable[[], bool], said: Callable[[], str] = str) -> None:
    """Wait until something holds."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, said()
        time.sleep(0.02)

"""Writes each event as a line of JSON."""

import json
from pathlib import Path

from agentic_kernel_engine import Event


class Lines:
    """An observer that appends to a file."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")

    def observe(self, task_id: str, event: Event) -> None:
        self._file.write(json.dumps({"task": task_id, "type": event.type}) + "\n")

    def close(self) -> None:
        self._file.close()

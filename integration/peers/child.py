"""Child: a server in a process of its own that ends with whoever started it."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from .node import PeerError

START_SECONDS: Final = 60.0
"""How long a server may take to say that it is ready."""
END_SECONDS: Final = 5.0
"""How long it may take to end before it is killed."""
KEPT_LINES: Final = 200
"""Lines of what it printed that are kept for a message."""


class Child:
    """A process that prints where it listens, and ends when its standard input does.

    So it ends with the process that started it, also when that one is killed.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        ready: re.Pattern[str],
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Start it and wait until a line that it prints matches.

        Args:
            name: What messages call it.
            command: Its program and arguments.
            ready: Its first match in a printed line is kept as `ready`.
            env: Added to this process's environment.

        Raises:
            PeerError: It ended before, or was not ready in time; says what it printed.
        """
        self._name = name
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._ready = ready
        self._settled = threading.Event()
        self._match: re.Match[str] | None = None
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
        )
        self._reader = threading.Thread(target=self._read, name=f"{name}-output", daemon=True)
        self._reader.start()
        self._settled.wait(START_SECONDS)
        if self._match is None:
            self.close()
            raise PeerError(f"{name} did not start; it printed:\n{self.printed()}")
        self.ready: re.Match[str] = self._match
        """The match; its groups say where it listens."""

    @property
    def pid(self) -> int:
        return self._process.pid

    def printed(self) -> str:
        """The last lines that it printed."""
        return "\n".join(self._lines)

    def close(self) -> None:
        """End it, and kill it if it does not; idempotent.

        Raises:
            PeerError: It had ended by itself; says how, and what it printed.
        """
        assert self._process.stdin is not None
        served = self._match is not None and not self._process.stdin.closed
        died = self._process.poll() if served else None
        self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        if died is not None:
            raise PeerError(f"{self._name} had ended, with {died}; it printed:\n{self.printed()}")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            text = line.decode(errors="replace").rstrip()
            self._lines.append(text)
            if self._match is None and (match := self._ready.search(text)):
                self._match = match
                self._settled.set()
        self._settled.set()

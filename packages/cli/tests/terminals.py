"""Terminals for the tests: real processes on a state folder or database of the test's own."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from typer.testing import CliRunner

from agentic_kernel_cli.commands import app

STORY = "List one hundred reasons to visit Paris, numbered."
ANOTHER = "List one hundred reasons to visit Rome, numbered."
"""The small model goes on with these until it is stopped, or its tokens are."""
SOME = 40
"""Characters of an answer after which a test interrupts it."""
PATIENCE = 120.0
"""Seconds after which a process that should have got somewhere counts as stuck."""


def wait_until(true: Callable[[], object]) -> None:
    """Wait until a program has done a thing that its output does not tell."""
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, f"not true after {PATIENCE:g} s"
        time.sleep(0.02)


class Command:
    """One running command, its output read as it comes."""

    def __init__(
        self, words: Sequence[str], env: Mapping[str, str], stdin: str, cwd: Path | None = None
    ) -> None:
        self._text = {"stdout": "", "stderr": ""}
        self._open = {"stdout": True, "stderr": True}
        self._news = threading.Condition()
        self.process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env=env,
            cwd=cwd,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        with self.process.stdin as typed:
            typed.write(stdin)
        streams = {"stdout": self.process.stdout, "stderr": self.process.stderr}
        self._readers = [threading.Thread(target=self._read, args=item) for item in streams.items()]
        for reader in self._readers:
            reader.start()

    @property
    def out(self) -> str:
        """The text on stdout so far."""
        return self._text["stdout"]

    @property
    def err(self) -> str:
        """The text on stderr so far."""
        return self._text["stderr"]

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Stdout as one JSON object per line."""
        return [json.loads(line) for line in self.out.splitlines()]

    def until(self, *, out: int = 0, err: str = "") -> None:
        """Wait until stdout has that many characters, and stderr that text."""
        with self._news:
            there = self._news.wait_for(lambda: len(self.out) >= out and err in self.err, PATIENCE)
        assert there, f"stdout {self.out!r}, stderr {self.err!r}"

    def came_to(self, out: int) -> bool:
        """Wait until stdout has that many characters; False if the command ended well before."""

        def over() -> bool:
            return len(self.out) >= out or self.process.poll() is not None

        deadline = time.monotonic() + PATIENCE
        while not over() and time.monotonic() < deadline:
            with self._news:
                self._news.wait_for(over, 0.1)
        if len(self.out) < out:
            self.ended(0)
        return len(self.out) >= out

    def ended(self, code: int) -> Command:
        """This command at its end, which must have that exit code."""
        ended = self.end()
        assert ended == code, f"exit {ended}; stdout {self.out[-2000:]!r}, stderr {self.err!r}"
        return self

    def end(self) -> int:
        """The exit code, once the process is gone and all of its output is read."""
        code = self.process.wait(PATIENCE)
        for reader in self._readers:
            reader.join(PATIENCE)
        return code

    def stop_reading(self) -> None:
        """Close stdout for whoever writes to it, as ``head`` does."""
        self._open["stdout"] = False

    def _read(self, name: str, stream: IO[str]) -> None:
        with stream:
            while self._open[name] and (piece := stream.read(1)):
                with self._news:
                    self._text[name] += piece
                    self._news.notify_all()


@dataclass
class Terminals:
    """Any number of terminals on one place.

    Attributes:
        state: The folder, unless a URL is named.
        cwd: The current folder of the commands.
        chosen: False if the commands are not told where the Tasks are.
    """

    state: Path
    url: str = ""
    env: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    started: list[Command] = field(default_factory=list)
    cwd: Path | None = None
    chosen: bool = True

    def start(self, *words: str, stdin: str = "") -> Command:
        """``agentic-kernel WORDS`` in a terminal of its own."""
        where = ("--state", self.url or str(self.state)) if self.chosen else ()
        return self.program("-m", "agentic_kernel_cli", *where, *words, stdin=stdin)

    def program(self, *words: str, stdin: str = "") -> Command:
        """``python WORDS`` in a terminal of its own."""
        self.started.append(Command([sys.executable, *words], self.env, stdin, self.cwd))
        return self.started[-1]

    def call(self, *words: str, code: int = 0) -> Command:
        """``agentic-kernel WORDS`` to its end, which must have this exit code."""
        return self.start(*words).ended(code)

    def task(self, task_id: str) -> dict[str, Any]:
        """A Task as another process, this one, sees it."""
        words = ["--state", self.url or str(self.state), "--json", "show", task_id]
        seen = CliRunner().invoke(app, words, catch_exceptions=False)
        assert seen.exit_code == 0, seen.output
        task: dict[str, Any] = json.loads(seen.stdout)
        return task

    def on_screen(self, *words: str) -> str:
        """The screen of ``agentic-kernel WORDS`` on a real terminal, escapes included."""
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "agentic_kernel_cli", "--state", str(self.state), *words]
        env = {**self.env, "TERM": "xterm-256color", "COLUMNS": "120"}
        env.pop("NO_COLOR", None)
        with os.fdopen(ours, "rb", buffering=0) as screen:
            with os.fdopen(theirs, "wb", buffering=0) as end:
                process = subprocess.Popen(command, stdin=end, stdout=end, stderr=end, env=env)
            shown = b""
            # A terminal whose last user left reads as an error and not as an end.
            with suppress(OSError):
                while piece := screen.read(4096):
                    shown += piece
        assert process.wait(PATIENCE) == 0, shown
        return shown.decode()

"""Two terminals and one Task: the transcript of a pause, a crash, a recovery and a kill.

Real processes, the real model, a real folder. After every step the text that the folder kept is
read from the second terminal and must begin with all that it held before, so the script fails
when anything was lost.

    python -m integration.two_terminals [STATE]
"""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .programs import parser

TEXT = "List one hundred reasons to visit Paris, numbered."
EXTRA = "List one hundred reasons to visit Rome, numbered."
MORE = 200
"""Characters of an answer after which the next step interrupts it."""
ANEW = 200
"""Characters after the last commit of a killed process: they are kept, and may be said anew."""
PATIENCE = 120.0
"""Seconds after which a process that should have got somewhere counts as stuck."""


class Command:
    """One ``agentic-kernel`` in a terminal, its answer read as it comes."""

    def __init__(self, terminal: int, state: Path, *words: str) -> None:
        self.terminal = terminal
        self.said = ""
        self._told = ""
        self._news = threading.Condition()
        self.show(f"$ agentic-kernel {shlex.join(words)}", gap=True)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "agentic_kernel_cli", "--state", str(state), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        self._readers = [threading.Thread(target=read) for read in (self._listen, self._note)]
        for reader in self._readers:
            reader.start()

    def show(self, text: str, *, gap: bool = False) -> None:
        """Print a line of this command's terminal."""
        print("\n" * gap + f"[{self.terminal}] {text}", flush=True)

    def until(self, characters: int) -> None:
        """Wait until the answer is that long."""
        with self._news:
            if not self._news.wait_for(lambda: len(self.said) >= characters, PATIENCE):
                raise AssertionError(f"only {len(self.said)} of {characters} characters came")

    def kill(self) -> None:
        """End the process as a power cut would."""
        print(f"\n[2] $ kill -9 {self.process.pid}", flush=True)
        self.process.send_signal(signal.SIGKILL)

    def end(self, code: int) -> None:
        """Wait for the process, which must have this exit code, and print what it showed."""
        there = self.process.wait(PATIENCE)
        for reader in self._readers:
            reader.join(PATIENCE)
        for line in self._told.splitlines():
            self.show(line)
        if self.said:
            text = self.said if len(self.said) < 240 else f"{self.said[:80]} […] {self.said[-120:]}"
            for line in textwrap.wrap(text, 88):
                self.show(f"    {line}")
        self.show(f"exit code {there}")
        if there != code:
            raise AssertionError(f"the exit code is {there} and not {code}")

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stream:
            while piece := stream.read(1):
                with self._news:
                    self.said += piece
                    self._news.notify_all()

    def _note(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stream:
            self._told = stream.read()


class Scene:
    """The Task ``story`` on one folder, and what was known of it so far."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._started: list[Command] = []
        self.kept = ""

    def start(self, terminal: int, *words: str) -> Command:
        """Give a command in one of the terminals."""
        self._started.append(Command(terminal, self._state, *words))
        return self._started[-1]

    def look(self, status: str, *, orphaned: bool = False) -> dict[str, Any]:
        """See from the second terminal what was kept: all of before, and more."""
        command = ["--state", str(self._state), "--json", "show", "story"]
        done = subprocess.run(
            [sys.executable, "-m", "agentic_kernel_cli", *command],
            check=True,
            capture_output=True,
            encoding="utf-8",
        )
        task: dict[str, Any] = json.loads(done.stdout)
        said: str = task["said"]
        print(f"\n[2] $ agentic-kernel show story\n[2] status {task['status']}", end="")
        print(", nobody runs it" if task["orphaned"] else "", end="")
        print(f"; {len(said)} characters kept, {len(said) - len(self.kept)} more than before")
        assert (task["status"], task["orphaned"]) == (status, orphaned), task
        sure = self.kept[:-ANEW]
        assert said.startswith(sure), f"{self.kept!r} was kept before, and now {said!r}"
        assert len(said) > len(self.kept), "nothing new was kept"
        self.kept = said
        return task

    def close(self) -> None:
        """Leave no process behind."""
        for command in self._started:
            if command.process.poll() is None:
                command.process.kill()
                command.process.wait()


def play(scene: Scene) -> None:
    """Run; pause, show, resume with an extra; kill -9 and recover; kill for good."""
    running = scene.start(1, "run", TEXT, "--id", "story", "--max-tokens", "3000")
    running.until(MORE)
    scene.start(2, "pause", "story").end(0)
    running.end(3)
    scene.look("paused")

    resumed = scene.start(1, "resume", "story", "--extra", EXTRA)
    resumed.until(len(scene.kept) + MORE)
    resumed.kill()
    resumed.end(-signal.SIGKILL)
    scene.look("running", orphaned=True)

    recovered = scene.start(1, "recover", "story")
    recovered.until(2 * len(scene.kept) + MORE)  # It shows again what is said anew.
    scene.start(2, "kill", "story").end(0)
    recovered.end(4)
    task = scene.look("cancelled")
    assert task["supplements"] == [EXTRA]
    partial = task["metadata"]["local/partial_output"]
    assert scene.kept.endswith(partial)
    print(f"\nKept for good: the extra, and {len(partial)} characters of the answer to it.")


def main(arguments: Sequence[str] | None = None) -> None:
    """Play the scene on the named folder or on a new one."""
    words = parser("integration.two_terminals", __doc__)
    words.add_argument(
        "state", nargs="?", type=Path, metavar="STATE", help="the folder of the Tasks (a new one)"
    )
    state: Path | None = words.parse_args(arguments).state
    with tempfile.TemporaryDirectory() as folder:
        played(state or Path(folder))


def played(state: Path) -> None:
    """Play the scene on this folder, and leave no process behind."""
    scene = Scene(state)
    try:
        play(scene)
    finally:
        scene.close()


if __name__ == "__main__":
    main()

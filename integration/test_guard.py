"""The processes of a test run end with it, however the run ends."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PATIENCE = 60_000
"""Milliseconds after which a process that should be gone counts as left over."""
GUARDED = """
from integration import guard

guard.GRACE = 0.5
pytest_plugins = ["integration.guard"]
"""
RUN = """
import json, signal, subprocess, sys
from integration.peers.fixtures import aimock, aimock_process

SLEEPS = [sys.executable, "-c", "import time; print(flush=True); time.sleep(3600)"]
LEAVES = "import subprocess as s, sys; print(s.Popen(sys.argv[1:], stdout=s.DEVNULL).pid)"

def test_starts_processes_and_hangs(aimock):
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "start_new_session": True}
    apart = subprocess.Popen(SLEEPS, **quiet)
    stopped = subprocess.Popen(SLEEPS, **quiet)
    stopped.stdout.readline()
    stopped.send_signal(signal.SIGSTOP)
    left = subprocess.run([sys.executable, "-c", LEAVES, *SLEEPS], **quiet)
    print([aimock.pid, apart.pid, stopped.pid, int(left.stdout)], flush=True)
    sys.stdin.read()
"""


def started(folder: Path) -> subprocess.Popen[str]:
    """A pytest process with the guard, on one test module."""
    (folder / "conftest.py").write_text(GUARDED)
    module = folder / "test_run.py"
    module.write_text(RUN)
    command = [sys.executable, "-m", "pytest", "-s", "-q"]
    return subprocess.Popen(
        [*command, f"--rootdir={folder}", str(module)],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def gone(process: int) -> bool:
    """Wait until a process that is no child has ended."""
    try:
        watched = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(watched, select.POLLIN)
        return bool(poll.poll(PATIENCE))
    finally:
        os.close(watched)


def processes_of(run: subprocess.Popen[str]) -> list[int]:
    """The processes that the run says it started."""
    assert run.stdout is not None
    line = next(line for line in run.stdout if line.startswith("["))
    processes: list[int] = json.loads(line)
    return processes


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_is_ended_leaves_no_process(number: signal.Signals, tmp_path: Path) -> None:
    """A server of the peers, a process that never reads its input, a stopped one, an orphan."""
    with started(tmp_path) as run:
        processes = processes_of(run)
        run.send_signal(number)
    assert [gone(process) for process in processes] == [True] * 4


def test_a_run_that_ends_well_leaves_no_process(tmp_path: Path) -> None:
    with started(tmp_path) as run:
        processes = processes_of(run)
        run.communicate("")
        assert run.returncode == 0
    assert [gone(process) for process in processes] == [True] * 4

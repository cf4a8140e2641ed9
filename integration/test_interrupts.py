"""A test can send Ctrl-C to the processes that it starts, whatever this process inherited."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

PROGRAM = "import signal; signal.raise_signal(signal.SIGINT)"


@pytest.fixture
def ignoring() -> Iterator[None]:
    """Ignore SIGINT, as a background job of a shell without job control does."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN, "the fixture puts it back"
    signal.signal(signal.SIGINT, before)


def ended() -> int:
    """The exit code of a program that is interrupted."""
    return subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True).returncode


@pytest.mark.usefixtures("ignoring")
def test_a_process_inherits_that_ctrl_c_is_ignored() -> None:
    assert ended() == 0


@pytest.mark.usefixtures("ignoring", "interruptible")
def test_a_process_of_an_interruptible_test_takes_ctrl_c() -> None:
    assert ended() == -signal.SIGINT

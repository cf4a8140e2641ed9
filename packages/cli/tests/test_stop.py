"""A request to stop, by signals; the command itself is stopped in test_running."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from agentic_kernel_cli.stop import Stop


async def test_a_signal_that_the_parent_had_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Stop("left").on_signals() as stop:
            signal.raise_signal(signal.SIGINT)
            assert (stop.code, signal.getsignal(signal.SIGINT)) == (None, signal.SIG_IGN)
            signal.raise_signal(signal.SIGTERM)
            assert stop.code == 128 + signal.SIGTERM
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


LEAVES = """
import asyncio, os, signal, sys
from agentic_kernel_cli.stop import Stop

async def leave():
    if sys.argv[1]:
        os.close(2)
    with Stop("left; it goes on").on_signals():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)

asyncio.run(leave())
"""


@pytest.mark.parametrize("deaf", ["", "closed"], ids=["stderr", "no stderr"])
def test_a_second_signal_leaves_with_the_last_words_of_the_verb(deaf: str) -> None:
    left = subprocess.run(
        [sys.executable, "-c", LEAVES, deaf], capture_output=True, text=True, check=False
    )
    told = "" if deaf else "\nleft; it goes on\n"
    assert (left.returncode, left.stderr) == (128 + signal.SIGTERM, told)

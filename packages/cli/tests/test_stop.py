"""A request to stop, by signals; the command itself is stopped in test_running."""

from __future__ import annotations

import signal

from agentic_kernel_cli.stop import Stop


async def test_a_signal_that_the_parent_had_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Stop().on_signals() as stop:
            signal.raise_signal(signal.SIGINT)
            assert (stop.code, signal.getsignal(signal.SIGINT)) == (None, signal.SIG_IGN)
            signal.raise_signal(signal.SIGTERM)
            assert stop.code == 128 + signal.SIGTERM
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)

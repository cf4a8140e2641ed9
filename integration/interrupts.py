"""Ctrl-C for the tests that send it, as a pytest plugin.

A shell without job control lets its background jobs ignore SIGINT, and every process that they
start inherits that: a Python program among them never raises ``KeyboardInterrupt``.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let the processes that the test starts take SIGINT, also if this process ignores it."""
    # A handler is not inherited: the processes start with the system's default.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)

"""The time limit of every test, as a pytest plugin on top of pytest-timeout.

A test that reaches its limit fails by a signal in the main thread, which also interrupts a wait in
an event loop, and the run goes on. If the test does not let go of the process then, the process
prints the stacks of all threads and ends; pytest-xdist reports the test and starts another worker.
"""

from __future__ import annotations

import faulthandler
import os
import signal
from collections.abc import Generator
from types import FrameType
from typing import Any, Final

import pytest

LIMITS: Final = {"torture": 3600.0, "slow": 600.0, "random": 600.0}
"""Seconds for a test with this mark; the ini option ``timeout`` is for the tests without one."""
_STDERR = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        "timeout_grace",
        "seconds after its limit in which a test has to let go of the process",
        default="60",
    )


def pytest_configure(config: pytest.Config) -> None:
    # While tests run, pytest captures the descriptor 2.
    config.stash[_STDERR] = os.dup(2)


def pytest_unconfigure(config: pytest.Config) -> None:
    os.close(config.stash[_STDERR])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give the marked tests their limits; a campaign by the clock comes on top."""
    campaign = 60 * (config.getoption("--conformance-minutes", None) or 0)
    heavy = config.getoption("--conformance-level", None) == "full"
    for item in items:
        if item.get_closest_marker("timeout") is None:
            marks = (mark for mark in LIMITS if item.get_closest_marker(mark))
            mark = "torture" if heavy or campaign else next(marks, None)
            if mark is not None:
                item.add_marker(pytest.mark.timeout(LIMITS[mark] + campaign))


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> Generator[None, object, object]:
    """Name the test at its limit, and end the process if the test holds it after that."""
    done = yield
    fail = signal.getsignal(signal.SIGALRM)
    stderr = item.config.stash[_STDERR]

    def name_and_fail(number: int, frame: FrameType | None) -> None:
        said = f"\n{item.nodeid} did not end within its limit of {settings.timeout:g} s\n"
        os.write(stderr, said.encode())
        if callable(fail):
            fail(number, frame)

    signal.signal(signal.SIGALRM, name_and_fail)
    _end_process_after(item.config, settings.timeout)
    return done


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """Bound the end of the fixtures after a failure: pytest has forgotten the limit by now."""
    if isinstance(node, pytest.Item):
        _end_process_after(node.config, 0.0)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Forget the limit when the test, its fixtures included, is over."""
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def _end_process_after(config: pytest.Config, seconds: float) -> None:
    grace = float(config.getini("timeout_grace"))
    faulthandler.dump_traceback_later(seconds + grace, exit=True, file=config.stash[_STDERR])

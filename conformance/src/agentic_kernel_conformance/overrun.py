"""Overrun: a contract test that hangs fails with the name of its rule, and the run goes on.

The bound is on asyncio alone, so it needs no other plugin. A test that blocks the event loop itself
is beyond it; ``faulthandler_timeout`` of pytest shows where such a test is.
"""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from _thread import interrupt_main
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from .rules import broken

Say = Callable[[str], None]
PATIENCES: Final = 10
"""The bound of a test without progress, in patiences of its contract."""


class Overrun:
    """The bound of one test.

    Args:
        test: The test, for a message.
        rule: The rule that it proves.
        seconds: How long it may go on; a random test, from trial to trial.
        grace: How long it may take to unwind after that.
        say: Writes a line to the terminal at once: the fixtures may hang as well.
    """

    def __init__(self, test: str, rule: str, seconds: float, grace: float, say: Say) -> None:
        self._test = test
        self._rule = rule
        self._seconds = seconds
        self._grace = grace
        self._say = say
        self._until = 0.0
        self._seen = ""

    def renew(self) -> None:
        """Begin to count again, because the test got somewhere."""
        self._until = time.monotonic() + self._seconds

    async def bound(self, test: Coroutine[Any, Any, None]) -> None:
        """Run the test; in this task, so that it runs as it does without a bound.

        Raises:
            RuleError: It did not end, or did not begin another trial, in time. It is cancelled
                then; if it does not unwind either, the run is interrupted.
        """
        __tracebackhide__ = True
        self.renew()
        loop, task = asyncio.get_running_loop(), asyncio.current_task()

        def look() -> None:
            left = self._until - time.monotonic()
            if left > 0:
                self._watch = loop.call_later(left, look)
                return
            self._seen = f"{self._test} did not end within {self._seconds:g} s{_waiting(test)}"
            self._say(f"rule {self._rule}: {self._seen}")
            self._watch = loop.call_later(self._grace, interrupt_main)
            assert task is not None
            task.cancel()

        self._watch = loop.call_later(self._seconds, look)
        try:
            await test
        except BaseException as error:
            if not self._seen:
                raise
            raise broken(self._rule, self._seen) from error
        finally:
            self._watch.cancel()
        if self._seen:
            raise broken(self._rule, self._seen)


@contextmanager
def ended_in_time(doing: str, seconds: float, say: Say) -> Iterator[None]:
    """Name what is done, and interrupt the run, if the block takes longer.

    Fixtures of an adapter run on event loops of their own, where nothing can be raised in them.
    """

    def interrupt() -> None:
        say(f"{doing} did not end within {seconds:g} s; the run is interrupted")
        _press_ctrl_c()

    watch = threading.Timer(seconds, interrupt)
    watch.daemon = True
    watch.start()
    try:
        yield
    finally:
        watch.cancel()


def _press_ctrl_c() -> None:
    """Interrupt the main thread, from any other; pytest then reports the tests that are done.

    `interrupt_main` alone is not noticed by an event loop that waits for nothing: it ends no
    system call.
    """
    main = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main is not None:
        signal.pthread_kill(main, signal.SIGINT)
    else:
        interrupt_main()


def _waiting(coroutine: Any) -> str:
    """Where a coroutine waits, as far as it can be followed."""
    where = ""
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        code = frame.f_code
        where = f"; it waits in {code.co_qualname} ({Path(code.co_filename).name}, "
        where += f"line {frame.f_lineno})"
        coroutine = coroutine.cr_await
    return where

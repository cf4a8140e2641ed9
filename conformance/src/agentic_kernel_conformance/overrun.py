"""Overrun: the time limit of a contract test. A test that hangs fails with its rule.

The limit uses asyncio alone, so it needs no other plugin. It cannot stop a test that blocks the
event loop; pytest's ``faulthandler_timeout`` shows where such a test is.
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
"""The time limit of a test without progress, in patiences of its contract."""


class Overrun:
    """The time limit of one test.

    Args:
        test: The name of the test, for messages.
        rule: The rule that the test proves.
        seconds: The limit; for a random test, the limit from trial to trial.
        grace: Seconds that the test may take to unwind after the limit.
        say: Writes a line to the terminal at once, because the fixtures may hang as well.
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
        """Start the limit again, because the test made progress."""
        self._until = time.monotonic() + self._seconds

    async def bound(self, test: Coroutine[Any, Any, None]) -> None:
        """Run the test in the current asyncio task, as without a limit.

        Raises:
            RuleError: The test did not end, or did not begin another trial, within the limit. It is
                cancelled; if it does not unwind within the grace, the run is interrupted.
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
    """Interrupt the run, with a message, if the block takes longer than ``seconds``.

    The fixtures of an adapter run on event loops of their own, so an exception cannot be raised in
    them.
    """

    def interrupt() -> None:
        say(f"{doing} did not end within {seconds:g} s; the run is interrupted")
        _press_ctrl_c()

    watch = threading.Timer(seconds, interrupt)
    watch.daemon = True
    # A run in the background (`nohup`, a job of a script) ignores Ctrl-C, which is needed here.
    handler = signal.getsignal(signal.SIGINT)
    ignored = handler == signal.SIG_IGN and threading.current_thread() is threading.main_thread()
    if ignored:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    watch.start()
    try:
        yield
    finally:
        watch.cancel()
        if ignored:
            signal.signal(signal.SIGINT, handler)


def _press_ctrl_c() -> None:
    """Interrupt the main thread from another thread; pytest then reports the finished tests.

    `interrupt_main` ends no system call, so an idle event loop does not notice it.
    """
    main = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main is not None:
        signal.pthread_kill(main, signal.SIGINT)
    else:
        interrupt_main()


def _waiting(coroutine: Any) -> str:
    """Return the place where a coroutine waits, as far as it can be followed."""
    where = ""
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        code = frame.f_code
        where = f"; it waits in {code.co_qualname} ({Path(code.co_filename).name}, "
        where += f"line {frame.f_lineno})"
        coroutine = coroutine.cr_await
    return where

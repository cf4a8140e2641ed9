"""Faults: unexpected exceptions of foreign code, made safe to store and to log.

A fault is an exception that a planner, tool, policy, middleware, memory, observer or substrate
raises and that is not one of its regular answers. The exception is itself foreign code: its
``__str__`` and its ``__getattribute__`` may raise, and its class may have a strange name. So the
functions here look at it with `is_a` and the descriptors of `BaseException`, not with
``isinstance`` and plain attributes. They return plain, bounded text that may be stored.
"""

from __future__ import annotations

import asyncio
import logging
import sysconfig
import traceback
from collections.abc import Awaitable
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, TypeGuard, TypeVar

from .observer import printable

T = TypeVar("T")
_log = logging.getLogger(__name__)
DETAIL: Final = 2_000
"""The most characters that are kept of an exception's text."""
MAX_MESSAGE: Final = 500_000
"""The most characters that are kept of a failure's message; its JSON text fits a stored value."""
_TRACEBACK: Final = 32_000
"""The most characters of a traceback that are logged: half from its start, half from its end."""
_UNREADABLE: Final = "(its message cannot be read)"
_STDLIB: Final = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), "<frozen")
_INSTALLED: Final = ("site-packages", "dist-packages")
_REPORTED: Final = "_agentic_kernel_reported"


_cause: Final = BaseException.__dict__["__cause__"].__get__
_trail: Final = BaseException.__dict__["__traceback__"].__get__
_attributes: Final = BaseException.__dict__["__dict__"].__get__
_inner: Final = BaseExceptionGroup.__dict__["exceptions"].__get__


def is_a(value: object, kind: type[T]) -> TypeGuard[T]:
    """True if the value's type is ``kind`` or derives from it. Unlike `isinstance`, it looks at the
    type alone and so calls no code of the value."""
    return issubclass(type(value), kind)


class Stray(Exception):
    """Carries a fault that is not an `Exception` out of an asyncio task.

    A bare ``SystemExit`` that leaves an asyncio task would stop the event loop and every other
    Task with it. `contained` raises a `Stray` instead; `origin` returns the fault.
    """

    @classmethod
    def of(cls, fault: BaseException) -> Stray:
        """Wrap the fault."""
        stray = cls()
        stray.__cause__ = fault
        return stray


def strays(fault: BaseException) -> bool:
    """True if the fault is neither an `Exception`, a cancellation nor a ``KeyboardInterrupt``."""
    return not issubclass(type(fault), (Exception, asyncio.CancelledError, KeyboardInterrupt))


async def contained(work: Awaitable[T]) -> T:
    """Await foreign work and wrap what is no `Exception` in a `Stray`.

    Call it inside an asyncio task of its own.

    Raises:
        Stray: The work raised ``SystemExit``, ``GeneratorExit`` or a ``BaseException`` of its own.
    """
    try:
        return await work
    except BaseException as fault:
        if strays(fault):
            raise Stray from fault
        raise


def origin(fault: BaseException) -> BaseException:
    """The fault itself, without the `Stray` around it."""
    while is_a(fault, Stray) and fault.__cause__ is not None:
        fault = fault.__cause__
    return fault


def cause_has_note(fault: BaseException, note: str) -> bool:
    """True if the fault's cause carries this note; see `BaseException.add_note`."""
    cause = _cause(fault)
    notes = () if cause is None else _attributes(cause).get("__notes__", ())
    return type(notes) is list and note in notes


def kind_of(fault: BaseException) -> str:
    """The name of a fault's class, fit to be stored."""
    try:
        return fit(type(origin(fault)).__name__)
    except BaseException as odd:
        _reraise_interrupt(odd)
        return "BaseException"


def text_of(fault: BaseException | None) -> str:
    """The message of a fault, fit to be stored: its first `DETAIL` characters."""
    try:
        return fit(str("" if fault is None else origin(fault)))
    except BaseException as odd:
        _reraise_interrupt(odd)
        return _UNREADABLE


def said(fault: BaseException) -> str:
    """The message of a fault in one line for a log: `text_of`, made printable."""
    return printable(text_of(fault))


def place_of(fault: BaseException) -> dict[str, Any]:
    """``file`` and ``line`` of the user's frame of a fault; empty if it has no traceback.

    The user's frame is the innermost one outside of this project's packages. The user's own files
    come first, then installed libraries, then the standard library.
    """
    try:
        fault = origin(fault)
        while is_a(fault, BaseExceptionGroup) and _inner(fault):
            fault = origin(_inner(fault)[0])
        best: tuple[int, dict[str, Any]] = (-1, {})
        trail: TracebackType | None = _trail(fault)
        while trail is not None:
            code, module = trail.tb_frame.f_code, trail.tb_frame.f_globals.get("__name__")
            rank = _rank(code.co_filename, module)
            if rank >= best[0]:
                place = {"file": fit(code.co_filename), "line": trail.tb_lineno or 0}
                best = (rank, place)
            trail = trail.tb_next
        return best[1]
    except BaseException as odd:
        _reraise_interrupt(odd)
        return {}


def _rank(file: str, module: Any) -> int:
    """Rank a frame: a higher number means that it is more likely the user's own code."""
    if isinstance(module, str) and module.partition(".")[0].startswith("agentic_kernel"):
        return 0
    if any(part in file for part in _INSTALLED):
        return 2
    if file.startswith(_STDLIB):
        return 1
    return 3


def report(
    fault: BaseException, task_id: str, number: int, where: str = "the run", counted: str = "step"
) -> None:
    """Log a fault once, with its traceback, at a level that is shown by default.

    Reporting the same exception again, on its way up, does nothing.

    Args:
        number: The number of the Task's step, commit or version.
        where: The part that failed, e.g. ``the tool 'search'``.
        counted: The word for ``number``: a substrate counts its ``step``, and the Host each
            ``commit`` of the owner (`Record.step`) or each ``version`` of the record.
    """
    fault = origin(fault)
    if _is_reported(fault):
        return
    log(_log, fault, "task %r, %s %d: %s failed", task_id, counted, number, where)


def _is_reported(fault: BaseException) -> bool:
    """True if the fault was reported before. Mark it as reported."""
    with suppress(Exception):
        noted: dict[str, Any] = _attributes(fault)
        if _REPORTED in noted:
            return True
        noted[_REPORTED] = True
    return False


def log(logger: logging.Logger, fault: BaseException, message: str, *args: object) -> None:
    """Log a fault with its traceback; control characters in it are escaped.

    Args:
        message: The part that failed, as the format string of a log call with ``args``.
    """
    fault = origin(fault)
    # The text of the traceback is foreign. It is built here, because a formatter would let control
    # characters through, and an odd exception could make the formatter raise.
    record = logger.makeRecord(
        logger.name, logging.ERROR, __file__, 0, message, args, None,
    )  # fmt: skip
    try:
        record.exc_info = (type(fault), fault, _trail(fault))
        lines = traceback.TracebackException.from_exception(fault).format()
        text = "".join(lines).rstrip("\n")
    except BaseException as odd:
        _reraise_interrupt(odd)
        record.exc_info = None
        text = f"{kind_of(fault)}: {text_of(fault)}"
    if len(text) > _TRACEBACK:
        half = _TRACEBACK // 2
        cut = f"\n… {len(text) - _TRACEBACK:,} characters are left out …\n"
        text = text[:half] + cut + text[-half:]
    text = printable(text, keep="\n")  # After the cut, because it looks at each character.
    record.exc_text = text.encode(errors="backslashreplace").decode()
    if logger.isEnabledFor(logging.ERROR):
        logger.handle(record)


def shortened(text: str, limit: int) -> str:
    """The text, or its first ``limit`` characters and its length if it is longer."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… (the first {limit:,} of {len(text):,} characters)"


def is_unwinding(fault: BaseException) -> bool:
    """True if the fault is a cancellation of the asyncio task that runs now, or its run's end.

    A bare ``CancelledError`` that comes although the task is not being cancelled is a fault of its
    source, such as the result of an inner task that was cancelled.
    """
    if not is_a(fault, asyncio.CancelledError):
        return False
    return type(fault) is not asyncio.CancelledError or _cancelled_here()


def is_closing(fault: BaseException) -> bool:
    """True if the fault closes the coroutine that runs now, and is no fault of its source.

    The event loop closes a coroutine outside of every asyncio task.
    """
    if not is_a(fault, GeneratorExit):
        return False
    try:
        return asyncio.current_task() is None
    except RuntimeError:
        return True


def reraise_run_end(fault: BaseException) -> None:
    """Raise a fault again that ends the run: ``KeyboardInterrupt``, `is_unwinding`, `is_closing`.

    A handler of the faults of a part of the run calls it; all other faults are that part's.
    """
    if is_a(fault, KeyboardInterrupt) or is_unwinding(fault) or is_closing(fault):
        raise fault


def not_unwinding(fault: BaseException, who: str) -> Exception:
    """The fault as an `Exception`: a stray ``CancelledError`` becomes one that names its source.

    Raises:
        asyncio.CancelledError: It is not stray; see `is_unwinding`.
    """
    if is_a(fault, Exception):
        return fault
    if is_unwinding(fault):
        raise fault
    made = RuntimeError(f"{who} raised {kind_of(fault)}, although its task was not cancelled")
    made.__cause__ = fault
    return made.with_traceback(_trail(fault))


def reraise_cancellation(fault: BaseException) -> None:
    """Raise a ``KeyboardInterrupt`` or a cancellation again; handlers of other faults call it."""
    if issubclass(type(fault), (KeyboardInterrupt, asyncio.CancelledError)):
        raise fault


def reraise_own_cancellation(fault: BaseException) -> None:
    """`reraise_cancellation`, unless a cancellation is not aimed at the current asyncio task.

    Such a cancellation is a fault of the foreign code that raised it, e.g. because a task of that
    code's own was cancelled.
    """
    if _cancelled_here() or not is_a(fault, asyncio.CancelledError):
        reraise_cancellation(fault)


def _cancelled_here() -> bool:
    """True if the asyncio task that runs now is being cancelled, or no task runs."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def fit(text: str) -> str:
    """The first `DETAIL` characters of a foreign text, with those escaped that no store accepts."""
    # A subclass of str may have methods of its own; this gives a plain str.
    text = str.__getitem__(text, slice(DETAIL)).replace("\0", "\\0")
    return text.encode(errors="backslashreplace").decode()


def _reraise_interrupt(fault: BaseException) -> None:
    if is_a(fault, KeyboardInterrupt):
        raise fault

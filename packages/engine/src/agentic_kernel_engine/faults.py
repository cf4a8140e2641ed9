"""Faults: exceptions of code that the engine did not write, and where people find their cause.

A fault is whatever a planner, tool, policy, middleware, memory, observer or substrate raises and
did not mean as an answer. An exception is itself foreign code: its ``__str__`` and its
``__getattribute__`` may raise, its class may have a strange name. So `is_a` and the descriptors of
`BaseException` look at it, and ``isinstance`` and plain attributes do not. The functions here hand
back plain, bounded text that may be stored.
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
"""How much of an exception's text is kept, in characters."""
MAX_MESSAGE: Final = 500_000
"""How much of a failure's message is kept, in characters: as JSON text it fits a stored value."""
_TRACEBACK: Final = 32_000
"""How much of a traceback is logged, in characters: half from its begin and half from its end."""
_UNREADABLE: Final = "(its message cannot be read)"
_STDLIB: Final = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), "<frozen")
_INSTALLED: Final = ("site-packages", "dist-packages")
_REPORTED: Final = "_agentic_kernel_reported"


_cause: Final = BaseException.__dict__["__cause__"].__get__
_trail: Final = BaseException.__dict__["__traceback__"].__get__
_attributes: Final = BaseException.__dict__["__dict__"].__get__
_inner: Final = BaseExceptionGroup.__dict__["exceptions"].__get__


def is_a(value: object, kind: type[T]) -> TypeGuard[T]:
    """`isinstance` by the value's type alone; it calls no code of the value's."""
    return issubclass(type(value), kind)


class Stray(Exception):
    """A fault that is no `Exception`, on its way to the run that it fails.

    A bare ``SystemExit`` that leaves an asyncio task would stop the event loop and every other
    Task with it. `contained` raises this instead; `origin` gives the fault back.
    """

    @classmethod
    def of(cls, fault: BaseException) -> Stray:
        """What stands for the fault."""
        stray = cls()
        stray.__cause__ = fault
        return stray


def strays(fault: BaseException) -> bool:
    """True for a fault that is no `Exception`, no cancellation and no ``KeyboardInterrupt``."""
    return not issubclass(type(fault), (Exception, asyncio.CancelledError, KeyboardInterrupt))


async def contained(work: Awaitable[T]) -> T:
    """The result of foreign work that runs in an asyncio task of its own.

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
        return _fit(type(origin(fault)).__name__)
    except BaseException as odd:
        _pass_interrupt(odd)
        return "BaseException"


def text_of(fault: BaseException | None) -> str:
    """What a fault says, fit to be stored: its first `DETAIL` characters."""
    try:
        return _fit(str("" if fault is None else origin(fault)))
    except BaseException as odd:
        _pass_interrupt(odd)
        return _UNREADABLE


def said(fault: BaseException) -> str:
    """What a fault says, in one line for a log: `text_of`, printable."""
    return printable(text_of(fault))


def place_of(fault: BaseException) -> dict[str, Any]:
    """``file`` and ``line`` of the user's frame of a fault; empty if it has no traceback.

    The user's frame is the innermost one outside of this project's packages. A frame of the user's
    own files is preferred to one of an installed library, and that to one of the standard library.
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
                place = {"file": _fit(code.co_filename), "line": trail.tb_lineno or 0}
                best = (rank, place)
            trail = trail.tb_next
        return best[1]
    except BaseException as odd:
        _pass_interrupt(odd)
        return {}


def _rank(file: str, module: Any) -> int:
    """How likely a frame is the user's own code; the higher the likelier."""
    if isinstance(module, str) and module.partition(".")[0].startswith("agentic_kernel"):
        return 0
    if any(part in file for part in _INSTALLED):
        return 2
    if file.startswith(_STDLIB):
        return 1
    return 3


def report(
    fault: BaseException, task_id: str, step: int, where: str = "the run", counts: str = "step"
) -> None:
    """Log a fault once, with its traceback, at a level that is shown by default.

    Reporting the same exception again, on its way up, does nothing.

    Args:
        step: Of the Task, when it happened.
        where: What failed, e.g. ``the tool 'search'``.
        counts: What ``step`` counts, where it is not steps.
    """
    fault = origin(fault)
    if _is_reported(fault):
        return
    log(_log, fault, "task %r, %s %d: %s failed", task_id, counts, step, where)


def _is_reported(fault: BaseException) -> bool:
    """Whether a fault was reported before; from now on it was."""
    with suppress(Exception):
        noted: dict[str, Any] = _attributes(fault)
        if _REPORTED in noted:
            return True
        noted[_REPORTED] = True
    return False


def log(logger: logging.Logger, fault: BaseException, message: str, *args: object) -> None:
    """Log a fault with its traceback, in which no character steers a terminal.

    Args:
        message: What failed, with the places for ``args`` of a log call.
    """
    fault = origin(fault)
    # The text of the traceback is foreign. It is made here, because a formatter would let control
    # characters through, and an odd exception could make it raise.
    record = logger.makeRecord(
        logger.name, logging.ERROR, __file__, 0, message, args, None,
    )  # fmt: skip
    try:
        record.exc_info = (type(fault), fault, _trail(fault))
        lines = traceback.TracebackException.from_exception(fault).format()
        text = "".join(lines).rstrip("\n")
    except BaseException as odd:
        _pass_interrupt(odd)
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
    """A text, or its first ``limit`` characters and how long it was."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… (the first {limit:,} of {len(text):,} characters)"


def passes(fault: BaseException) -> None:
    """Raise a ``KeyboardInterrupt`` or a cancellation again; for handlers of all other faults."""
    if issubclass(type(fault), (KeyboardInterrupt, asyncio.CancelledError)):
        raise fault


def _fit(text: str) -> str:
    # A subclass of str may have methods of its own; this gives a plain str.
    text = str.__getitem__(text, slice(DETAIL)).replace("\0", "\\0")
    return text.encode(errors="backslashreplace").decode()


def _pass_interrupt(fault: BaseException) -> None:
    if is_a(fault, KeyboardInterrupt):
        raise fault

"""Logs: the log records of the packages, made safe to show."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from typing import Final

from .text import label

_OURS: Final = "agentic_kernel"


def begin_logging(*, verbose: bool = False, debug: bool = False) -> None:
    """Log to stderr: only critical records, unless one of the two asks for more.

    Records of other packages below a warning are dropped, because they hold headers and bodies of
    requests.

    Args:
        verbose: Log information and warnings, one line each.
        debug: Log every record, with its traceback.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(Lines(tracebacks=debug or not verbose))
    handler.addFilter(_of_interest)
    level = logging.DEBUG if debug else logging.INFO if verbose else logging.CRITICAL
    logging.basicConfig(level=level, handlers=[handler])
    # Drop a record that cannot be formatted: Python would print its raw arguments.
    logging.raiseExceptions = False
    logging.captureWarnings(True)


class Lines(logging.Formatter):
    """Formats a record as one line, and each line of its traceback as one indented line.

    Every character is visible, so that no text in a record can control the terminal or look like
    another record.

    Args:
        tracebacks: False to leave the tracebacks out.
    """

    def __init__(self, *, tracebacks: bool = True) -> None:
        super().__init__()
        self._tracebacks = tracebacks

    def format(self, record: logging.LogRecord) -> str:
        lines = [label(f"{record.levelname.lower()}: {record.name}: {record.getMessage()}")]
        if not self._tracebacks:
            return lines[0]
        if record.exc_text:  # Made by the engine already, with a limit.
            lines += _indented(record.exc_text)
        elif record.exc_info and record.exc_info[1] is not None:
            lines += traceback_lines(record.exc_info[1])
        if record.stack_info:
            lines += _indented(record.stack_info)
        return "\n".join(lines)


def traceback_lines(error: BaseException) -> Iterator[str]:
    """The lines of an error's traceback, indented; every character is visible."""
    return _indented("".join(traceback.format_exception(error)))


def cause_lines(error: BaseException) -> Iterator[str]:
    """One line for each error that this one came from, the nearest first; a circle ends."""
    seen = {id(error)}
    while (cause := error.__cause__ or error.__context__) is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield f"  because of {label(type(cause).__qualname__)}: {label(said(cause))}"
        error = cause


def said(error: BaseException) -> str:
    """The message of an error, whose ``__str__`` may raise."""
    try:
        return str(error)
    except Exception:
        return "its message cannot be shown, because its __str__ raised"


def _indented(text: str) -> Iterator[str]:
    return (f"  | {label(line)}" for line in text.splitlines())


def _of_interest(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING or record.name.startswith(_OURS)

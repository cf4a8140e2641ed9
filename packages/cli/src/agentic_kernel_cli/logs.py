"""Logs: what the packages report about their own work, made safe to show."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from typing import Final

from .text import label

_OURS: Final = "agentic_kernel"


def begin_logging(*, debug: bool) -> None:
    """Write reports to stderr: with ``debug`` all of these packages, else only what ends a process.

    Of other packages only warnings are shown: their details hold headers and bodies of requests.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(Lines())
    handler.addFilter(_of_interest)
    logging.basicConfig(level=logging.DEBUG if debug else logging.CRITICAL, handlers=[handler])
    # A report that cannot be written down is dropped: Python would print its raw arguments.
    logging.raiseExceptions = False
    logging.captureWarnings(True)


class Lines(logging.Formatter):
    """One line for a report, and one indented line for each line of its traceback.

    Every character can be seen, so that no text in a report drives the terminal or looks like
    another report.
    """

    def format(self, record: logging.LogRecord) -> str:
        lines = [label(f"{record.levelname.lower()}: {record.name}: {record.getMessage()}")]
        if record.exc_text:  # The engine has it made already, in bounds.
            lines += _indented(record.exc_text)
        elif record.exc_info and record.exc_info[1] is not None:
            lines += traceback_lines(record.exc_info[1])
        if record.stack_info:
            lines += _indented(record.stack_info)
        return "\n".join(lines)


def traceback_lines(error: BaseException) -> Iterator[str]:
    """The traceback of an error, one visible line each."""
    return _indented("".join(traceback.format_exception(error)))


def _indented(text: str) -> Iterator[str]:
    return (f"  | {label(line)}" for line in text.splitlines())


def _of_interest(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING or record.name.startswith(_OURS)

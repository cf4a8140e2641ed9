"""Logs: the log records of the packages, made safe to show."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from typing import Final

from .text import label

_OURS: Final = "agentic_kernel"


def begin_logging(*, debug: bool) -> None:
    """Log to stderr: with ``debug`` every record of these packages, else only critical records.

    Records of other packages below a warning are dropped, because they hold headers and bodies of
    requests.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(Lines())
    handler.addFilter(_of_interest)
    logging.basicConfig(level=logging.DEBUG if debug else logging.CRITICAL, handlers=[handler])
    # Drop a record that cannot be formatted: Python would print its raw arguments.
    logging.raiseExceptions = False
    logging.captureWarnings(True)


class Lines(logging.Formatter):
    """Formats a record as one line, and each line of its traceback as one indented line.

    Every character is visible, so that no text in a record can control the terminal or look like
    another record.
    """

    def format(self, record: logging.LogRecord) -> str:
        lines = [label(f"{record.levelname.lower()}: {record.name}: {record.getMessage()}")]
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


def _indented(text: str) -> Iterator[str]:
    return (f"  | {label(line)}" for line in text.splitlines())


def _of_interest(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING or record.name.startswith(_OURS)

"""The entry point: every end of the command becomes an exit code, every error one clear line.

0  success                    3    paused from elsewhere, or for a decision
1  failure, or an error       4    cancelled
2  usage                      130  interrupted by Ctrl-C; the Task is then paused
                              143  ended by SIGTERM; the Task is then paused
                              141  the reader of the output left; the Task is then paused
"""

from __future__ import annotations

import io
import logging
import os
import sys
import traceback
from collections.abc import Iterable
from itertools import islice

import typer

from agentic_kernel import InvalidValue, KernelError

from .commands import app
from .rendering import json_line
from .stop import READER_GONE
from .text import label

INTERRUPTED = 130


def main() -> None:
    """Run the command line and leave the process with its exit code."""
    options, rest = parted(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    logging.basicConfig(level=logging.DEBUG if "--debug" in options else logging.CRITICAL)
    code = _run(options, rest)
    try:
        sys.stdout.flush()
    except OSError:
        code = READER_GONE
    if code == READER_GONE:
        # Nobody reads what Python would still flush at exit; it must not complain about that.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def parted(words: Iterable[str]) -> tuple[list[str], list[str]]:
    """The global options, which may stand before or after the command, and the rest in order."""
    options: list[str] = []
    rest: list[str] = []
    ahead = iter(words)
    for word in ahead:
        if word == "--":
            rest += [word, *ahead]
        elif word == "--state":
            options += [word, *islice(ahead, 1)]
        elif word in ("--json", "--debug") or word.startswith("--state="):
            options.append(word)
        else:
            rest.append(word)
    return options, rest


def _run(options: list[str], rest: list[str]) -> int:
    try:
        return int(app(options + rest, prog_name="agentic-kernel", standalone_mode=False) or 0)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except Exception as error:
        if "--debug" in options:
            traceback.print_exc()
        return _report(error, as_json="--json" in options)


def _report(error: Exception, *, as_json: bool) -> int:
    code, message = 1, str(error)
    if isinstance(error, typer.TyperException):
        code, message = error.exit_code, error.format_message()
        context = getattr(error, "ctx", None)
        if context is not None:
            message += f" (see {context.command_path} --help)"
    elif isinstance(error, InvalidValue):
        code = 2
    elif not isinstance(error, (KernelError, OSError)):
        message = f"unexpected {type(error).__name__}: {message} (--debug shows where)"
    typer.echo(f"agentic-kernel: {label(message)}", err=True)
    if as_json:
        json_line("error", {"type": type(error).__name__, "message": message, "code": code})
    return code

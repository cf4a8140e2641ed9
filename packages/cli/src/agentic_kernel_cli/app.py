"""The entry point: every end of the command becomes an exit code, every error one clear line.

0  success                    4    cancelled
1  failure, or an error       5    left as it is: the flags do not grant what it asks for,
2  usage                           or this command does not run its kind
                              130  interrupted by Ctrl-C; the Task is then paused
3  paused from elsewhere,     143  ended by SIGTERM; the Task is then paused
   or for a decision          141  the reader closed the output; the Task is then paused

After a second signal, the process leaves at once, and its Task stays running until it is recovered.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable
from itertools import islice

import typer

from .codes import INTERRUPTED, LEFT, READER_GONE
from .commands import app
from .logs import begin_logging, cause_lines, said, traceback_lines
from .shells import ASKED
from .text import label, line

_VALUED = ("--state=", "--observer=", "--app=")
"""The global options that have a value."""


def main() -> None:
    """Run the command line and leave the process with its exit code."""
    shell = os.environ.pop(ASKED, None)
    if shell is not None:
        from .completing import complete

        complete(shell, sys.argv[1:])
        return
    options, rest = parted(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    begin_logging(verbose="--verbose" in options, debug="--debug" in options)
    code = _run(options, rest)
    try:
        sys.stdout.flush()
    except OSError:
        code = READER_GONE
    if code == READER_GONE:
        # Python flushes stdout again at exit; without a reader it would print an error then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def parted(words: Iterable[str]) -> tuple[list[str], list[str]]:
    """Split off the global options, which may stand anywhere before ``--``; keep the order."""
    options: list[str] = []
    rest: list[str] = []
    ahead = iter(words)
    for word in ahead:
        if word == "--":
            rest += [word, *ahead]
        elif f"{word}=" in _VALUED:
            options += [word, *islice(ahead, 1)]
        elif word in ("--json", "--verbose", "--debug") or word.startswith(_VALUED):
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
            for line in traceback_lines(error):
                typer.echo(line, err=True)
        elif "--verbose" in options:
            for line in cause_lines(error):
                typer.echo(line, err=True)
        return _report(error, rest[0] if rest else "", as_json="--json" in options)


def _report(error: Exception, verb: str, *, as_json: bool) -> int:
    from agentic_kernel import InvalidValue, KernelError

    from .grants import LeftAlone
    from .wording import parsed, worded

    code, message = 1, said(error)
    if isinstance(error, typer.TyperException):
        code, message = error.exit_code, error.format_message()
        if isinstance(error, typer.BadParameter):
            # The parser writes this in front of a sentence that a verb wrote.
            message = parsed(message).removeprefix("Invalid value: ")
        context = getattr(error, "ctx", None)
        if context is not None:
            # A group without a command has printed its help, and its error says no more.
            message = message or f"name a command of {context.command_path}"
            message += f" (see {context.command_path} --help)"
    elif isinstance(error, InvalidValue):
        code = 2
    elif isinstance(error, LeftAlone):
        code = LEFT
    elif not isinstance(error, (KernelError, OSError)):
        message = f"unexpected {type(error).__name__}: {message} (add --debug to see the traceback)"
    if isinstance(error, KernelError):
        message = worded(error, verb) or message
    # Messages of this project already show foreign text safely. `label` would escape the
    # backslashes of a command in them.
    shown = (
        line(message) if isinstance(error, (KernelError, typer.TyperException)) else label(message)
    )
    typer.echo(f"agentic-kernel: {shown}", err=True)
    if as_json:
        from .rendering import json_line

        json_line("error", {"type": type(error).__name__, "message": message, "code": code})
    return code

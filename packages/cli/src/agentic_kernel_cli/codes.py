"""Codes: the exit codes that have a name; `app` lists all of them."""

from __future__ import annotations

from typing import Final

LEFT: Final = 5
"""No Task was run: the flags do not grant what it asks for, or `recover` found none that this
command can run."""
INTERRUPTED: Final = 130
"""Ctrl-C, outside a run."""
READER_GONE: Final = 128 + 13
"""The reader closed the output: the same as for SIGPIPE."""

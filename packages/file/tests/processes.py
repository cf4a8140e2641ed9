"""Other processes for the tests: a program beside this file, on one folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def worker(program: str, folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process that runs this program on the folder; killed when the block ends."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name(program)), str(folder), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def line_of(process: subprocess.Popen[str]) -> str:
    """The next line that a process says."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "the worker ended without a word"
    return line.rstrip("\n")

"""An environment for each contestant, made once and made anew when its pins change."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

from peers.catalog import Contestant

FOLDER = Path(__file__).parents[2] / ".nox" / "peers"
"""Where nox keeps its own; git ignores it."""
PATIENCE = 900
"""Seconds after which a process is given up."""


class Absent(Exception):
    """A contestant that cannot be measured here; the message says why, in one line."""


def interpreter(contestant: Contestant) -> Path:
    """The Python that has the contestant.

    Raises:
        Absent: its environment cannot be made.
    """
    if not contestant.requires:
        return Path(sys.executable)
    folder = FOLDER / contestant.module
    python, marker = folder / "bin" / "python", folder / "requires.txt"
    wanted = "\n".join([platform.python_version(), *contestant.requires])
    if marker.is_file() and marker.read_text() == wanted:
        return python
    told(Path(sys.executable), "-m", "venv", "--clear", str(folder))
    told(python, "-m", "pip", "install", "--quiet", *contestant.requires)
    marker.write_text(wanted)
    return python


def packages(python: Path) -> list[str]:
    """What is installed beside the interpreter, each with its version."""
    return told(python, "-m", "pip", "list", "--format=freeze").splitlines()


def told(python: Path, *arguments: str) -> str:
    """What a Python program says, run from the benchmarks' folder.

    Raises:
        Absent: it failed, or took too long.
    """
    try:
        said = subprocess.run(
            [python, *arguments],
            check=True,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            cwd=Path(__file__).parents[1],
        )
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines() or [f"exit status {error.returncode}"]
        raise Absent(lines[-1]) from error
    except subprocess.TimeoutExpired as error:
        raise Absent(f"not done after {PATIENCE} s") from error
    return said.stdout

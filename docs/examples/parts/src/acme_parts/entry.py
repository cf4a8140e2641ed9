"""The offers of this package, which its entry points load."""

# --8<-- [start:entry]
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentic_kernel_engine import Observer, Substrate
from agentic_kernel_engine.checks import Check
from agentic_kernel_engine.discovery import Allowed, ObserverEntry, RuntimeEntry


@dataclass(frozen=True)
class ShellOptions:
    program: str = "sh"
    seconds: float = 60.0

    def __post_init__(self) -> None:
        if self.seconds <= 0:
            raise ValueError(f"seconds is {self.seconds:g}; give more than 0")


@dataclass(frozen=True)
class LinesOptions:
    path: str  # An option without a default must be given.


def shell(allowed: Allowed, options: ShellOptions) -> Substrate:
    from .shell import Shell  # Imports that take long belong here.

    return Shell(options.program, options.seconds)


async def shell_checks() -> Sequence[Check]:
    found = shutil.which("sh")
    return [Check("sh", found is not None, found or "not on the path", "install a shell")]


def lines(options: LinesOptions) -> Observer:
    from .lines import Lines

    return Lines(Path(options.path))


SHELL = RuntimeEntry(
    make=shell, options=ShellOptions, checks=shell_checks, summary="shell commands, one a line"
)
LINES = ObserverEntry(make=lines, options=LinesOptions, summary="each event as a line of JSON")
# --8<-- [end:entry]

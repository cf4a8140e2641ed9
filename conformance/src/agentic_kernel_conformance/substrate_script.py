"""Scripts: the work that `SubstrateContract` asks of a substrate, as data.

A script is a tuple of up to six steps. The author of a substrate says once how a script becomes a
Task (`SubstrateWork.task`); the substrate then does the steps in order, each of them once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LONGEST: Final = 6
"""The most steps of a script of the contract."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Make one effect in the world: a mark; see `agentic_kernel_conformance.mark`.

    The step ends when the mark is answered. If it is not answered with 200, the work has failed.
    """

    token: str
    """Letters, digits and ``-``; every mark of a script has a token of its own."""


@dataclass(frozen=True, slots=True)
class Say:
    """Produce this text as output, as the substrate's work does."""

    text: str
    """Letters, digits, spaces and ``-``; never empty."""


@dataclass(frozen=True, slots=True)
class Hear:
    """Take up each extra that came with a resume and was not taken up yet, in order.

    For each of them make the mark that `SubstrateWork.extra` put into it. Two equal extras are two
    marks. If there is no extra, the step does nothing.
    """


@dataclass(frozen=True, slots=True)
class Fail:
    """Let the work fail, as a command does that ends with this exit code.

    No later step is done, and the Task ends in ``failure``.
    """

    code: int = 3
    """From 1 to 125."""


Step = Mark | Say | Hear | Fail
Script = tuple[Step, ...]


def tokens(script: Script) -> list[str]:
    """Return the tokens of the script's own marks, in order."""
    return [step.token for step in script if isinstance(step, Mark)]


def described(script: Script) -> str:
    """Return the script as one line, for a message."""
    return ", ".join(repr(step) for step in script)

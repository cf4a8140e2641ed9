"""Finding: the result of one check of the doctor."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from agentic_kernel_engine.checks import Check

from .kinds import install


@dataclass(frozen=True)
class Finding(Check):
    """The result of one check, and if the doctor fails by it."""

    needed: bool = True
    """True if a run needs it, if the person asked for it, or if an installed package is broken."""


def package(name: str, advice: str = "") -> Finding:
    """Check that a distribution is installed, and find its version."""
    try:
        return Finding(name, True, version(name))
    except PackageNotFoundError:
        return Finding(name, False, "not installed", advice or install("local"))

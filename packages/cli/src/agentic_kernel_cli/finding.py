"""Finding: one thing that the doctor looked at."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from .local import INSTALL


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    name: str
    ok: bool
    detail: str
    advice: str = ""
    """What to do when it is not ok."""
    needed: bool = True
    """Whether anything that was asked for depends on it."""


def package(name: str, advice: str = INSTALL) -> Finding:
    """Whether a distribution is installed, and in which version."""
    try:
        return Finding(name, True, version(name))
    except PackageNotFoundError:
        return Finding(name, False, "not installed", advice)

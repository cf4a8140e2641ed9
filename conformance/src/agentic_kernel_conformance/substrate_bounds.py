"""Bounds: the numbers within which a substrate keeps, as its author declares them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

After = Literal["repeated", "reported", "once"]
"""See `Bounds.after_crash`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The bounds of one substrate; the report names them. The defaults suit most substrates."""

    steps: int = 1
    """The most steps, the one in progress included, between a pause that is asked for and the
    ``paused`` Task. 1 or more."""
    after_crash: After = "reported"
    """Says what becomes of a mark if the process dies before the commit that settles it.

    ``repeated``: the next run makes it again (at least once). ``reported``: no run makes it again,
    unless the record says that its outcome is indeterminate (at most once). ``once``: it is made
    exactly once, whenever the process dies."""
    repeats: int = 1
    """For ``repeated``: the most marks that one crash makes the next run do again."""
    held: float = 1.0
    """Seconds for which the substrate may keep the event loop from running other tasks."""
    state: int = 16_384
    """The most bytes of a state that it commits, as JSON, for a script of the kit."""
    growth: int = 16
    """The most bytes by which the state grows with each step of a long script."""
    wait: float = 5.0
    """Seconds after a kill within which everything of the Task is gone."""

    def __post_init__(self) -> None:
        for name in ("steps", "repeats", "state"):
            if getattr(self, name) < 1:
                raise ValueError(f"Bounds.{name} is {getattr(self, name)}; it must be 1 or more")
        for name in ("held", "wait"):
            if not getattr(self, name) > 0:
                raise ValueError(f"Bounds.{name} is {getattr(self, name)}; it must be above 0")
        if self.growth < 0:
            raise ValueError(f"Bounds.growth is {self.growth}; it must be 0 or more")
        if self.after_crash not in ("repeated", "reported", "once"):
            raise ValueError(
                f"Bounds.after_crash is {self.after_crash!r}; use 'repeated', 'reported' or 'once'"
            )

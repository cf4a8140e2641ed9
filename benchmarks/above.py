"""Time above the model's own, if it is more than the noise of the two measurements."""

from __future__ import annotations

from typing import Final

LEAST: Final = 0.05
"""The least part of the whole time that is told from zero if the model's own was measured apart."""


def turns_per_second(turns: int, took: float, model: float, *, apart: bool) -> float | None:
    """Turns per second of the time above the model's own; None if that is within the noise.

    Args:
        took: Seconds of the turns.
        model: Seconds of the model in them.
        apart: True if the model's time was measured in a run of its own; then the noise of both
            runs is in the difference, and a difference near zero would give an absurd rate.
    """
    above = took - model
    if above <= (LEAST * took if apart else 0.0):
        return None
    return turns / above

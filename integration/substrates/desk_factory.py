"""The help desk's agent as a substrate: its policy, memory and principal, with the kit's script."""

from __future__ import annotations

from agentic_kernel_engine import Loop
from agentic_kernel_engine.seams.memories import InMemoryMemory

from ..products.helpdesk.duty import agent
from .following import LIMITS, Following, mark


def make() -> Loop:
    """The factory; one effect of the kit takes the place of the desk's tools."""
    return agent(Following(), [mark], InMemoryMemory(), LIMITS)

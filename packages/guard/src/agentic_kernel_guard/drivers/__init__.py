"""Drivers: what carries a call out, after the guard has allowed it."""

from .memory import InMemoryDriver
from .port import Driver, DriverCall, Indeterminate, NoEffect, Progress
from .router import StaticRouter
from .tools import ToolFailed, ToolsDriver

__all__ = [
    "Driver", "DriverCall", "InMemoryDriver", "Indeterminate", "NoEffect", "Progress",
    "StaticRouter", "ToolFailed", "ToolsDriver",
]  # fmt: skip

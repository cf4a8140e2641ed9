"""A Runtime for Claude: a Host whose Loop asks a model through the Messages API."""

from .planner import IMPL, ClaudePlanner
from .prices import PRICES
from .runtime import RUNTIME_KIND, ClaudeRuntime

__all__ = [
    "IMPL",
    "PRICES",
    "RUNTIME_KIND",
    "ClaudePlanner",
    "ClaudeRuntime",
]

"""A Runtime for Claude: a Host whose Loop asks a model through the Messages API."""

from .planner import IMPL, ClaudePlanner
from .planner import IMPL as RUNTIME_KIND
from .prices import PRICES
from .runtime import ClaudeRuntime

__all__ = ["IMPL", "PRICES", "RUNTIME_KIND", "ClaudePlanner", "ClaudeRuntime"]

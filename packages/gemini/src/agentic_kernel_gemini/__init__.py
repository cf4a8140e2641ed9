"""A Runtime for Gemini: a Host whose Loop asks a model through the Gemini API."""

from .planner import IMPL, GeminiPlanner
from .planner import IMPL as RUNTIME_KIND
from .prices import PRICES
from .runtime import GeminiRuntime

__all__ = ["IMPL", "PRICES", "RUNTIME_KIND", "GeminiPlanner", "GeminiRuntime"]

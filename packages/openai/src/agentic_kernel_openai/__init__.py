"""A Runtime for OpenAI's models, and for servers with an OpenAI-compatible API."""

from .chat import OpenAIChatPlanner
from .failures import IMPL as RUNTIME_KIND
from .planner import PlannerOptions
from .prices import PRICES
from .responses import OpenAIPlanner
from .runtime import OpenAIRuntime

__all__ = [
    "PRICES",
    "RUNTIME_KIND",
    "OpenAIChatPlanner",
    "OpenAIPlanner",
    "OpenAIRuntime",
    "PlannerOptions",
]

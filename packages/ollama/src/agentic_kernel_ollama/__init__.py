"""A Runtime for models of an Ollama server: a Host whose Loop asks one through ``/api/chat``."""

from .failures import IMPL
from .failures import IMPL as RUNTIME_KIND
from .planner import OllamaPlanner
from .runtime import OllamaRuntime

__all__ = ["IMPL", "RUNTIME_KIND", "OllamaPlanner", "OllamaRuntime"]

"""Models of an Ollama server as a Runtime: a Host whose Loop asks one by ``/api/chat``."""

from .failures import IMPL
from .planner import OllamaPlanner
from .runtime import RUNTIME_KIND, OllamaRuntime

__all__ = [
    "IMPL",
    "RUNTIME_KIND",
    "OllamaPlanner",
    "OllamaRuntime",
]

"""A Runtime for a language model in your own process: any GGUF file, through llama.cpp."""

from .failures import IMPL
from .loop import LocalLoop
from .model import MODEL_PACKAGE, MODEL_VARIABLE, find_model
from .planner import LocalPlanner
from .prompting import Example
from .runtime import RUNTIME_KIND, LocalRuntime

__all__ = [
    "IMPL",
    "MODEL_PACKAGE",
    "MODEL_VARIABLE",
    "RUNTIME_KIND",
    "Example",
    "LocalLoop",
    "LocalPlanner",
    "LocalRuntime",
    "find_model",
]

"""A Runtime for a language model in your own process: any GGUF file, through llama.cpp."""

from .model import MODEL_PACKAGE, MODEL_VARIABLE, find_model
from .options import AnswerOptions
from .planner import LocalPlanner
from .prompting import Example
from .runtime import RUNTIME_KIND, LocalRuntime
from .substrate import LocalSubstrate

__all__ = [
    "MODEL_PACKAGE",
    "MODEL_VARIABLE",
    "RUNTIME_KIND",
    "AnswerOptions",
    "Example",
    "LocalPlanner",
    "LocalRuntime",
    "LocalSubstrate",
    "find_model",
]

"""Middlewares that come with the engine."""

from .cache import Cache
from .fallback import Fallback
from .guardrail import Guardrail
from .recording import Attempt, Recorder, Recording, Replayer
from .retry import Retry
from .timeout import ToolTimeout
from .truncation import Truncation

__all__ = [
    "Attempt",
    "Cache",
    "Fallback",
    "Guardrail",
    "Recorder",
    "Recording",
    "Replayer",
    "Retry",
    "ToolTimeout",
    "Truncation",
]

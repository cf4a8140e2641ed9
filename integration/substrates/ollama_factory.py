"""Ollama's substrate: the factory."""

from __future__ import annotations

# The planner imports the SDK when it first needs it. Here the import comes before the workers are
# forked, because it takes up to three seconds.
import ollama  # noqa: F401

from agentic_kernel_engine import Loop
from agentic_kernel_ollama import OllamaPlanner

from .vendors import KEY, MODEL, looped


def make(url: str) -> Loop:
    """The factory."""
    return looped(OllamaPlanner(MODEL, host=url, api_key=KEY))

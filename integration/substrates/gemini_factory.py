"""Gemini's substrate: the factory."""

from __future__ import annotations

# The planner imports the SDK when it first needs it. Here the import comes before the workers are
# forked, because it takes up to three seconds.
import google.genai  # noqa: F401

from agentic_kernel_engine import Loop
from agentic_kernel_gemini import GeminiPlanner

from .vendors import KEY, MODEL, looped


def make(url: str) -> Loop:
    """The factory."""
    return looped(GeminiPlanner(MODEL, api_key=KEY, base_url=url))

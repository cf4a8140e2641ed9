"""Entry: what this package offers to `agentic_kernel_engine.discovery`."""

from typing import Final

from agentic_kernel_engine.api_entry import api_entry

from .planner import GeminiPlanner

PROVIDER: Final = api_entry(GeminiPlanner, "Gemini through Google's API")
"""The provider ``gemini``."""

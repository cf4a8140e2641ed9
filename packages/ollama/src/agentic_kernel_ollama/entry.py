"""Entry: what this package offers to `agentic_kernel_engine.discovery`."""

from typing import Final

from agentic_kernel_engine.api_entry import api_entry

from .planner import OllamaPlanner

PROVIDER: Final = api_entry(OllamaPlanner, "models of an Ollama server")
"""The provider ``ollama``."""

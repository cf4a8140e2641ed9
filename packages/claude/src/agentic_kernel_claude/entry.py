"""Entry: what this package offers to `agentic_kernel_engine.discovery`."""

from typing import Final

from agentic_kernel_engine.api_entry import api_entry

from .planner import ClaudePlanner

PROVIDER: Final = api_entry(ClaudePlanner, "Claude through the Messages API")
"""The provider ``claude``."""

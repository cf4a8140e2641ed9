"""Entry: what this package offers to `agentic_kernel_engine.discovery`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from agentic_kernel_engine.discovery import NoOptions, ProviderEntry
from agentic_kernel_engine.providers import ProviderPlanner

from .planner import LocalPlanner


def _planner(model: str, _: NoOptions) -> ProviderPlanner:
    return LocalPlanner(Path(model))


PROVIDER: Final = ProviderEntry(
    make=_planner, options=NoOptions, summary="a GGUF file in this process"
)
"""The provider ``local``; its model is a path."""

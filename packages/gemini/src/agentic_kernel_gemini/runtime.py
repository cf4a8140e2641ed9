"""GeminiRuntime: a Host whose Loop asks Gemini."""

from __future__ import annotations

from typing import Unpack

from agentic_kernel_engine import Store
from agentic_kernel_engine.providers import APIRuntime, ReadyOptions

from .planner import GeminiPlanner, PlannerOptions


class GeminiOptions(PlannerOptions, ReadyOptions, total=False):
    """Keyword arguments of `GeminiRuntime` for its planner, its Loop and its Host."""


class GeminiRuntime(APIRuntime):
    """A Runtime and a Query for Tasks that Gemini works on; see `APIRuntime`."""

    asks = GeminiPlanner

    def __init__(
        self, model: str, store: Store | None = None, **options: Unpack[GeminiOptions]
    ) -> None:
        super().__init__(model, store, options)

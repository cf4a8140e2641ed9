"""GeminiRuntime: a Host whose Loop asks Gemini."""

from __future__ import annotations

from typing import Final, Unpack

from agentic_kernel_engine import Store
from agentic_kernel_engine.providers import ProviderRuntime, RuntimeOptions, Toolset, parted

from .planner import GeminiPlanner, PlannerOptions

RUNTIME_KIND: Final = "gemini"
"""The ``runtime_kind`` of the Tasks that this runtime serves, unless it is given another."""


class GeminiOptions(PlannerOptions, RuntimeOptions, total=False):
    """Keyword arguments of `GeminiRuntime` for its planner, its Loop and its Host."""


class GeminiRuntime(ProviderRuntime):
    """A Runtime and a Query for Tasks that a model works on, through the Gemini API.

    Only dispatching a Task needs an API key. Without a ``store`` the Tasks are kept in memory. The
    keywords are those of `GeminiPlanner`, and `RuntimeOptions`.
    """

    inputs = GeminiPlanner.inputs

    def __init__(
        self,
        model: str,
        store: Store | None = None,
        *,
        tools: Toolset = (),
        runtime_kind: str = RUNTIME_KIND,
        **options: Unpack[GeminiOptions],
    ) -> None:
        mine, rest = parted(options)
        super().__init__(GeminiPlanner(model, **mine), runtime_kind, tools, store, rest)

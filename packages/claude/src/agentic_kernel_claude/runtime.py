"""ClaudeRuntime: a Host whose Loop asks Claude."""

from __future__ import annotations

from typing import Unpack

from agentic_kernel_engine import Store
from agentic_kernel_engine.providers import APIRuntime, ReadyOptions

from .planner import ClaudePlanner, PlannerOptions


class ClaudeOptions(PlannerOptions, ReadyOptions, total=False):
    """Keyword arguments of `ClaudeRuntime` for its planner, its Loop and its Host."""


class ClaudeRuntime(APIRuntime):
    """A Runtime and a Query for Tasks that a model works on, through the Messages API.

    See `APIRuntime`.

    Example:
        >>> async with ClaudeRuntime("claude-opus-5-5", tools=[weather]) as runtime:
        ...     done = await runtime.run("Why is the sky blue?")
        ...     print(done.unwrap())
    """

    asks = ClaudePlanner

    def __init__(
        self, model: str, store: Store | None = None, **options: Unpack[ClaudeOptions]
    ) -> None:
        super().__init__(model, store, options)

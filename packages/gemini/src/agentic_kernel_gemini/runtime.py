"""GeminiRuntime: a Host whose Loop asks Gemini."""

from __future__ import annotations

from typing import ClassVar, Final, Unpack

from agentic_kernel_engine import Store
from agentic_kernel_engine.inputs import Inputs
from agentic_kernel_engine.providers import ProviderRuntime, RuntimeOptions, Toolset, parted

from .planner import INPUTS, GeminiPlanner, PlannerOptions

RUNTIME_KIND: Final = "gemini"
"""The ``runtime_kind`` of the Tasks that this runtime serves, unless it is given another."""


class GeminiOptions(PlannerOptions, RuntimeOptions, total=False):
    """Keyword arguments of `GeminiRuntime` for its planner, its Loop and its Host."""


class GeminiRuntime(ProviderRuntime):
    """A Runtime and a Query for Tasks that a model works on, through the Gemini API.

    Reading and controlling Tasks needs no API key; dispatching a Task does.

    Args:
        model: Name of the model that works on the Tasks.
        store: Store of the Tasks; None keeps them in memory.
        tools: Tools that the model may call.
        runtime_kind: The kind of the Tasks that it serves.
        **options: The keywords of its planner, and `RuntimeOptions`.

    Raises:
        InvalidValue: A value is not valid; the error names it.
    """

    inputs: ClassVar[Inputs] = INPUTS
    """The parts of a Task that it takes; it refuses the others at dispatch."""

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

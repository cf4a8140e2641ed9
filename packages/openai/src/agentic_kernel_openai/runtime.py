"""OpenAIRuntime: a Host whose Loop asks a model through OpenAI's APIs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Unpack

from agentic_kernel import InvalidValue
from agentic_kernel_engine import Store
from agentic_kernel_engine.providers import ProviderRuntime, RuntimeOptions, Toolset, parted

from .chat import OpenAIChatPlanner
from .planner import PlannerOptions
from .responses import OpenAIPlanner

RUNTIME_KIND: Final = "openai"
"""The ``runtime_kind`` of the Tasks that this runtime serves, unless it is given another."""


class OpenAIOptions(PlannerOptions, RuntimeOptions, total=False):
    """Keyword arguments of `OpenAIRuntime` for its planner, its Loop and its Host."""

    reasoning: Mapping[str, Any] | None
    """See `OpenAIPlanner`."""
    reasoning_effort: str | None
    """See `OpenAIChatPlanner`, as for the next two."""
    seed: int | None
    stop: str | Sequence[str] | None


class OpenAIRuntime(ProviderRuntime):
    """A Runtime and a Query for Tasks of the kind ``openai``.

    The client is created when the first Task needs it, so reading and controlling Tasks needs no
    key.

    Args:
        model: Name of the model that works on the Tasks.
        store: Store of the Tasks; None keeps them in memory.
        tools: Tools that the model may call.
        api: ``responses``, or ``chat`` for a server that speaks only Chat Completions.
        runtime_kind: The kind of the Tasks that it serves.
        **options: See `PlannerOptions` and `RuntimeOptions`.

    Raises:
        InvalidValue: A value is not valid; the error names it.

    Example:
        >>> async with OpenAIRuntime("gpt-6-luna") as runtime:
        ...     done = await runtime.run("Why is the sky blue?")
        ...     print(done.unwrap())
    """

    inputs = OpenAIPlanner.inputs

    def __init__(
        self,
        model: str,
        store: Store | None = None,
        *,
        tools: Toolset = (),
        api: Literal["responses", "chat"] = "responses",
        runtime_kind: str = RUNTIME_KIND,
        **options: Unpack[OpenAIOptions],
    ) -> None:
        mine, rest = parted(options)
        planner: OpenAIPlanner | OpenAIChatPlanner
        if api == "responses":
            _refuse(mine, "reasoning_effort", 'is only for api="chat"; use reasoning={"effort": …}')
            planner = OpenAIPlanner(model, **mine)
        elif api == "chat":
            _refuse(mine, "reasoning", 'is only for api="responses"; use reasoning_effort=')
            planner = OpenAIChatPlanner(model, **mine)
        else:
            raise InvalidValue("api", 'must be "responses" or "chat"')
        super().__init__(planner, runtime_kind, tools, store, rest)
        self.inputs = planner.inputs


def _refuse(options: dict[str, Any], name: str, why: str) -> None:
    if options.pop(name, None) is not None:
        raise InvalidValue(name, why)

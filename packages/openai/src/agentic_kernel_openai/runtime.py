"""OpenAIRuntime: a Host whose Loop asks a model through OpenAI's APIs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, Unpack

from agentic_kernel import InvalidValue
from agentic_kernel_engine import Store, edges
from agentic_kernel_engine.providers import APIRuntime, ReadyOptions

from .chat import OpenAIChatPlanner
from .planner import OpenAIAPIPlanner, PlannerOptions
from .responses import OpenAIPlanner

_FOREIGN: Final = {
    "responses": ("reasoning_effort", 'is only for api="chat"; use reasoning={"effort": …}'),
    "chat": ("reasoning", 'is only for api="responses"; use reasoning_effort='),
}
"""By API: the keyword that only the other one has, and the message about it."""


class OpenAIOptions(PlannerOptions, ReadyOptions, total=False):
    """Keyword arguments of `OpenAIRuntime` for its planner, its Loop and its Host."""

    reasoning: Mapping[str, Any] | None
    """See `OpenAIPlanner`."""
    reasoning_effort: str | None
    """See `OpenAIChatPlanner`."""


class OpenAIRuntime(APIRuntime):
    """A Runtime and a Query for Tasks that a model works on, through OpenAI's APIs.

    See `APIRuntime`. ``api`` is ``chat`` for a server that speaks only Chat Completions.

    Example:
        >>> async with OpenAIRuntime("gpt-6-luna") as runtime:
        ...     done = await runtime.run("Why is the sky blue?")
        ...     print(done.unwrap())
    """

    asks: type[OpenAIAPIPlanner] = OpenAIPlanner

    def __init__(
        self,
        model: str,
        store: Store | None = None,
        *,
        api: Literal["responses", "chat"] = "responses",
        **options: Unpack[OpenAIOptions],
    ) -> None:
        edges.choice(api, "api", tuple(_FOREIGN))
        (foreign, why), given = _FOREIGN[api], dict(options)
        if given.pop(foreign, None) is not None:
            raise InvalidValue(foreign, why)
        if api == "chat":
            self.asks, self.inputs = OpenAIChatPlanner, OpenAIChatPlanner.inputs
        super().__init__(model, store, given)

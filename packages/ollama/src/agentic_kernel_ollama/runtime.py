"""OllamaRuntime: a Host whose Loop asks a model of an Ollama server."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Unpack

from agentic_kernel_engine import Store
from agentic_kernel_engine.inputs import Inputs
from agentic_kernel_engine.providers import Price, ProviderRuntime, RuntimeOptions, Toolset

from .planner import INPUTS, OllamaPlanner

if TYPE_CHECKING:
    from ollama import AsyncClient

RUNTIME_KIND: Final = "ollama"
"""The ``runtime_kind`` of the Tasks that this runtime serves, unless it is given another."""


class OllamaRuntime(ProviderRuntime):
    """A Runtime and a Query for Tasks that a model of an Ollama server works on.

    Reading and controlling Tasks needs no server; dispatching a Task does.

    Example:
        >>> async with OllamaRuntime("qwen3:8b", tools=[weather]) as runtime:
        ...     done = await runtime.run(
        ...         Task.new(summary="", instructions="Will it rain?", runtime_kind="ollama")
        ...     )
        ...     print(done.result)
    """

    inputs: ClassVar[Inputs] = INPUTS
    """The parts of a Task that it takes; it refuses the others at dispatch."""

    def __init__(
        self,
        model: str,
        store: Store | None = None,
        *,
        tools: Toolset = (),
        host: str | None = None,
        api_key: str | None = None,
        client: AsyncClient | None = None,
        timeout: float = 120.0,
        max_tokens: int = 4096,
        temperature: float | None = None,
        system: str | None = None,
        tool_choice: str = "auto",
        stream: bool = True,
        offers: Collection[str] = (),
        prices: Mapping[str, Price] | None = None,
        context_tokens: int | None = None,
        parallel_tool_calls: bool = True,
        think: bool | str | None = None,
        keep_alive: float | str | None = None,
        options: Mapping[str, Any] = {},
        pull: bool = False,
        runtime_kind: str = RUNTIME_KIND,
        **more: Unpack[RuntimeOptions],
    ) -> None:
        """Check the options; import, open and ask nothing yet.

        Args:
            model: See `OllamaPlanner`, as for all options that are not listed here.
            store: Store of the Tasks; None keeps them in memory.
            tools: Tools that the model may call; see `Loop`.
            runtime_kind: The kind of the Tasks that it serves.
            **more: See `RuntimeOptions`.

        Raises:
            InvalidValue: A value is out of range or of the wrong type; the error names it.
        """
        planner = OllamaPlanner(
            model,
            host=host,
            api_key=api_key,
            client=client,
            timeout=timeout,
            max_tokens=max_tokens,
            temperature=temperature,
            system=system,
            tool_choice=tool_choice,
            stream=stream,
            offers=offers,
            prices=prices,
            context_tokens=context_tokens,
            parallel_tool_calls=parallel_tool_calls,
            think=think,
            keep_alive=keep_alive,
            options=options,
            pull=pull,
        )
        super().__init__(planner, runtime_kind, tools, store, more)

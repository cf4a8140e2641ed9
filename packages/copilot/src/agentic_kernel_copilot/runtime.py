"""CopilotRuntime: a Host that runs Tasks on the Copilot CLI."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, Final, Unpack

from copilot.session import MCPServerConfig, ProviderConfig, SystemMessageConfig

from agentic_kernel_engine import HostOptions, Limits, ReadyRuntime, Store
from agentic_kernel_engine.inputs import Inputs
from agentic_kernel_engine.loop import Principal
from agentic_kernel_engine.principal import NOBODY
from agentic_kernel_engine.providers import Price
from agentic_kernel_engine.seams import OutputType, Policy, Tool, Validator

from .substrate import INPUTS, CopilotSubstrate, OnKill, new_uuid

RUNTIME_KIND: Final = "copilot"
"""The ``runtime_kind`` of the Tasks that this runtime serves."""


class CopilotRuntime(ReadyRuntime):
    """A Runtime and a Query for Tasks of the kind ``copilot``; see `CopilotSubstrate`.

    The CLI starts when the first Task needs it and ends with the Host, so reading and controlling
    Tasks needs no CLI.

    Example:
        >>> async with CopilotRuntime(model="gpt-5") as runtime:
        ...     done = await runtime.run("Why is the sky blue?")
        ...     print(done.unwrap())
    """

    inputs: ClassVar[Inputs] = INPUTS
    """The parts of a Task that it takes; it refuses the others at dispatch."""

    def __init__(
        self,
        store: Store | None = None,
        *,
        model: str | None = None,
        provider: ProviderConfig | None = None,
        offline: bool = False,
        timeout: float = 120.0,
        tools: Sequence[Tool | Callable[..., Any]] = (),
        allowed_tools: Collection[str] = (),
        mcp_servers: Mapping[str, MCPServerConfig] | None = None,
        system_message: str | SystemMessageConfig | None = None,
        policy: Policy | None = None,
        limits: Limits | None = None,
        prices: Mapping[str, Price] | None = None,
        output_schema: Mapping[str, Any] | None = None,
        output_type: type[Any] | None = None,
        principal: Principal = NOBODY,
        validator: Validator | None = None,
        timer: Callable[[], float] = time.monotonic,
        ids: Callable[[], str] = new_uuid,
        on_kill: OnKill = "keep",
        working_directory: str | os.PathLike[str] | None = None,
        home: str | os.PathLike[str] | None = None,
        cli_path: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        **options: Unpack[HostOptions],
    ) -> None:
        """Configure the runtime; it starts nothing yet.

        Args:
            store: Keeps the Tasks; None for memory.
            model: See `CopilotSubstrate`, as for all that follow.
            provider: See `CopilotSubstrate`.
            offline: See `CopilotSubstrate`.
            timeout: See `CopilotSubstrate`.
            tools: See `CopilotSubstrate`.
            allowed_tools: See `CopilotSubstrate`.
            mcp_servers: See `CopilotSubstrate`.
            system_message: See `CopilotSubstrate`.
            policy: See `CopilotSubstrate`.
            limits: See `CopilotSubstrate`.
            prices: See `CopilotSubstrate`.
            output_schema: See `CopilotSubstrate`.
            output_type: See `CopilotSubstrate`.
            principal: See `CopilotSubstrate`.
            validator: See `CopilotSubstrate`.
            timer: See `CopilotSubstrate`.
            ids: See `CopilotSubstrate`.
            on_kill: See `CopilotSubstrate`.
            working_directory: See `CopilotSubstrate`.
            home: See `CopilotSubstrate`.
            cli_path: See `CopilotSubstrate`.
            env: See `CopilotSubstrate`.
            **options: See `Host`.

        Raises:
            InvalidValue: A value is not accepted; the message names it.
        """
        self.substrate = CopilotSubstrate(
            model=model,
            provider=provider,
            offline=offline,
            timeout=timeout,
            tools=tools,
            allowed_tools=allowed_tools,
            mcp_servers=mcp_servers,
            system_message=system_message,
            policy=policy,
            limits=limits,
            prices=prices,
            output_schema=output_schema,
            output_type=output_type,
            principal=principal,
            validator=validator,
            timer=timer,
            ids=ids,
            on_kill=on_kill,
            working_directory=working_directory,
            home=home,
            cli_path=cli_path,
            env=env,
        )
        self._output_type = self.substrate.output_type
        super().__init__(self.substrate, store, runtime_kinds=[RUNTIME_KIND], **options)

    def _expect(self, task_id: str, wanted: OutputType[Any] | None) -> None:
        if wanted is None:
            self.substrate.expected.pop(task_id, None)
        else:
            self.substrate.expected[task_id] = wanted

    async def close(self) -> None:
        """`Host.close`, then end the CLI."""
        try:
            await super().close()
        finally:
            await self.substrate.close()

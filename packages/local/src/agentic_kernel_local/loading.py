"""LocalModel: which model to use and how, loaded when it is first needed."""

from __future__ import annotations

import asyncio
import os
from typing import Final

from agentic_kernel import InvalidValue
from agentic_kernel_engine import edges

from .engine import Engine, EngineOptions, half_the_processors
from .model import checked_path, find_model
from .options import MOST_TOKENS

MOST_SLOTS: Final = 4_096
"""How many slots, or threads, one model may have."""


class LocalModel:
    """One user's hold on an `Engine`; nothing is loaded before `open`.

    Args:
        model_path: A GGUF file; see `find_model` for what is used if None.
        slots: Answers generated at once; more of them wait their turn.
        context_tokens: Room for one prompt and its answer.
        threads: Threads that compute; half as many as there are processors if None.

    Raises:
        InvalidValue: A number is out of range; it is named.
    """

    def __init__(
        self,
        model_path: str | os.PathLike[str] | None,
        slots: int,
        context_tokens: int,
        threads: int | None,
    ) -> None:
        self._model_path = None if model_path is None else checked_path(model_path)
        self._slots = edges.whole(slots, "slots", 1, MOST_SLOTS)
        self._context_tokens = edges.whole(context_tokens, "context_tokens", 1, MOST_TOKENS)
        if slots * context_tokens > MOST_TOKENS:
            raise InvalidValue(
                "context_tokens",
                f"makes {slots * context_tokens:,} tokens with {slots} slots, and the limit is "
                f"{MOST_TOKENS:,}; use less of one of them",
            )
        self._threads = None if threads is None else edges.whole(threads, "threads", 1, MOST_SLOTS)
        self._engine: Engine | None = None
        self._opening = asyncio.Lock()

    async def open(self) -> Engine:
        """The loaded model; loads it if need be.

        Raises:
            CannotStart: There is no model, or it cannot be loaded; says what to do.
        """
        async with self._opening:
            if self._engine is None:
                self._engine = await Engine.open(
                    EngineOptions(
                        find_model(self._model_path),
                        self._slots,
                        self._context_tokens,
                        half_the_processors() if self._threads is None else self._threads,
                    )
                )
            return self._engine

    async def close(self) -> None:
        """Let go of the model; it is freed when nobody in this process uses it."""
        async with self._opening:
            engine, self._engine = self._engine, None
            if engine is not None:
                await engine.close()

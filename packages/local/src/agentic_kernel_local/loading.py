"""LocalModel: which model to use and how, loaded when it is first needed."""

from __future__ import annotations

import asyncio
import os

from agentic_kernel import InvalidValue

from .engine import Engine, EngineOptions, half_the_processors
from .model import find_model


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
        for name, value in (
            ("slots", slots),
            ("context_tokens", context_tokens),
            ("threads", 1 if threads is None else threads),
        ):
            if type(value) is not int or value < 1:
                raise InvalidValue(name, "must be a whole number of at least 1")
        self._model_path = model_path
        self._slots = slots
        self._context_tokens = context_tokens
        self._threads = threads
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

"""Engine: a model loaded by llama.cpp in this process, shared by all that ask for the same one."""

from __future__ import annotations

import asyncio
import atexit
import os
import secrets
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from agentic_kernel import CannotStart

from .generation import Generation
from .slots import Slots

PROMPT_BATCH: Final = 256
"""Tokens of a prompt that are read between two chances to stop."""
LOOK: Final = 0.5
"""Seconds between two looks at whether a request that waits for a slot is still wanted."""
READ_AHEAD: Final = 4 * 1024 * 1024
"""Bytes of the model file read at once before it is loaded."""


def half_the_processors() -> int:
    """How many threads compute unless told otherwise: half as many as there are processors.

    llama.cpp's threads spin while they wait for each other. With a thread on each of two
    processors, a busy neighbour slowed 40 tokens from 0.4 s to 3–13 s; with one thread, from 0.5 s
    to 0.8 s.
    """
    return max(1, (os.cpu_count() or 1) // 2)


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What makes two engines the same one."""

    model: Path
    """Real path of the GGUF file."""
    slots: int = 4
    """Answers generated at once; more of them wait."""
    context_tokens: int = 4096
    """Prompt and answer of one Task, in tokens; each slot has that much of its own, so that no
    Task can take room from another (clause 1)."""
    threads: int = field(default_factory=half_the_processors)
    """Threads that compute."""


@dataclass(frozen=True, slots=True)
class Request:
    """One answer to be generated."""

    messages: Sequence[Mapping[str, str]]
    """The conversation; an assistant's message at its end is continued where it breaks off."""
    max_tokens: int
    """Tokens to generate at most; llama.cpp has no bound of its own."""
    temperature: float = 0.0
    """0 takes the likeliest token each time: the same request gets the same answer."""
    seed: int | None = None
    """For a temperature above 0; random if None."""
    schema: Mapping[str, Any] | None = None
    """JSON Schema that every complete answer fits: decoding is constrained to it."""


class Engine:
    """A loaded model that serves up to ``options.slots`` requests at once.

    Got by `open` and let go by `close`; loaded by the first user and freed by the last one, or
    when the interpreter exits.
    """

    def __init__(self, options: EngineOptions) -> None:
        """Load the model, which takes seconds; use `open`.

        Raises:
            CannotStart: llama.cpp cannot load it.
        """
        self.options = options
        self.api_key = secrets.token_urlsafe(32)
        self._server = _load(options, self.api_key)
        self._slots = Slots(options.slots)
        self._lock = threading.Lock()
        self._running: set[Generation] = set()

    @property
    def address(self) -> str:
        """Where llama.cpp listens: even in process it opens a port, on the loopback only.

        It answers nobody without the random ``api_key`` of this process.
        """
        return str(self._server.listening_address)

    @classmethod
    async def open(cls, options: EngineOptions) -> Engine:
        """The process's engine for these options; loaded if nobody has it open.

        Loading happens in a thread, yet the binding holds the interpreter's lock for most of it:
        the whole process stands still, for about half a second with the small model.

        Raises:
            CannotStart: The model cannot be loaded.
        """
        with _lock:
            entry = _open.get(options)
            if entry is None:
                entry = _open[options] = _Entry()
                threading.Thread(
                    target=entry.load, args=(options,), name="local-model-load"
                ).start()
            entry.users += 1
        try:
            return await asyncio.shield(asyncio.wrap_future(entry.loaded))
        except BaseException:
            entry.leave(options)
            raise

    async def close(self) -> None:
        """Let go; the last user's call returns when the model is freed."""
        if _open[self.options].leave(self.options):
            await asyncio.to_thread(self._free)

    @asynccontextmanager
    async def generate(
        self, request: Request, waiting: Callable[[], Awaitable[object]] | None = None
    ) -> AsyncIterator[Generation]:
        """Generate one answer as soon as a slot is free; leaving the block stops it.

        The slot is free again once the model has really stopped, which may be a moment after the
        block was left.

        Args:
            waiting: Awaited now and then as long as no slot is free; may raise to give up.
        """
        await self._take_slot(waiting)
        generation = Generation(
            self._server.handle_chat_completions, _body(request), lambda: self._ended(generation)
        )
        try:
            # In this order and under the lock, so that whoever is found running can be joined.
            with self._lock:
                generation.start()
                self._running.add(generation)
        except BaseException:
            self._slots.give()
            raise
        try:
            yield generation
        finally:
            generation.stop()

    async def _take_slot(self, waiting: Callable[[], Awaitable[object]] | None) -> None:
        ticket = self._slots.take()
        if ticket.done():
            return
        try:
            turn = asyncio.wrap_future(ticket)
            while not turn.done():
                await asyncio.wait({turn}, timeout=LOOK)
                if waiting is not None and not turn.done():
                    await waiting()
        except BaseException:
            self._slots.withdraw(ticket)
            raise

    def _ended(self, generation: Generation) -> None:
        with self._lock:
            self._running.discard(generation)
        self._slots.give()

    def _free(self) -> None:
        with self._lock:
            running = list(self._running)
        for generation in running:
            generation.stop()
        for generation in running:
            generation.thread.join()
        self._server = None


class _Entry:
    """One engine of this process and how many have it open."""

    def __init__(self) -> None:
        self.users = 0
        self.loaded: Future[Engine] = Future()

    def load(self, options: EngineOptions) -> None:
        try:
            engine = Engine(options)
        except BaseException as error:
            with _lock:
                # Whoever asks next tries again: the file may have been mended.
                if _open.get(options) is self:
                    del _open[options]
            self.loaded.set_exception(error)
        else:
            self.loaded.set_result(engine)

    def leave(self, options: EngineOptions) -> bool:
        """One user less; True if it was the last."""
        with _lock:
            self.users -= 1
            if self.users or _open.get(options) is not self:
                return False
            del _open[options]
            return True


_lock = threading.Lock()
_open: dict[EngineOptions, _Entry] = {}


@atexit.register
def _free_all() -> None:
    # An interpreter that exits past a thread inside llama.cpp aborts, so what still runs is
    # stopped and joined while the interpreter is whole.
    with _lock:
        entries = list(_open.values())
        _open.clear()
    for entry in entries:
        if entry.loaded.exception() is None:
            entry.loaded.result()._free()


def _load(options: EngineOptions, api_key: str) -> Any:
    import xllamacpp  # 30 MB: not before a model is wanted

    _read_ahead(options.model)
    params = xllamacpp.CommonParams()
    params.model.path = str(options.model)
    # HTTP clients see this name, not the path.
    params.model_alias = {options.model.stem}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [api_key]
    # And no web page may read its answers.
    params.cors_origins = ""
    params.ui = False
    params.endpoint_slots = False
    params.verbosity = -1
    params.n_parallel = options.slots
    params.n_ctx = options.slots * options.context_tokens
    params.n_batch = params.n_ubatch = PROMPT_BATCH
    # A cache of earlier prompts would grow to gigabytes beside the slots' own.
    params.cache_ram_mib = 0
    params.cache_idle_slots = False
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options.threads
    try:
        server = xllamacpp.Server(params)
        # A server that is freed before its loop has begun never ends, and holds the interpreter's
        # lock meanwhile. One answered request shows that the loop runs.
        server.handle_completions({"prompt": "a", "max_tokens": 1})
        return server
    except RuntimeError as error:
        raise CannotStart(
            f"llama.cpp cannot load the model {ascii(str(options.model))}; check that the file "
            "is complete, that its architecture is supported by the installed xllamacpp, and that "
            f"{options.slots} slots of {options.context_tokens} tokens fit in memory"
        ) from error


def _read_ahead(model: Path) -> None:
    # The binding holds the interpreter's lock while it loads. Reading the file first, which does
    # not, keeps a cold disk from holding up the event loop.
    buffer = bytearray(READ_AHEAD)
    try:
        with model.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
    except OSError as error:
        raise CannotStart(
            f"the model {ascii(str(model))} cannot be read ({error.strerror or error})"
        ) from error


def _body(request: Request) -> Mapping[str, Any]:
    body: dict[str, Any] = {
        "messages": [dict(message) for message in request.messages],
        "stream": True,
        "stream_options": {"include_usage": True},
        # Without it nothing is called back while a prompt is read, and nothing can stop it.
        "return_progress": True,
        "timings_per_token": True,
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        # A model that thinks first cannot go on with an answer that is already begun.
        "reasoning_format": "none",
        "chat_template_kwargs": {"enable_thinking": False},
    }
    if request.seed is not None:
        body["seed"] = request.seed
    if request.schema is not None:
        form = {"name": "answer", "schema": request.schema}
        body["response_format"] = {"type": "json_schema", "json_schema": form}
    return body

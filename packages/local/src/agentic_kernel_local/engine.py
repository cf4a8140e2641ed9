"""Engine: a model that llama.cpp loaded in this process, shared by all users of equal options."""

from __future__ import annotations

import asyncio
import atexit
import os
import secrets
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from agentic_kernel import CannotStart

from .generation import Generation, Item, Prompt
from .slots import Slots

PROMPT_BATCH: Final = 256
"""Tokens of a prompt that are read between two callbacks; only a callback can stop the reading."""
LOOK: Final = 0.5
"""Seconds between two signs of life of a request that waits for a slot."""
READ_AHEAD: Final = 4 * 1024 * 1024
"""Bytes of each read of the model file before it is loaded."""


def half_the_processors() -> int:
    """Return the default number of computing threads: half the number of processors.

    llama.cpp's threads spin while they wait for each other. With a thread on each of two
    processors, another busy process slowed 40 tokens from 0.4 s to 3–13 s; with one thread, from
    0.5 s to 0.8 s.
    """
    return max(1, (os.cpu_count() or 1) // 2)


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Options of an engine; the process has one engine for equal options."""

    model: Path
    """Real path of the GGUF file."""
    slots: int = 4
    """Answers generated at once; further ones wait."""
    context_tokens: int = 4096
    """Tokens for the prompt and the answer of one Task. Each slot has its own tokens, so that no
    Task can take room from another (clause 1)."""
    threads: int = field(default_factory=half_the_processors)
    """Number of computing threads."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request for one answer."""

    messages: Sequence[Mapping[str, str]]
    """The conversation; the model continues an assistant's message at its end."""
    max_tokens: int
    """The most tokens to generate; llama.cpp has no bound of its own."""
    temperature: float | None = 0.0
    """0 takes the likeliest token each time. llama.cpp's numbers differ a little with the part of
    the prompt that it still knows, so where two tokens are nearly equal it may take either. None
    for llama.cpp's default."""
    seed: int | None = None
    """Seed for a temperature above 0; random if None."""
    top_p: float | None = None
    """The part of the probability that tokens are sampled from; None for llama.cpp's default."""
    stop: Sequence[str] = ()
    """Texts at which the answer ends, without the text itself."""
    schema: Mapping[str, Any] | None = None
    """JSON Schema that every complete answer fits: decoding is constrained to it."""


class Engine:
    """A loaded model that serves up to ``options.slots`` requests at once.

    `open` returns one and `close` gives it back. The first user loads the model; the last user, or
    the exit of the interpreter, frees it.
    """

    def __init__(self, options: EngineOptions) -> None:
        """Load the model, which takes seconds; callers use `open` instead.

        Raises:
            CannotStart: llama.cpp cannot load it.
        """
        self.options = options
        self.api_key = secrets.token_urlsafe(32)
        self._server = _load(options, self.api_key)
        self._slots = Slots(options.slots)
        self._lock = threading.Lock()
        self._running: set[Generation] = set()
        with _lock:
            _loaded.add(self)

    @property
    def address(self) -> str:
        """The address of llama.cpp's server, which opens a port even in process, on loopback only.

        The server refuses every request without the random ``api_key`` of this process.
        """
        return str(self._server.listening_address)

    @classmethod
    async def open(cls, options: EngineOptions) -> Engine:
        """Return the process's engine for these options; load the model if no user has it open.

        A thread loads the model, but the binding holds the GIL for most of that time: the whole
        process stops, for about half a second with the small model.

        Raises:
            CannotStart: The model cannot be loaded.
        """
        begin = False
        with _lock:
            entry = _open.get(options)
            if entry is None:
                entry = _open[options] = _Entry()
                begin = True
            entry.users += 1
        if begin:
            _in_thread(partial(entry.load, options), "local-model-load")
        try:
            return await asyncio.shield(asyncio.wrap_future(entry.loaded))
        except BaseException:
            entry.leave(options)
            raise

    async def close(self) -> None:
        """Give the engine back; the last user's call returns when the model is freed."""
        if _open[self.options].leave(self.options):
            freed = _in_thread(self._free, "local-model-free")
            await asyncio.shield(asyncio.wrap_future(freed))

    def generate(self, request: Request) -> aclosing[AsyncGenerator[Item, None]]:
        """Generate one answer as soon as a slot is free; leaving the block stops the model.

        Until then, a `Prompt` without tokens comes every `LOOK` seconds. The slot becomes free
        after the model has stopped, possibly a moment after the block ends.
        """
        return aclosing(self._items(request))

    async def _items(self, request: Request) -> AsyncGenerator[Item, None]:
        ticket = self._slots.take()
        if not ticket.done():
            try:
                turn = asyncio.wrap_future(ticket)
                while not turn.done():
                    await asyncio.wait({turn}, timeout=LOOK)
                    if not turn.done():
                        yield Prompt(0, 0)
            except BaseException:
                self._slots.withdraw(ticket)
                raise
        generation = Generation(
            self._server.handle_chat_completions, _body(request), lambda: self._ended(generation)
        )
        try:
            # In this order and under the lock: `_free` joins each running thread, so it must have
            # been started.
            with self._lock:
                generation.start()
                self._running.add(generation)
        except BaseException:
            self._slots.give()
            raise
        try:
            async for item in generation:
                yield item
        finally:
            generation.stop()

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
        with _lock:
            _loaded.discard(self)


class _Entry:
    """One engine of this process, and the number of its users."""

    def __init__(self) -> None:
        self.users = 0
        self.loaded: Future[Engine] = Future()

    def load(self, options: EngineOptions) -> None:
        try:
            engine = Engine(options)
        except BaseException as error:
            with _lock:
                # The next call of `open` loads again, because the file may have been repaired.
                if _open.get(options) is self:
                    del _open[options]
            self.loaded.set_exception(error)
        else:
            self.loaded.set_result(engine)

    def leave(self, options: EngineOptions) -> bool:
        """Remove one user; return True if it was the last."""
        with _lock:
            self.users -= 1
            if self.users or _open.get(options) is not self:
                return False
            del _open[options]
            return True


_lock = threading.Lock()
_open: dict[EngineOptions, _Entry] = {}
_loaded: set[Engine] = set()
"""The engines that are not freed yet. One that is being freed is in no entry any more."""


def _in_thread(work: Callable[[], None], name: str) -> Future[None]:
    """Run the work in a thread of its own; here, if the interpreter starts no thread any more.

    `asyncio.to_thread` would refuse the work as soon as the main thread has ended.
    """
    done: Future[None] = Future()

    def run() -> None:
        try:
            work()
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(None)

    try:
        threading.Thread(target=run, name=name).start()
    except RuntimeError:
        run()
    return done


@atexit.register
def _free_all() -> None:
    # The process aborts if the interpreter exits while a thread runs inside llama.cpp. So all
    # running threads are stopped and joined here, while the interpreter still works.
    with _lock:
        entries = list(_open.values())
        _open.clear()
    for entry in entries:
        entry.loaded.exception()  # A model that is being loaded cannot be stopped.
    for engine in list(_loaded):
        engine._free()


def _load(options: EngineOptions, api_key: str) -> Any:
    import xllamacpp  # 30 MB, so it is imported only to load a model

    _read_ahead(options.model)
    params = xllamacpp.CommonParams()
    params.model.path = str(options.model)
    # HTTP clients see this name instead of the path.
    params.model_alias = {options.model.stem}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [api_key]
    # No web page may read the server's answers.
    params.cors_origins = ""
    params.ui = False
    params.endpoint_slots = False
    params.verbosity = -1
    params.n_parallel = options.slots
    params.n_ctx = options.slots * options.context_tokens
    params.n_batch = params.n_ubatch = PROMPT_BATCH
    # A cache of earlier prompts would grow to gigabytes, in addition to the slots' own memory.
    params.cache_ram_mib = 0
    params.cache_idle_slots = False
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options.threads
    try:
        server = xllamacpp.Server(params)
        # A server that is freed before its loop has begun never ends, and keeps holding the GIL.
        # One answered request shows that the loop runs.
        server.handle_completions({"prompt": "a", "max_tokens": 1})
        return server
    except RuntimeError as error:
        raise CannotStart(
            f"llama.cpp cannot load the model {ascii(str(options.model))}; check that the file "
            "is complete, that its architecture is supported by the installed xllamacpp, and that "
            f"{options.slots} slots of {options.context_tokens} tokens fit in memory"
        ) from error


def _read_ahead(model: Path) -> None:
    # The binding holds the GIL while it loads. Reading the file first, without the GIL, fills the
    # page cache, so that a slow disk does not block the event loop.
    buffer = bytearray(READ_AHEAD)
    try:
        with model.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
    except OSError as error:
        raise CannotStart(
            f"the model {ascii(str(model))} cannot be read ({error.strerror or error}); check the "
            "path and its permissions"
        ) from error


def _body(request: Request) -> Mapping[str, Any]:
    body: dict[str, Any] = {
        "messages": [dict(message) for message in request.messages],
        "stream": True,
        "stream_options": {"include_usage": True},
        # Without this there is no callback while a prompt is read, so it could not be stopped.
        "return_progress": True,
        "timings_per_token": True,
        "max_tokens": request.max_tokens,
        # A model that thinks first cannot continue an answer that has already begun.
        "reasoning_format": "none",
        "chat_template_kwargs": {"enable_thinking": False},
    }
    if request.top_p is not None:
        body["top_p"] = request.top_p
    if request.stop:
        body["stop"] = list(request.stop)
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.seed is not None:
        body["seed"] = request.seed
    if request.schema is not None:
        form = {"name": "answer", "schema": request.schema}
        body["response_format"] = {"type": "json_schema", "json_schema": form}
    return body

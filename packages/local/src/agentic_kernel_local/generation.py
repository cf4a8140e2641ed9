"""Generation: one streamed answer in a thread of its own, which the event loop can stop.

llama.cpp invokes a callback for every piece and for every batch of the prompt. The callback's
return value is the only way to stop it. So a thread runs the call, and the callback passes each
piece to the event loop and checks a flag. The thread stops by itself if the event loop is closed.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agentic_kernel_engine import TaskFailed

from . import failures


@dataclass(frozen=True, slots=True)
class Prompt:
    """Progress of reading the prompt."""

    processed: int
    """Tokens read so far."""
    tokens: int
    """Tokens of the whole prompt; 0 as long as the request waits for a slot."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The next piece of the answer."""

    text: str
    tokens: int
    """Tokens generated so far, with those of this piece; a piece may have several."""


@dataclass(frozen=True, slots=True)
class End:
    """The end of the answer."""

    reason: str
    """``stop``: the model ended the answer; ``length``: a limit ended it."""
    tokens: int
    """Tokens generated, with an invisible end token."""


Item = Prompt | Piece | End
Call = Callable[[Mapping[str, Any], Callable[[Any], bool]], object]
"""The binding's blocking call: a request and a callback that stops it by returning True."""


class Generation:
    """An asynchronous iterator over one answer: `Prompt`, then `Piece`, then one `End`.

    Leaving the iteration early does not stop the model; `stop` does, and the iteration then ends
    without an `End`. The iteration raises an exception of the callback, which llama.cpp would hide.

    Raises:
        TaskFailed: From the iteration, if the model failed.
    """

    def __init__(self, call: Call, request: Mapping[str, Any], ended: Callable[[], None]) -> None:
        """Prepare a generation for the running event loop.

        Args:
            call: Runs the request.
            request: The request to the binding, in the form of llama.cpp's HTTP interface.
            ended: Called in the generation's thread after the call has ended, in any way.
        """
        self._call = call
        self._request = request
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._reader = ChunkReader()
        self._items: deque[Item | Exception] = deque()
        self._arrived = asyncio.Event()
        self._announced = False
        self._stopped = False
        self._fault: Exception | None = None
        # A daemon thread, so that the interpreter's exit does not wait for the whole answer. The
        # engine stops and joins it at exit, because an exit with the thread running aborts.
        self.thread = threading.Thread(target=self._run, name="local-generation", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        """Ask the model to stop at its next piece, or its next batch of the prompt; idempotent."""
        self._stopped = True

    def __aiter__(self) -> Generation:
        return self

    async def __anext__(self) -> Item:
        while not self._items:
            if self._stopped:
                raise StopAsyncIteration
            await self._arrived.wait()
            self._arrived.clear()
            self._announced = False
        item = self._items.popleft()
        if isinstance(item, Piece | Prompt):
            return item
        self._stopped = True
        if isinstance(item, Exception):
            raise item
        return item

    def _run(self) -> None:
        try:
            self._call(self._request, self._receive)
            if self._fault is not None:
                self._hand_over(self._fault)
            elif not self._stopped:
                self._hand_over(self._reader.end())
        except TaskFailed as failure:
            self._hand_over(failure)
        except Exception as error:
            self._hand_over(failures.raised(error))
        finally:
            self._ended()
            self._wake()

    def _receive(self, chunk: Any) -> bool:
        """Take one chunk; True stops the model."""
        try:
            item = self._reader.read(chunk)
            if item is not None:
                self._hand_over(item)
        except Exception as error:
            self._fault = error
            return True
        return self._stopped or self._loop.is_closed()

    def _hand_over(self, item: Item | Exception) -> None:
        self._items.append(item)
        self._wake()

    def _wake(self) -> None:
        # One wake-up serves all items that arrive before the event loop handles it.
        if not self._announced:
            self._announced = True
            try:
                self._loop.call_soon_threadsafe(self._arrived.set)
            except RuntimeError:
                self._stopped = True  # The event loop is closed, so no reader will come.


class ChunkReader:
    """Reads the chunks of one streamed chat completion; refuses a chunk that it does not know."""

    def __init__(self) -> None:
        self._reason: str | None = None
        self._tokens = 0
        self._total: int | None = None

    def read(self, chunk: Any) -> Item | None:
        """Return the item in a chunk; None if it has none.

        Raises:
            TaskFailed: The chunk reports an error, or is malformed.
        """
        if isinstance(chunk, Mapping) and "error" in chunk:
            raise failures.reported(chunk["error"])
        try:
            if not chunk["choices"]:
                self._total = _count(chunk["usage"]["completion_tokens"])
                return None
            choice = chunk["choices"][0]
            if choice["finish_reason"] is not None:
                self._reason = _reason(choice["finish_reason"])
                return None
            if "prompt_progress" in chunk:
                progress = chunk["prompt_progress"]
                return Prompt(_count(progress["processed"]), _count(progress["total"]))
            content = choice["delta"].get("content")
            if content is None:
                return None
            # Text that llama.cpp held back until the end comes without a count.
            if "timings" in chunk:
                self._tokens = _count(chunk["timings"]["predicted_n"])
            # No store accepts NUL.
            return Piece(_text(content).replace("\0", "\ufffd"), self._tokens)
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise failures.malformed("a chunk that is not a part of an answer", chunk) from error

    def end(self) -> End:
        """Return the end of the answer.

        Raises:
            TaskFailed: The stream stopped without a reason or a usage.
        """
        if self._reason is None or self._total is None:
            raise failures.malformed("an answer without an end", None)
        return End(self._reason, self._total)


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise TypeError(f"{value!r} is not a count")
    return value


def _reason(value: Any) -> str:
    if value not in ("stop", "length"):
        raise TypeError(f"{value!r} is not a reason to end")
    return str(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value

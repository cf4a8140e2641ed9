"""The connection between a worker process and the process that holds the store: calls both ways."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import Any, Final

import msgspec

from agentic_kernel import CannotStart, InvalidValue, TaskExists, TaskNotFound
from agentic_kernel_engine import Conflict, HostGone, StoreError, UnknownOutcome

Answer = Callable[[str, Sequence[Any]], Awaitable[Any]]
"""Does a call of the other side: its name and its arguments."""

_REQUEST, _RESULT, _ERROR = range(3)
_ERRORS: Final[dict[str, Callable[..., Exception]]] = {
    "CannotStart": CannotStart,
    "Conflict": Conflict,
    "HostGone": HostGone,
    "InvalidValue": InvalidValue,
    "StoreError": StoreError,
    "TaskExists": TaskExists,
    "TaskNotFound": TaskNotFound,
    "UnknownOutcome": UnknownOutcome,
}
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


class Gone(ConnectionError):
    """The other side ended before it answered."""


class Remote(RuntimeError):
    """The other side raised an exception that has no form on the wire."""


class Peer:
    """One side of a connection: its calls, and its answers to the other side's calls.

    Args:
        answer: Does a call of the other side; several calls may be in progress at once.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Answer
    ) -> None:
        self._reader, self._writer, self._answer = reader, writer, answer
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._numbers = count(1)
        self._answers: set[asyncio.Task[None]] = set()
        self.gone = False
        """True once the connection has ended."""

    async def call(self, name: str, *arguments: Any) -> Any:
        """Call the other side, and return its result.

        Raises:
            Gone: The connection ended.
            Remote: The other side raised an exception that the kit does not know.
        """
        if self.gone:
            raise Gone(name)
        number = next(self._numbers)
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._send([_REQUEST, number, name, arguments])
            return await future
        finally:
            self._waiting.pop(number, None)

    async def serve(self) -> None:
        """Read until the connection ends."""
        try:
            while True:
                size = int.from_bytes(await self._reader.readexactly(4), "big")
                self._take(*_decode(await self._reader.readexactly(size)))
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.close()

    def close(self) -> None:
        """End the connection, and every call and answer that is in progress."""
        self.gone = True
        self._writer.close()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(Gone("the connection ended"))
                future.exception()  # The caller may be gone already.
        for task in self._answers:
            task.cancel()

    def _take(self, kind: int, number: int, *rest: Any) -> None:
        if kind == _REQUEST:
            task = asyncio.create_task(self._reply(number, *rest), name="kit: answer")
            self._answers.add(task)
            task.add_done_callback(self._answers.discard)
            return
        future = self._waiting.get(number)
        if future is None or future.done():
            return
        if kind == _RESULT:
            future.set_result(rest[0])
        else:
            name, arguments = rest
            made = _ERRORS.get(name)
            future.set_exception(Remote(*arguments) if made is None else made(*arguments))

    async def _reply(self, number: int, name: str, arguments: Sequence[Any]) -> None:
        try:
            reply = [_RESULT, number, await self._answer(name, arguments)]
        except Exception as error:
            reply = [_ERROR, number, *_described(error)]
        with contextlib.suppress(OSError):
            self._send(reply)

    def _send(self, message: Sequence[Any]) -> None:
        data = _encode(message)
        self._writer.write(len(data).to_bytes(4, "big") + data)


def _described(error: Exception) -> tuple[str, list[Any]]:
    """The name and the arguments from which the other side makes the exception again."""
    if isinstance(error, HostGone):
        return "HostGone", [error.host]
    if isinstance(error, Conflict):
        return "Conflict", [error.task_id]
    if isinstance(error, CannotStart):
        return "CannotStart", [error.reason, error.task_id]
    if isinstance(error, (TaskExists, TaskNotFound)):
        return type(error).__name__, [error.task_id]
    if isinstance(error, InvalidValue):
        return "InvalidValue", [error.path, error.reason]
    if isinstance(error, StoreError):
        known = type(error).__name__ in _ERRORS
        return type(error).__name__ if known else "StoreError", [str(error)]
    return "", [f"{type(error).__name__}: {error}"]

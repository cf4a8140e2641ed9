"""Mailbox: the requests that wait for the run of one Task in this process."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from .errors import Refused
from .executions.requests import Reply

MOST: Final = 1_000
"""The most requests that wait for one run."""
R = TypeVar("R")


class Left(Exception):
    """The run left before it carried out the request; ask again."""


class Letter(Generic[R]):
    """One request, and the future of its answer if its sender waits for one.

    Args:
        id: Names a request that another process sent: its answer is stored with this id.
    """

    __slots__ = ("id", "reply", "request")

    def __init__(
        self, request: R, reply: asyncio.Future[Reply] | None = None, id: str = ""
    ) -> None:
        self.request = request
        self.reply = reply
        self.id = id

    def answer(self, reply: Reply) -> None:
        """Give the sender the answer."""
        if self.reply is not None and not self.reply.done():
            self.reply.set_result(reply)

    def give_back(self) -> None:
        """Tell the sender that the request was not carried out."""
        if self.reply is not None and not self.reply.done():
            self.reply.set_exception(Left())


class Mailbox(Generic[R]):
    """The requests for one run, oldest first.

    Args:
        wake: Called when a request comes.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._letters: deque[Letter[R]] = deque()
        self._closed = False

    def __len__(self) -> int:
        return len(self._letters)

    def put(self, request: R) -> None:
        """Leave a request that needs no answer."""
        if not self._closed:
            self._letters.append(Letter(request))
            self._wake()

    async def ask(self, request: R, id: str = "") -> Reply:
        """Leave a request, and wait for its answer.

        Args:
            id: Names a request of another process.

        Raises:
            Left: The run left before it carried out the request.
            Refused: Too many requests wait.
        """
        if self._closed:
            raise Left
        if len(self._letters) >= MOST:
            raise Refused(
                "RATE_LIMITED",
                f"{MOST:,} requests wait for this execution; send them one after the other",
                retry_after=1.0,
            )
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._letters.append(Letter(request, reply, id))
        self._wake()
        return await reply

    def take(self) -> Letter[R] | None:
        """The oldest request."""
        return self._letters.popleft() if self._letters else None

    def again(self, letter: Letter[R]) -> None:
        """Put a request back to the front."""
        self._letters.appendleft(letter)

    def close(self) -> None:
        """Give every request back, and take no more."""
        self._closed = True
        while self._letters:
            self._letters.popleft().give_back()

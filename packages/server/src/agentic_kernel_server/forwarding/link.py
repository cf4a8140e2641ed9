"""Link: one connection to another process of the server, shared by all requests for it."""

from __future__ import annotations

import asyncio
import hmac
import itertools
from contextlib import suppress
from typing import NamedTuple, Self

from . import frames
from .door import HOST
from .frames import Asked, Broken, Hello, Proof, Said


class Address(NamedTuple):
    """The internal port of a process."""

    port: int
    secret: bytes


class Lost(Exception):
    """The connection broke after a request was sent, so it may have been carried out."""


class Link:
    """One connection; made by `Link.to`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Said]] = {}
        self._reading = asyncio.get_running_loop().create_task(self._read())

    @property
    def open(self) -> bool:
        """False after the connection has ended."""
        return not self._reading.done()

    @classmethod
    async def to(cls, address: Address) -> Self:
        """Connect, and exchange the proofs.

        Raises:
            OSError: There is no such process any more.
            TimeoutError: It did not answer in time.
            Broken: Another program answered.
        """
        async with asyncio.timeout(frames.SECONDS):
            reader, writer = await asyncio.open_connection(HOST, address.port)
            try:
                own = frames.nonce()
                writer.write(frames.encoded(Hello(frames.VERSION, own)))
                given = await frames.received(reader, Proof, frames.MOST_PROOF_BYTES)
                wanted = frames.proof(address.secret, "listener", own, given.nonce)
                if not hmac.compare_digest(given.proof.encode(), wanted.encode()):
                    raise Broken("another program listens at the address")
                mine = frames.proof(address.secret, "caller", given.nonce, own)
                writer.write(frames.encoded(Proof(mine)))
            except asyncio.IncompleteReadError:
                writer.transport.abort()
                raise Broken("the other side closed the connection") from None
            except BaseException:
                writer.transport.abort()
                raise
        return cls(reader, writer)

    def send(self, asked: Asked) -> asyncio.Future[Said]:
        """Send a request; the future of its answer fails with `Lost` if the connection breaks."""
        answer: asyncio.Future[Said] = asyncio.get_running_loop().create_future()
        asked.number = next(self._numbers)
        if not self.open:
            answer.set_exception(Lost())
            return answer
        self._waiting[asked.number] = answer
        self._writer.write(frames.encoded(asked))
        return answer

    def forget(self, asked: Asked) -> None:
        """Wait no more for the answer to a request."""
        self._waiting.pop(asked.number, None)

    async def close(self) -> None:
        """Close the connection."""
        self._reading.cancel()
        await asyncio.wait({self._reading})

    async def _read(self) -> None:
        try:
            while True:
                said = await frames.received(self._reader, Said)
                answer = self._waiting.pop(said.number, None)
                if answer is not None and not answer.done():
                    answer.set_result(said)
        except (OSError, asyncio.IncompleteReadError, Broken):
            pass
        finally:
            with suppress(Exception):
                self._writer.transport.abort()
            waiting, self._waiting = self._waiting, {}
            for answer in waiting.values():
                if not answer.done():
                    answer.set_exception(Lost())
                    answer.exception()  # Its sender may have stopped waiting.

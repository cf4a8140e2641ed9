"""Door: answers the requests that other processes forward to the runs of this process.

It listens on the loopback address only. It looks for the run here and nowhere else, so a request is
forwarded once at most.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from agentic_kernel_engine.faults import log, said

from ..errors import Refused
from ..executions import requests as r
from ..mailbox import Left
from ..tools import jobs
from . import frames
from .frames import Asked, Broken, Hello, Proof, Said

if TYPE_CHECKING:
    from ..parts import Parts

_log = logging.getLogger(__name__)
HOST: Final = "127.0.0.1"
MOST_CONNECTIONS: Final = 256
"""The most connections of other processes; a further one is closed."""
MOST_AT_ONCE: Final = 4_096
"""The most requests of one connection that are carried out at once; the next one waits."""
_EXECUTION: Final = msgspec.json.Decoder(r.Sent)
_TOOL: Final = msgspec.json.Decoder(jobs.Sent)


class Door:
    """Listens for other processes.

    Args:
        parts: The parts that the server shares.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.secret: Final = secrets.token_bytes(32)
        self.port = 0
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._connected, HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Listen no more, and cut every connection."""
        if self._server is not None:
            self._server.close()
        for each in self._open:
            each.cancel()
        if self._open:
            await asyncio.wait(self._open)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= MOST_CONNECTIONS:
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answering: set[asyncio.Task[None]] = set()
        turns = asyncio.Semaphore(MOST_AT_ONCE)
        try:
            async with asyncio.timeout(frames.SECONDS):
                await self._proven(reader, writer)
            while True:
                await turns.acquire()
                asked = await frames.received(reader, Asked)
                task = asyncio.get_running_loop().create_task(self._answer(asked, writer))
                answering.add(task)
                task.add_done_callback(answering.discard)
                task.add_done_callback(lambda _: turns.release())
        except (asyncio.IncompleteReadError, OSError):
            pass  # The other process has closed the connection, or is gone.
        except (Broken, TimeoutError) as fault:
            _log.warning("a connection to the internal port was cut: %s", said(fault))
        except asyncio.CancelledError:
            pass
        except Exception as fault:
            log(_log, fault, "a connection to the internal port failed")
        finally:
            # The requests are in the mailboxes of their runs, and are carried out.
            for task in answering:
                task.cancel()
            writer.transport.abort()

    async def _proven(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Exchange the proofs.

        Raises:
            Broken: The other side does not know the secret.
        """
        hello = await frames.received(reader, Hello, frames.MOST_PROOF_BYTES)
        if hello.version != frames.VERSION:
            raise Broken(f"another process speaks version {hello.version}")
        own = frames.nonce()
        mine = frames.proof(self.secret, "listener", hello.nonce, own)
        writer.write(frames.encoded(Proof(mine, own)))
        given = await frames.received(reader, Proof, frames.MOST_PROOF_BYTES)
        wanted = frames.proof(self.secret, "caller", own, hello.nonce)
        if not hmac.compare_digest(given.proof.encode(), wanted.encode()):
            raise Broken("the other side does not know the secret")

    async def _answer(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(asked.seconds):
                reply = await self._reply(asked)
        except TimeoutError:
            return  # Its sender waits no more.
        except Exception as fault:
            log(_log, fault, "a forwarded request failed")
            return
        told = Said(asked.number, 0) if reply is None else Said(asked.number, *_plain(reply))
        with suppress(OSError):
            writer.write(frames.encoded(told))
            await writer.drain()

    async def _reply(self, asked: Asked) -> r.Reply | None:
        """The answer of the run; None if the request was not carried out."""
        parts = self._parts
        try:
            if asked.kind == "execution":
                execution = parts.runs.get(asked.task)
                if execution is None or execution.tenant != asked.tenant:
                    return None
                return await execution.box.ask(_EXECUTION.decode(asked.body), asked.id)
            job = parts.jobs.get(asked.task)
            if job is None or job.tenant != asked.tenant:
                return None
            return await job.box.ask(_TOOL.decode(asked.body), asked.id)
        except (Left, msgspec.MsgspecError):
            return None
        except Refused as refused:
            return r.Reply.refusal(refused)


def _plain(reply: r.Reply) -> tuple[int, object]:
    return reply.status, dict(reply.body)

"""FaultyServer: a tiny server of our own for single faults that no other peer can be asked for."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from .exchange import Exchange, Request, read_request, wire_of
from .faults import FAULTS, MORE, Fault
from .wires import WIRES

_WAIT_SECONDS: Final = 10.0


class FaultyServer:
    """Answers with one fault of `FAULTS`, on the loopback; ends when the block is left.

    The wire is known by the path of a request, so one server serves the clients of all vendors. A
    request that asks for no model's answer, for the list of models, say, is answered with nothing
    in it, and not counted.
    """

    def __init__(self, fault: str | Fault, *, times: int | None = None) -> None:
        """Nothing is started yet.

        Args:
            fault: A name of `FAULTS` or `MORE`, or one of its own.
            times: How many requests meet it; the later ones get a good answer. None for all.

        Raises:
            KeyError: There is no such fault.
        """
        self._changed = threading.Condition()
        self.play(fault, times=times)
        self._open: dict[socket.socket, threading.Thread] = {}
        self.accepted = 0
        """Connections so far."""
        self.held = 0
        """Exchanges so far that came to where they go no further."""
        self.closed_at: list[float] = []
        """When each connection was over, by ``time.perf_counter``."""

    def __enter__(self) -> Self:
        self._listeners = [_listen("127.0.0.1", 0)]
        self.port = int(self._listeners[0].getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        """Without ``/v1``."""
        with contextlib.suppress(OSError):  # a machine without IPv6 cannot be redirected to it
            self._listeners.append(_listen("::1", self.port))
        self._acceptors = [
            threading.Thread(target=self._accept, args=(listener,), name="faulty-accept")
            for listener in self._listeners
        ]
        for acceptor in self._acceptors:
            acceptor.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for listener in self._listeners:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
        for acceptor in self._acceptors:
            acceptor.join()
        for listener in self._listeners:
            listener.close()
        with self._changed:
            left = dict(self._open)
        for connection, thread in left.items():
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            thread.join()

    def play(self, fault: str | Fault, *, times: int | None = None) -> None:
        """Answer with this fault from now on; see the constructor. Forgets earlier requests."""
        with self._changed:
            self._fault = (FAULTS | MORE)[fault] if isinstance(fault, str) else fault
            self._times = times
            self.requests: list[Request] = []
            """What was received, in order."""

    @property
    def open(self) -> int:
        """Connections that are open right now."""
        with self._changed:
            return len(self._open)

    @property
    def followed(self) -> int:
        """Requests that came because a redirect was followed."""
        return sum(request.path.startswith("/redirected") for request in self.requests)

    def wait_held(self, count: int = 1) -> None:
        """Wait until so many exchanges in all came to where they go no further.

        Raises:
            TimeoutError: They did not within 10 s.
        """
        self._wait(lambda: self.held >= count, f"{count} held exchanges")

    def wait_open(self, count: int) -> None:
        """Wait until exactly so many connections are open.

        Raises:
            TimeoutError: They were not within 10 s.
        """
        self._wait(lambda: len(self._open) == count, f"{count} open connections")

    def wait_closed(self) -> None:
        """Wait until no connection is open.

        Raises:
            TimeoutError: One is left after 10 s.
        """
        self._wait(lambda: not self._open, "all connections to be closed")

    def _wait(self, met: Callable[[], bool], what: str) -> None:
        with self._changed:
            if not self._changed.wait_for(met, _WAIT_SECONDS):
                raise TimeoutError(f"waited {_WAIT_SECONDS:.0f} s for {what}")

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection,), name="faulty-serve")
            with self._changed:
                self.accepted += 1
                self._open[connection] = thread
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            self._converse(connection)
        finally:
            connection.close()
            with self._changed:
                del self._open[connection]
                self.closed_at.append(time.perf_counter())
                self._changed.notify_all()

    def _converse(self, connection: socket.socket) -> None:
        """Serve one connection; whoever leaves in the middle is no error here."""
        with contextlib.suppress(OSError), connection.makefile("rb") as stream:
            request = read_request(stream)
            if request is not None:
                self._answer(request, connection)
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_WR)

    def _receive(self, request: Request) -> None:
        with self._changed:
            self.requests.append(request)

    def _answer(self, request: Request, connection: socket.socket) -> None:
        wire = wire_of(request)
        if wire is None:
            Exchange(request, WIRES[0], connection, self._hold).answer([b"{}"])
            return
        with self._changed:
            meets = self._times is None or len(self.requests) < self._times
            fault = self._fault
            self.requests.append(request)
        exchange = Exchange(request, wire, connection, self._hold)
        if request.path.startswith("/redirected"):
            exchange.answer(exchange.good())
        elif meets:
            fault.act(exchange)
        else:
            exchange.answer(exchange.good())

    def _hold(self) -> None:
        with self._changed:
            self.held += 1
            self._changed.notify_all()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family)

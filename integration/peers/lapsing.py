"""LapsingServer: answers well, and closes a connection that it kept when the next request comes."""

from __future__ import annotations

import contextlib
import socket

from .exchange import Exchange, read_request, wire_of
from .faulty import FaultyServer


class LapsingServer(FaultyServer):
    """What meets the closing is received in full, and nothing of an answer is sent.

    So does a server that closes a connection behind an answer without saying so, if the next
    request is fast enough: llama.cpp's behind every stream.
    """

    def __init__(self, *, answers: int = 1, name: str = "") -> None:
        """Nothing is started yet.

        Args:
            answers: How many requests each connection answers.
            name: Its name, in the header ``Server``; empty for none.
        """
        super().__init__("closed")
        self._answers = answers
        self._headers = [("Server", name.encode())] if name else []

    def _converse(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection.makefile("rb") as stream:
            for _ in range(self._answers):
                request = read_request(stream)
                wire = None if request is None else wire_of(request)
                if request is None or wire is None:
                    return
                self._receive(request)
                exchange = Exchange(request, wire, connection, self._hold)
                exchange.keeps = True
                exchange.answer(exchange.good(), 200, None, *self._headers)
            last = read_request(stream)
            if last is not None:
                self._receive(last)

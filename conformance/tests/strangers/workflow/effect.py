"""Effect: one request that the world counts, made in a thread."""

from __future__ import annotations

import http.client
import os
import socket
import threading
from contextlib import suppress
from urllib.parse import quote, urlsplit


class Effect:
    """One POST, made in a thread; `abort` ends it from the event loop.

    Args:
        token: The name of the effect.
        key: The idempotency key of the request.
    """

    def __init__(self, token: str, key: str) -> None:
        self.url = urlsplit(os.environ["CONFORMANCE_MARKS"])
        self.token = token
        self.key = key
        self.begun = False
        self.sent = False
        """True from the moment at which the server may have received the request."""
        self._ended = False
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    def perform(self) -> int:
        """Send the request; return the status of the answer. Blocks the thread.

        Raises:
            OSError, http.client.HTTPException: There is no answer.
        """
        self.begun = True
        connection = http.client.HTTPConnection(
            self.url.hostname or "", self.url.port or 80, timeout=10
        )
        try:
            self._living()
            connection.connect()
            with self._lock:
                self._living()
                self._socket = connection.sock
                self._socket.settimeout(None)  # The answer may take long.
                self.sent = True
            path = self.url.path.rstrip("/") + "/mark/" + quote(self.token, safe="/")
            connection.request("POST", path, body=b"", headers={"Idempotency-Key": self.key})
            answer = connection.getresponse()
            answer.read()
            return answer.status
        finally:
            with self._lock:
                self._socket = None
            connection.close()

    def abort(self) -> None:
        """End the request; after that nothing is sent."""
        with self._lock:
            self._ended = True
            if self._socket is not None:
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)

    def _living(self) -> None:
        if self._ended:
            raise ConnectionAbortedError("the run of this effect has ended")

"""Exchange: one request at the faulty server, and the bytes that answer it."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from .wires import WIRES, Wire

HELD_SECONDS: Final = 60.0
"""How long a peer that never goes on waits for the other side to give up."""
WELL: Final = ("All ", "is ", "well.")
"""A good answer, in pieces."""
_GOOGLE: Final = re.compile(r"/models/(?P<model>[^/:]+):(?P<stream>stream)?[Gg]enerateContent")
_LONGEST_LINE: Final = 65_536
_REASONS: Final = {200: "OK", 307: "Temporary Redirect", 429: "Too Many Requests"}


@dataclass(frozen=True, slots=True)
class Request:
    """What came in, as it was on the wire."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case; nothing is redacted."""
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Exchange:
    """The request, and the means to answer it well or badly.

    The connection serves one request, so that each fault is alone.
    """

    def __init__(
        self, request: Request, wire: Wire, connection: socket.socket, held: Callable[[], None]
    ) -> None:
        """Answer this request on this connection; ``held`` is told when it goes no further."""
        self.request = request
        self.wire = wire
        self._connection = connection
        self._held = held
        self.keeps = False
        """Whether an answer leaves the connection open, as far as it says."""
        try:
            asked = request.json
        except ValueError:
            asked = {}
        # Google's path has both.
        named = _GOOGLE.search(request.path)
        self.model = str(asked.get("model", named["model"] if named else "peer"))
        # Ollama streams unless told otherwise.
        streams = wire.name == "ollama" or (named is not None and bool(named["stream"]))
        self.streams = bool(asked.get("stream", streams))

    @property
    def port(self) -> int:
        return int(self._connection.getsockname()[1])

    @property
    def secret(self) -> str:
        """The credential that came with the request."""
        headers = self.request.headers
        own = headers.get("x-api-key") or headers.get("x-goog-api-key")
        return own or headers.get("authorization", "").removeprefix("Bearer ")

    def good(self) -> list[bytes]:
        """The pieces of a good answer, streamed or in one, as was asked."""
        if self.streams:
            return self.wire.text(self.model, WELL)
        return [self.wire.whole(self.model, "".join(WELL))]

    def head(self, status: int, kind: str | None = None, *headers: tuple[str, bytes]) -> None:
        """The status line and headers of an answer in chunks."""
        kind = kind or (self.wire.streamed if self.streams else "application/json")
        lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Fault')}".encode()]
        lines += [f"Content-Type: {kind}".encode(), b"Transfer-Encoding: chunked"]
        lines += [name.encode() + b": " + value for name, value in headers]
        lines += [b"x-request-id: req_peer", b"request-id: req_peer"]
        if not self.keeps:
            lines.append(b"Connection: close")
        self.send(b"\r\n".join(lines) + b"\r\n\r\n")

    def chunk(self, data: bytes) -> None:
        self.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def answer(
        self,
        pieces: Iterable[bytes],
        status: int = 200,
        kind: str | None = None,
        *headers: tuple[str, bytes],
    ) -> None:
        """A whole answer of these pieces."""
        self.head(status, kind, *headers)
        for piece in pieces:
            self.chunk(piece)
        self.send(b"0\r\n\r\n")

    def refuse(
        self, status: int, message: str, *headers: tuple[str, bytes], code: str | None = None
    ) -> None:
        """An answer with the error body that the vendor documents."""
        body = self.wire.error(status, message, code)
        self.answer([body], status, "application/json", *headers)

    def send(self, data: bytes) -> None:
        self._connection.sendall(data)

    def hold(self) -> None:
        """Say nothing more until the other side closes, or the time is up."""
        self._held()
        self._connection.settimeout(HELD_SECONDS)
        self._connection.recv(1)


def wire_of(request: Request) -> Wire | None:
    """The wire that a request belongs to; None for one that asks for no answer of a model."""
    path = request.path.partition("?")[0].lower()
    return next((wire for wire in WIRES if path.endswith(wire.path.lower())), None)


def read_request(stream: BinaryIO) -> Request | None:
    """The next request of a connection; None if the other side closed it.

    The form is that of RFC 9112, as far as HTTP clients use it.
    """
    first = stream.readline(_LONGEST_LINE).decode("latin-1").split()
    if len(first) != 3:
        return None
    headers: dict[str, str] = {}
    while line := stream.readline(_LONGEST_LINE).strip():
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    if headers.get("transfer-encoding") == "chunked":
        body = _read_chunks(stream)
    else:
        body = stream.read(int(headers.get("content-length", "0")))
    return Request(first[0], first[1], headers, body)


def _read_chunks(stream: BinaryIO) -> bytes:
    body = b""
    while size := int(stream.readline(_LONGEST_LINE).partition(b";")[0], 16):
        body += stream.read(size)
        stream.readline(_LONGEST_LINE)
    stream.readline(_LONGEST_LINE)
    return body

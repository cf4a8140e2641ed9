"""Body: the bytes of a response, bounded, and in a form that every vendor's SDK reads alike."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec

from .connection import Refused

MAX_BYTES: Final = 64 * 2**20
"""The most bytes of one response."""
_BOM: Final = b"\xef\xbb\xbf"
_SEPARATOR: Final = re.compile(rb"\xc2\x85|\xe2\x80[\xa8\xa9]")
_EVENTS: Final = re.compile(rb":|(?:data|event|id|retry) *:")
"""The first line of a stream of events, though its server says that it is something else."""
_JSON: Final = (b"{", b"[", b'"')
_IN_FORM: Final = re.compile(
    rb'(?:event: (?!error\n)\w+\ndata: \{(?!\s*"error")[^\r\n]*\}\n\n)+', re.ASCII
)
"""Whole events with names that are in their form already, as Anthropic's API sends them."""
_ERROR: Final = re.compile(rb'\s*\{\s*"error"\s*:\s*(?!null|\s)')


class Body:
    """A response body of at most `MAX_BYTES`, passed on in whole lines.

    A byte order mark at its beginning is left out, as the standards of events and of JSON allow:
    for some SDKs it hides the first event, or the code of an error.

    An SDK copies an unfinished line at each piece, so that a long line would take minutes.

    Args:
        stream: The body of the HTTP library.
        form: The form of its lines; None to leave them as they are.
    """

    connection: Any = None
    """The connection to close after the body; None to keep it for the next request."""

    def __init__(self, stream: Any, form: Form | None) -> None:
        self._stream = stream
        self._form = form
        self._pieces: AsyncIterator[bytes] | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, begun, form, mark = 0, bytearray(), self._form, _BOM
        if self._stream is None:
            return
        if self._pieces is None:
            self._pieces = aiter(self._stream)
        # OpenAI's SDK iterates a second time, to drain the body; that one goes on from here.
        async for piece in self._pieces:
            size += len(piece)
            if size > MAX_BYTES:
                raise Refused(f"the response is longer than the limit of {MAX_BYTES:,} bytes")
            if not begun and piece.endswith(b"\n"):
                lines = piece.removeprefix(mark)  # Most pieces are whole lines.
            else:
                end = max(piece.rfind(b"\n"), piece.rfind(b"\r")) + 1
                if not end:
                    begun += piece
                    continue
                lines = (bytes(begun) + piece[:end]).removeprefix(mark)
                begun = bytearray(piece[end:])
            yield lines if form is None else form.take(lines)
            mark = b""
        lines = bytes(begun).removeprefix(mark)
        yield lines if form is None else form.take(lines) + form.rest()

    async def aclose(self) -> None:
        """Close the body; a second time does nothing.

        The inner stream refers to the response, and the response to this body. So the body lets it
        go: each call would otherwise leave its response to the garbage collector.
        """
        stream, self._stream, self._pieces = self._stream, None, None
        try:
            if self.connection is not None:
                # Before the pool has the connection back, so that no other request gets it.
                await self.connection.aclose()
        finally:
            if stream is not None:
                await stream.aclose()


class Form:
    """Brings the lines of an answer into the form that every SDK reads.

    - JSON and events are UTF-8. Other bytes are refused, because some SDKs replace them.
    - For some SDKs, U+0085, U+2028 and U+2029 also end a line, but JSON allows them within a
      string. So they are replaced by their JSON escapes.
    - Blank lines between parts of JSON are left out.
    - Events have the lines ``event: `` and ``data: `` only. An event without a name gets the name
      ``message``, which it has by the standard, because Anthropic's SDK drops it otherwise.
      A line of JSON without ``data:`` is an event, too: some servers report errors in this way.

    See "Parsing an event stream" in https://html.spec.whatwg.org/multipage/server-sent-events.html.

    Args:
        has_events: True if the server says that the answer is a stream of events. Its first line
            decides in the end.
        named: False if the SDK reads no names of events, as Google's. An error event then gets
            the form of an error that this SDK knows: ``{"error": {"code": …}}``.
    """

    def __init__(self, has_events: bool, *, named: bool = True) -> None:
        self._named = named
        self._said = has_events
        self._has_events: bool | None = None
        self._cut = self._bare = False
        self._name = b""
        self._data: list[bytes] = []

    def take(self, lines: bytes) -> bytes:
        """Return whole lines in their form; an event only when it is complete.

        Raises:
            Refused: The lines are not UTF-8, or an SDK would lose an event that they have.
        """
        if self._cut and lines.startswith(b"\n"):  # Of CR LF, after a piece that ended with CR.
            lines = lines[1:]
        if not lines:
            return b""
        self._cut = lines.endswith(b"\r")
        if lines.isascii():
            plain = self._named and self._has_events is not False
            if plain and not (self._data or self._name) and _IN_FORM.fullmatch(lines):
                self._has_events = True
                return lines
        else:
            _check(lines)
            lines = _SEPARATOR.sub(_escape, lines)
        if self._has_events is None and (told := lines.lstrip()):
            says = self._said and not told.startswith(_JSON)
            self._has_events = says or _EVENTS.match(told) is not None
        if not self._has_events:
            return b"".join(line + b"\n" for line in lines.splitlines() if line.strip())
        return b"".join(map(self._line, lines.splitlines()))

    def rest(self) -> bytes:
        """Return the event that no blank line has ended."""
        return self._event()

    def _line(self, line: bytes) -> bytes:
        if not line:
            return self._event()
        if line.startswith(_JSON) or (self._bare and line[:1].isspace()) or self._closes(line):
            ended = b"" if self._bare else self._event()
            self._bare = True
            self._data.append(line)
            return ended
        ended = self._event() if self._bare else b""
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._name = value
        elif name.removeprefix(_BOM).strip().lower() == b"data":
            raise Refused(
                f"a line of the stream begins with {name[:40]!a} instead of 'data', so an event "
                "would be lost; correct the server or its proxy"
            )
        return ended

    def _closes(self, line: bytes) -> bool:
        """True for the last line of JSON that stands on several lines."""
        return self._bare and line.startswith((b"}", b"]"))

    def _event(self) -> bytes:
        """Return the event that its lines made, and begin the next one."""
        data, name = b"\n".join(self._data), self._name
        self._data, self._name, self._bare = [], b"", False
        if not data.strip():
            return b""
        if name == b"error" or _ERROR.match(data):
            data = _error(data, coded=not self._named)
        told = b"event: " + (name or b"message") + b"\n" if self._named else b""
        return told + b"".join(b"data: " + line + b"\n" for line in data.split(b"\n")) + b"\n"


def _check(lines: bytes) -> None:
    try:
        lines.decode()
    except UnicodeDecodeError as error:
        raise Refused(
            f"the response is not UTF-8: byte 0x{lines[error.start]:02x}, {error.reason}; correct "
            "the server or its proxy"
        ) from None


def _escape(found: re.Match[bytes]) -> bytes:
    return f"\\u{ord(found[0].decode()):04x}".encode()


def _error(data: bytes, *, coded: bool) -> bytes:
    """Return the data of an error as an object with ``error`` and ``message`` in it.

    Args:
        data: The data of the event.
        coded: True for the form that Google's SDK knows: ``error`` is all, and has a code.
    """
    try:
        told = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        told = data.decode()
    if not isinstance(told, dict):
        told = {"error": told}
    inner = told.get("error")
    if inner is not None and not isinstance(inner, dict):
        told["error"] = inner = {"message": _words(inner)}
    elif not coded:
        return data
    if coded:
        inner = inner or told
        told = {"error": {**inner, "code": _status(inner.get("code"))}}
    return msgspec.json.encode(told)


def _words(told: object) -> str:
    return told if isinstance(told, str) else msgspec.json.encode(told).decode()


def _status(code: object) -> int:
    """Return the status that an error says as its code; 500 if it says none."""
    said = str(code)
    return int(said) if re.fullmatch(r"[45]\d\d", said, re.ASCII) else 500

"""Answers: the body of a response, read within its bound, and the value that it stands for."""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    import httpx

_CHARSETS: Final = frozenset({"utf-8", "us-ascii", "iso-8859-1", "windows-1252"})
"""The character sets that are read. A server could name a codec that is slow or no charset."""
_CHARSET: Final = re.compile(r"""charset\s*=\s*["']?([a-z0-9_-]{1,40})""")


class HTTPFailed(Exception):
    """The request was sent, and its outcome is not known."""


async def read(response: httpx.Response, most: int) -> bytes:
    """The whole body, decompressed.

    Args:
        most: The most bytes, before and after decompression.

    Raises:
        HTTPFailed: It is too long, or its compression is unknown, wrong, doubled, or followed by
            something else.
    """
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("gzip", "identity"):
        raise HTTPFailed(f"the answer's compression {coding!a:.60} is not known; gzip is")
    unpacked = zlib.decompressobj(31) if coding == "gzip" else None
    raw, found = 0, bytearray()
    async for chunk in response.aiter_raw():
        raw += len(chunk)
        try:
            found += chunk if unpacked is None else unpacked.decompress(chunk, _room(most, found))
        except zlib.error as error:
            raise HTTPFailed("the answer's compression is broken") from error
        if raw > most or len(found) > most:
            raise HTTPFailed(f"the answer has over {most:,} bytes; ask for less, or allow more")
        if unpacked is not None and unpacked.unused_data:
            raise HTTPFailed("the answer has more bytes after the end of its compression")
    if unpacked is not None and raw and not unpacked.eof:
        raise HTTPFailed("the answer's compression ends too early")
    return bytes(found)


def value_of(response: httpx.Response, body: bytes) -> Any:
    """The value of an answer: of JSON its value, of text the text, else the bytes."""
    if not body:
        return None
    said = response.headers.get("content-type", "").lower()
    kind = said.partition(";")[0].strip()
    if kind == "application/json" or kind.endswith("+json"):
        try:
            return msgspec.json.decode(body)
        except (msgspec.DecodeError, RecursionError):
            return body.decode("utf-8", "replace")
    if kind.startswith("text/"):
        charset = _CHARSET.search(said)
        known = charset is not None and charset[1] in _CHARSETS
        return body.decode(charset[1] if charset and known else "utf-8", "replace")
    return body


def _room(most: int, found: bytearray) -> int:
    """The number of bytes that are still unpacked: one too many, so that the excess is seen."""
    return most + 1 - len(found)

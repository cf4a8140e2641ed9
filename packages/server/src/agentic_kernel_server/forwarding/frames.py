"""Frames: the messages between two processes of one server, and how they prove who they are.

A frame is its length, in four bytes, and JSON. Both sides prove that they know the secret that the
listening process recorded in the store, before a request is sent or read. The secret itself is
never sent.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from typing import Any, Final, Literal, TypeVar

import msgspec

VERSION: Final = 1
"""The form of the messages. Another form is not spoken with; its requests go through the store."""
MOST_BYTES: Final = 64 * 1024 * 1024
"""The largest frame after the proofs."""
MOST_PROOF_BYTES: Final = 512
"""The largest frame before them."""
SECONDS: Final = 2.0
"""The longest that a connection and its proofs may take."""
_LENGTH: Final = 4
Kind = Literal["execution", "tool"]
M = TypeVar("M")


class Broken(Exception):
    """The other side is not the process that it should be, or does not keep to the form."""


class Hello(msgspec.Struct, array_like=True):
    """The first message of the caller."""

    version: int
    nonce: str


class Proof(msgspec.Struct, array_like=True):
    """The proof of one side that it knows the secret; the listener's has its own nonce."""

    proof: str
    nonce: str = ""


class Asked(msgspec.Struct, array_like=True):
    """One request, as it is forwarded."""

    number: int
    """Names the answer on this connection."""
    kind: Kind
    task: str
    tenant: str
    id: str
    """Names the request everywhere, so that it is carried out once."""
    seconds: float
    """The time that its sender waits."""
    body: msgspec.Raw


class Said(msgspec.Struct, array_like=True):
    """The answer to a request."""

    number: int
    status: int
    """The HTTP status; 0 if the request was not carried out, because its run is not here."""
    body: Any = None


def proof(secret: bytes, side: str, first: str, second: str) -> str:
    """The proof of one side for the nonces of a connection."""
    text = f"{side}|{first}|{second}".encode()
    return hmac.new(secret, text, "sha256").hexdigest()


def nonce() -> str:
    """A text that is used once."""
    return secrets.token_hex(16)


def encoded(message: msgspec.Struct) -> bytes:
    """A message as a frame."""
    text = msgspec.json.encode(message)
    return len(text).to_bytes(_LENGTH, "big") + text


async def received(reader: asyncio.StreamReader, type: type[M], most: int = MOST_BYTES) -> M:
    """The next message.

    Raises:
        Broken: It is too long or not of this type.
        asyncio.IncompleteReadError: The connection ended.
    """
    length = int.from_bytes(await reader.readexactly(_LENGTH), "big")
    if length > most:
        raise Broken(f"a frame has {length:,} bytes, over the limit of {most:,}")
    try:
        return msgspec.json.decode(await reader.readexactly(length), type=type)
    except (msgspec.MsgspecError, ValueError, RecursionError) as wrong:
        raise Broken(f"a frame is malformed: {wrong}") from None

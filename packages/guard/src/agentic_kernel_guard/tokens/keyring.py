"""Keyring: the keys that sign. The first signs; all of them are accepted."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from agentic_kernel import InvalidValue
from agentic_kernel_engine.edges import instance, several

SHORTEST: Final = 32
"""The fewest bytes of a key."""
MOST_KEYS: Final = 2
"""A new key and the one before it."""
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,32}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Key:
    """A key and its id. The id is public.

    Raises:
        InvalidValue: The key is under 32 bytes, or its id has another form than 1 to 32 letters,
            digits, ``-`` and ``_``.
    """

    id: str
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not _ID.fullmatch(self.id):
            raise InvalidValue("key.id", "must be 1 to 32 letters, digits, dashes, underlines")
        if not isinstance(self.secret, bytes) or len(self.secret) < SHORTEST:
            raise InvalidValue(
                "key.secret", f"must be at least {SHORTEST} bytes, e.g. secrets.token_bytes(32)"
            )
        if len(set(self.secret)) < 8:
            raise InvalidValue("key.secret", "repeats a few bytes; use secrets.token_bytes(32)")


class Keyring:
    """One or two keys. To rotate: put a new key first, and drop the other when its tokens expired.

    Raises:
        InvalidValue: There is no key, there are over two, or two have the same id.
    """

    def __init__(self, keys: Sequence[Key]) -> None:
        keys = [
            instance(each, f"keys[{index}]", Key)
            for index, each in enumerate(several(keys, "keys", "keys"))
        ]
        if not 1 <= len(keys) <= MOST_KEYS:
            raise InvalidValue("keys", f"has {len(keys)} keys; give 1 to {MOST_KEYS}")
        self._keys: Final = {key.id: key.secret for key in keys}
        if len(self._keys) < len(keys):
            raise InvalidValue("keys", "two keys have the same id; rename one")
        self.signing: Final = keys[0].id

    @classmethod
    def read(cls, text: str) -> Keyring:
        """The keyring of a text: one key a line, as ``id:secret`` with the secret in hexadecimal.

        The first line is the key that signs. Empty lines are passed over.

        Raises:
            InvalidValue: A line has another form, or a key is refused. The message has no secret.
        """
        keys = []
        for number, line in enumerate(instance(text, "keys", str).splitlines(), 1):
            if not line.strip():
                continue
            name, _, secret = line.strip().partition(":")
            try:
                keys.append(Key(name, bytes.fromhex(secret)))
            except ValueError as error:
                raise InvalidValue(
                    f"keys, line {number}",
                    error.reason if isinstance(error, InvalidValue) else "is not id:hexadecimal",
                ) from None
        return cls(keys)

    def mac(self, key: str, message: bytes) -> bytes | None:
        """HMAC-SHA256 of a message by the key with this id; None if there is no such key."""
        if type(key) is not str or type(message) is not bytes:
            instance(key, "key", str)
            instance(message, "message", bytes)
        secret = self._keys.get(key)
        return None if secret is None else hmac.digest(secret, message, hashlib.sha256)

"""Stored: one record's bytes as stored on the disk, and their decoding into a record."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from struct import Struct
from typing import Final, NamedTuple

from agentic_kernel import InvalidValue
from agentic_kernel_engine.errors import Unreadable
from agentic_kernel_engine.record import Record
from agentic_kernel_engine.stored import decode_change, decode_record, unreadable

from .states import StateFile

_LENGTH: Final = Struct("<I")


class Stored(NamedTuple):
    """The bytes of a whole record, the changes since, oldest first, and the state's file."""

    whole: bytes
    changes: tuple[bytes, ...] = ()
    state: StateFile | None = None
    damage: str = ""
    """The reason not to trust the bytes, if they are damaged."""

    def record(self, read: Callable[[StateFile], bytes]) -> Record:
        """The decoded record.

        Args:
            read: Returns the content of a state's file.

        Raises:
            InvalidValue: The bytes are damaged, or have a form that this version cannot read.
            FileNotFoundError: The state's file is gone.
        """
        record = self.folded()
        return record if self.state is None else with_state(record, self.state, read)

    def folded(self) -> Record:
        """The decoded record, without a state that has a file of its own.

        Raises:
            InvalidValue: The bytes are damaged, or have a form that this version cannot read.
        """
        if self.damage:
            raise InvalidValue("record", self.damage)
        return grown(decode_record(self.whole), self.changes)

    def fault(self, task_id: str, version: int, why: InvalidValue) -> Unreadable:
        """Error for a record whose bytes cannot be decoded."""
        return unreadable(task_id, version, why, self.whole, *self.changes)

    def flat(self) -> bytes | None:
        """The whole record, if it is all there is; None if there are changes, a file or damage."""
        plain = not self.changes and self.state is None and not self.damage
        return self.whole if plain else None

    def encode(self) -> bytes:
        """All parts as bytes, for a table."""
        head = json.dumps([
            self.state, self.damage, [len(text) for text in (self.whole, *self.changes)]
        ]).encode()  # fmt: skip
        return b"".join([_LENGTH.pack(len(head)), head, self.whole, *self.changes])


def decode_stored(data: bytes) -> Stored:
    """Decode the output of `Stored.encode`.

    Raises:
        ValueError: The bytes are not such an output.
    """
    (length,) = _LENGTH.unpack_from(data)
    at = _LENGTH.size + length
    state, damage, lengths = json.loads(data[_LENGTH.size : at])
    texts = []
    for size in lengths:
        texts.append(data[at : at + size])
        at += size
    whole, *changes = texts
    return Stored(whole, tuple(changes), None if state is None else StateFile(*state), damage)


def grown(record: Record, changes: Iterable[bytes]) -> Record:
    """The record after some changes.

    Raises:
        InvalidValue: A change is damaged, or has a form that this version cannot read.
    """
    for text in changes:
        record = decode_change(record, text)
    return record


def with_state(record: Record, reference: StateFile, read: Callable[[StateFile], bytes]) -> Record:
    """The record with the state from the state's file.

    Raises:
        InvalidValue: The file is damaged.
        FileNotFoundError: The file is gone.
    """
    try:
        return record.changed(state=read(reference))
    except ValueError as error:
        raise InvalidValue("record.state", f"is damaged: {error}") from None

"""Chain: entries, each with a hash over itself and the entry before it.

A hash shows a change of an entry, and an entry that is missing between two others. It does not show
that the end was cut off, or that the whole chain was written anew: an earlier signed `Head` does.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from agentic_kernel import InvalidValue
from agentic_kernel_engine.edges import came, instance, text, whole

from ..canonical import canonical
from ..errors import GuardError
from ..tokens.keyring import Keyring

START: Final = "0" * 64
"""The digest that stands before the first entry."""
_DOMAIN: Final = b"agentic-kernel-guard/chain/1\0"
_HEAD: Final = b"agentic-kernel-guard/head/1\0"


class Broken(GuardError):
    """A chain does not hold; the message names the entry."""

    def __init__(self, message: str) -> None:
        super().__init__("guard/chain_broken", message)


class Link(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of a chain."""

    seq: int
    """Its number, from 1."""
    body: str
    """Canonical JSON."""
    hash: str

    @property
    def entry(self) -> dict[str, Any]:
        """The entry as plain data."""
        found: dict[str, Any] = msgspec.json.decode(self.body)
        return found


class Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The end of a chain at some time, signed. Its holder can prove a cut or a rewriting."""

    seq: int
    hash: str
    at: int
    """Milliseconds since 1970."""
    key: str
    mac: str

    def as_json(self) -> dict[str, Any]:
        """The head as plain data."""
        return msgspec.structs.asdict(self)

    @classmethod
    def of_json(cls, data: object) -> Head:
        """A head from its plain data.

        Raises:
            Broken: The data is no head.
        """
        try:
            return msgspec.convert(data, cls)
        except (msgspec.ValidationError, UnicodeEncodeError) as error:
            raise Broken(f"it is no head: {str(error)[:500]}") from None


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check of a chain."""

    entries: int
    last: str
    """The hash of the last entry."""
    torn: int = 0
    """The characters of an unfinished line at the end; such a line counts as no entry."""


def linked(before: str, seq: int, body: str) -> Link:
    """The entry that follows one with the hash `before`."""
    said = _DOMAIN + bytes.fromhex(before) + seq.to_bytes(8, "big") + body.encode()
    return Link(seq, body, hashlib.sha256(said).hexdigest())


def signed(seq: int, last: str, at: int, keys: Keyring) -> Head:
    """The signed head of a chain.

    Raises:
        InvalidValue: An argument is of another type.
    """
    whole(seq, "seq", 0)
    whole(at, "at", 0)
    text(last, "last")
    mac = instance(keys, "keys", Keyring).mac(keys.signing, _HEAD + _said(seq, last, at))
    assert mac is not None, "a keyring has its signing key"
    return Head(seq, last, at, keys.signing, mac.hex())


def verify(links: Iterable[Link], head: Head | None = None, keys: Keyring | None = None) -> Checked:
    """Check a chain from its start, against an earlier head if there is one.

    Raises:
        Broken: An entry was changed, is missing or stands in another place; or the head is forged,
            or the chain ends before it, or has another entry there.
    """
    if keys is not None:
        instance(keys, "keys", Keyring)
    if head is not None:
        instance(head, "head", Head)
        mac = keys.mac(head.key, _HEAD + _said(head.seq, head.hash, head.at)) if keys else None
        if mac is None or not hmac.compare_digest(
            mac.hex(), head.mac.encode().decode("ascii", "replace")
        ):
            raise Broken("no key that was given signed the head; use the keyring that signed it")
    last, count = START, 0
    held = head is None or head.seq == 0
    for link in read(links):
        count += 1
        expected = linked(last, count, link.body)
        if (link.seq, link.hash) != (count, expected.hash):
            raise Broken(f"entry {count:,} was changed, is missing or stands in another place")
        last = link.hash
        if head is not None and count == head.seq:
            if last != head.hash:
                raise Broken(f"entry {count:,} is another one than the head says: rewritten")
            held = True
    if not held and head is not None:
        raise Broken(f"the chain ends at entry {count:,}, but the head is of {head.seq:,}: cut off")
    return Checked(count, last)


def export(links: Iterable[Link]) -> Iterable[str]:
    """The lines of an exported chain, each with its line break."""
    for link in read(links):
        yield msgspec.json.encode(link).decode() + "\n"


def check_export(text: str, head: Head | None = None, keys: Keyring | None = None) -> Checked:
    """Check an exported chain. An unfinished last line is not refused, but said.

    Raises:
        Broken: As `verify`; or a line but the last does not parse.
    """
    *lines, tail = instance(text, "text", str).split("\n")
    links = []
    for number, line in enumerate(lines, 1):
        try:
            link = msgspec.json.decode(line, type=Link)
            if msgspec.json.encode(link).decode() != line:
                # Another reader may take the first of two equal names.
                raise Broken(f"line {number:,} of the export is not as it was exported")
            links.append(link)
        except (msgspec.MsgspecError, UnicodeEncodeError):
            raise Broken(f"line {number:,} of the export does not parse") from None
    found = verify(links, head, keys)
    return Checked(found.entries, found.last, len(tail))


def read(links: Iterable[Link]) -> Iterator[Link]:
    """The entries, each checked to be one.

    Raises:
        InvalidValue: One is none.
    """
    if not isinstance(links, Iterable):
        raise InvalidValue("links", f"is {came(links)}; give the entries of a chain")
    for link in links:
        yield instance(link, "links", Link)


def _said(seq: int, last: str, at: int) -> bytes:
    return canonical({"at": at, "hash": last, "seq": seq})

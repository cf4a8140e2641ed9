"""Terms: the principal that a Task acts for, and the limits that were set when it was dispatched.

A Task's terms are written once, with its input, and only the host's code sets them: no metadata of
a Task changes them (R19). A program that can write to the store is trusted.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from agentic_kernel import InvalidValue


class Terms(msgspec.Struct, frozen=True, omit_defaults=True):
    """The terms of one Task."""

    name: str = ""
    """The name of the Task's principal; empty if the Task has none."""
    tenant: str = ""
    """The tenant of the Task's principal."""
    limits: dict[str, Any] | None = None
    """Limits by name, as in `Limits`. They replace those that are configured where the Task runs.
    """
    grant: dict[str, Any] | None = None
    """The part of its parent's budget that the Task may use up (R18)."""

    @property
    def bound(self) -> bool:
        """True if the Task acts for a named principal."""
        return bool(self.name or self.tenant)

    @property
    def realm(self) -> str:
        """The group of Tasks in `Store.find`: the tenant."""
        return self.tenant

    def encoded(self) -> bytes | None:
        """The stored form; None if there are no terms. Limits and grant were checked before."""
        return None if self is NONE or self == NONE else _encode(self)


NONE: Final = Terms()
"""The terms of a Task that acts for no named principal and has no limits of its own."""
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Terms).decode


def decoded(text: bytes | None) -> Terms:
    """The terms of a record, from their stored form.

    Raises:
        InvalidValue: The text is damaged.
    """
    if text is None:
        return NONE
    try:
        return _decode(text)
    except (msgspec.MsgspecError, ValueError) as error:
        raise InvalidValue("terms", f"are damaged: {error}") from None

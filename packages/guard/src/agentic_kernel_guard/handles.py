"""Handles: whole results under ids that no caller can guess, for their owner alone."""

from __future__ import annotations

from dataclasses import dataclass
from os import urandom
from typing import Any, Final

import msgspec

from agentic_kernel import InvalidValue
from agentic_kernel_engine import Principal
from agentic_kernel_engine.edges import came, names, several, text
from agentic_kernel_engine.edges import whole as counted

from .errors import GuardError
from .firewall.plain import whole
from .firewall.raw import RawResult
from .ids import url_base64
from .stores.port import GuardStore, Kept

LIVES: Final = 3_600
"""Seconds that a result is kept."""


class HandleRefused(GuardError):
    """This principal has no such handle: unknown, expired and foreign ones are told alike."""

    def __init__(self) -> None:
        super().__init__(
            "guard/handle_refused",
            "no result is kept for this principal under the handle; call the capability again",
        )


@dataclass(frozen=True, slots=True)
class Query:
    """The part of a kept result that is asked for.

    Raises:
        InvalidValue: A field is of another type, or a number is out of its range.
    """

    fields: tuple[str, ...] | None = None
    """The fields, or None for all that may be shown."""
    equals: tuple[tuple[str, Any], ...] = ()
    """Fields and the values that they must have."""
    offset: int = 0
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.fields is not None:
            names(self.fields, "query.fields")
        for each in several(self.equals, "query.equals", "pairs"):
            if not isinstance(each, (tuple, list)) or len(each) != 2:
                raise InvalidValue(
                    "query.equals", f"has {came(each)}; give pairs of name and value"
                )
            text(each[0], "query.equals")
        counted(self.offset, "query.offset", 0)
        if self.limit is not None:
            counted(self.limit, "query.limit", 1)


class Stored(msgspec.Struct, frozen=True):
    """A kept result with what it may show."""

    value: Any
    driver: str
    source: str
    capability: str
    constraints: dict[str, Any]
    task: str = ""
    """The Task of the call, for taint."""
    failed: bool = False


_stored: Final = msgspec.json.Decoder(Stored)


def kept(
    raw: RawResult, principal: Principal, capability: str, constraints: dict[str, Any], until: int,
    task: str = "",
) -> Kept | None:  # fmt: skip
    """The text to keep of a result; None if it cannot be written as JSON."""
    try:
        stored = Stored(
            whole(raw.value), raw.driver, raw.source, capability, constraints, task, raw.failed
        )
        body = msgspec.json.encode(stored).decode()
    except (TypeError, ValueError, RecursionError):
        return None
    handle = f"h_{url_base64(urandom(24)).decode()}"
    return Kept(handle, principal.name, principal.tenant, body, until)


async def found(store: GuardStore, handle: object, principal: Principal, now: int) -> Stored:
    """The result under a handle.

    Raises:
        HandleRefused: There is none, its time is over, or it is another principal's.
    """
    held = await store.kept(handle, now) if isinstance(handle, str) and len(handle) < 100 else None
    if held is None or (held.owner, held.tenant) != (principal.name, principal.tenant):
        raise HandleRefused
    return _stored.decode(held.body)

"""Frame: what a model may see of a result, and the limits that it was made under."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import msgspec

from agentic_kernel import InvalidValue
from agentic_kernel_engine.edges import came, flag, instance, whole, whole_or_none

ResponseMode = Literal["summary", "table", "handle_only", "raw"]
"""The part of a result that is shown."""


@dataclass(frozen=True, slots=True)
class Budgets:
    """The most that one frame shows. What is over a limit is cut, and each cut is counted.

    Raises:
        InvalidValue: A limit is below 1.
    """

    rows: int = 50
    fields: int = 20
    chars: int = 4_000
    depth: int = 3

    def __post_init__(self) -> None:
        for name in ("rows", "fields", "chars", "depth"):
            whole(getattr(self, name), f"budgets.{name}", 1)


@dataclass(frozen=True, slots=True)
class FrameLimits:
    """The limits that a grant puts on one frame, besides the budgets.

    Raises:
        InvalidValue: A field is of another type, or the rows are negative.
    """

    max_rows: int | None = None
    """The most rows, or None for the budget's limit alone."""
    allowed_fields: frozenset[str] | None = None
    """The only fields that are shown, or None for all of them."""
    sensitive_fields: frozenset[str] = frozenset()
    """Fields whose values are always replaced."""
    raw: bool = False
    """True if the mode ``raw`` is allowed."""

    def __post_init__(self) -> None:
        if type(self.max_rows) is not int or self.max_rows < 0:
            whole_or_none(self.max_rows, "limits.max_rows", 0)
        check_fields(self, "limits")


class Limiting(Protocol):
    """The fields that may be shown, as a grant or a policy says."""

    @property
    def allowed_fields(self) -> frozenset[str] | None: ...
    @property
    def sensitive_fields(self) -> frozenset[str]: ...
    @property
    def raw(self) -> bool: ...


def check_fields(limits: Limiting, name: str) -> None:
    """Check which fields are shown, and if raw output is.

    Raises:
        InvalidValue: A field of it is of another type; a name of a field is no text.
    """
    # Limits are made several times for each call, and most have no fields.
    allowed, sensitive = limits.allowed_fields, limits.sensitive_fields
    if allowed is not None:
        _check_set(allowed, f"{name}.allowed_fields")
    if sensitive or type(sensitive) is not frozenset:
        _check_set(sensitive, f"{name}.sensitive_fields")
    if type(limits.raw) is not bool:
        flag(limits.raw, f"{name}.raw")


def _check_set(given: frozenset[str], name: str) -> None:
    for each in instance(given, name, frozenset):
        if not isinstance(each, str):
            raise InvalidValue(name, f"has {came(each)}; use names of fields")


@dataclass(frozen=True, slots=True)
class Cut:
    """One kind of thing that was left out of a frame."""

    kind: Literal["rows", "fields", "characters", "depth"]
    shown: int
    total: int
    where: str = ""
    """The place in the result, e.g. a field's name; empty for the whole."""

    def as_json(self) -> dict[str, Any]:
        """The cut as plain data."""
        return {"kind": self.kind, "shown": self.shown, "total": self.total, "where": self.where}


class Frame(msgspec.Struct, frozen=True):
    """The part of one result that a model may see."""

    mode: ResponseMode
    source: str
    summary: str = ""
    rows: tuple[Any, ...] = ()
    value: Any = None
    """The whole value; in the mode ``raw`` only."""
    cuts: tuple[Cut, ...] = ()
    redactions: int = 0
    """The number of values and parts of texts that were replaced."""
    handle: str | None = None
    """The id for `Guard.expand`; None if the result was not kept."""
    taint: tuple[str, ...] = ()
    """The sources whose text the frame holds."""
    failed: bool = False
    """True if the target answered that it failed."""

    def as_json(self) -> dict[str, Any]:
        """The frame as plain data, e.g. for a tool's answer."""
        return {
            "mode": self.mode,
            "source": self.source,
            "summary": self.summary,
            "rows": list(self.rows),
            "value": self.value,
            "cuts": [cut.as_json() for cut in self.cuts],
            "redactions": self.redactions,
            "handle": self.handle,
            "taint": list(self.taint),
            "failed": self.failed,
        }

"""Frame: what a model may see of a result, and the limits that it was made under."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

ResponseMode = Literal["summary", "table", "handle_only", "raw"]
"""How much of a result is shown."""


@dataclass(frozen=True, slots=True)
class Budgets:
    """The most that one frame shows. What is over a limit is cut, and each cut is counted."""

    rows: int = 50
    fields: int = 20
    chars: int = 4_000
    depth: int = 3


@dataclass(frozen=True, slots=True)
class FrameLimits:
    """What a grant lets one frame show, besides the budgets."""

    max_rows: int | None = None
    """The most rows, or None for the budget's limit alone."""
    allowed_fields: frozenset[str] | None = None
    """The only fields that are shown, or None for all of them."""
    sensitive_fields: frozenset[str] = frozenset()
    """Fields whose values are always replaced."""
    raw: bool = False
    """True if the mode ``raw`` is allowed."""


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


@dataclass(frozen=True, slots=True)
class Frame:
    """What a model may see of one result."""

    mode: ResponseMode
    source: str
    summary: str = ""
    rows: tuple[Any, ...] = ()
    value: Any = None
    """The whole value; in the mode ``raw`` only."""
    cuts: tuple[Cut, ...] = ()
    redactions: int = 0
    """How many values or parts of texts were replaced."""
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

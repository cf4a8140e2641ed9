"""Firewall: makes a frame of a result, and selects a part of a kept one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

from agentic_kernel_engine.edges import choice, entries, instance, names, whole

from ..errors import GuardError
from .frame import Budgets, Frame, FrameLimits, ResponseMode
from .plain import NO_ROOM, Cutter, Room, name_of, named, rows_of
from .raw import RawResult
from .redact import Redactor
from .redact.redactor import HIDDEN
from .summary import described, line_of, quoted, shape

MODES: Final = get_args(ResponseMode)
NO_LIMITS: Final = FrameLimits()
"""The budgets of a frame that no grant limits."""
SAMPLE: Final = 3
"""The rows that a summary shows."""


IN_LINE: Final = 4_096
"""The most characters of a huge text that are looked at for a line of a summary."""


class RawRefused(GuardError):
    """The mode ``raw`` was asked for, and this principal may not see raw output."""

    def __init__(self) -> None:
        super().__init__(
            "guard/raw_refused",
            "raw output is for principals with a role that allows it; ask for summary or table",
        )


class Firewall:
    """Stands between what a driver returned and what a model sees.

    Equal results give equal frames. A secret is replaced before a text is cut, so that no half of
    it is shown. The time is linear in the size of what is shown; a summary also reads each row. Of
    texts of over 200,000 characters together (or ten times the budget), only the beginning is read.

    Args:
        budgets: The most that one frame shows.
        redactor: Replaces secrets and personal data.
    """

    def __init__(self, budgets: Budgets | None = None, redactor: Redactor | None = None) -> None:
        budgets = Budgets() if budgets is None else budgets
        redactor = Redactor() if redactor is None else redactor
        self.budgets: Final = instance(budgets, "budgets", Budgets)
        self.redactor: Final = instance(redactor, "redactor", Redactor)

    def check(self, mode: object, constraints: FrameLimits) -> None:
        """Refuse a mode before the call is made.

        Raises:
            InvalidValue: There is no such mode.
            RawRefused: The mode is ``raw``, and the constraints do not allow it.
        """
        choice(mode, "response_mode", MODES)
        instance(constraints, "constraints", FrameLimits)
        if mode == "raw" and not constraints.raw:
            raise RawRefused

    def hides(self, field: str, constraints: FrameLimits) -> bool:
        """True if the values of a field of the rows are not shown."""
        instance(field, "field", str)
        instance(constraints, "constraints", FrameLimits)
        allowed = constraints.allowed_fields
        if allowed is not None and field not in allowed:
            return True
        return self.redactor.hiding(constraints.sensitive_fields).hides(field)

    def frame(
        self,
        raw: RawResult,
        *,
        mode: ResponseMode,
        constraints: FrameLimits = NO_LIMITS,
        handle: str | None = None,
    ) -> Frame:
        """Return the part of a result that a model may see.

        - ``summary``: the size, a line for each field, and the first rows.
        - ``table``: as many rows as the budgets and the constraints allow.
        - ``handle_only``: the size alone.
        - ``raw``: the value as it is, uncut and not redacted.

        If the constraints name ``allowed_fields``, other fields of the rows are left out, and so is
        a row that has no fields. A field that is allowed is shown whole. Sensitive fields are
        replaced at any depth.

        Raises:
            InvalidValue, RawRefused: See `check`.
        """
        self.check(mode, constraints)
        instance(raw, "raw", RawResult)
        if handle is not None:
            instance(handle, "handle", str)
        if mode == "raw":
            taint = (raw.source,)
            return Frame(
                mode, raw.source, "", (), raw.value, handle=handle, taint=taint, failed=raw.failed
            )
        rows, found = named(rows_of(raw.value))
        allowed = constraints.allowed_fields
        shown = [name for name in found if allowed is None or name in allowed]
        size = shape(rows, len(found))
        if mode == "handle_only":
            return Frame(mode, raw.source, size, handle=handle, failed=raw.failed)
        work = _Work(self.budgets, self.redactor.hiding(constraints.sensitive_fields))
        work.cutter.cut("fields", min(len(shown), self.budgets.fields), len(found))
        shown = shown[: self.budgets.fields]
        summary = size
        if mode == "summary":
            summary = work.summary(size, rows, shown, allowed is None)
        most = self.budgets.rows if mode == "table" else SAMPLE
        if constraints.max_rows is not None:
            most = min(most, constraints.max_rows)
        made = work.rows(rows, most, shown, allowed is None)
        replaced = work.redactions + work.cutter.redactions
        return Frame(
            mode, raw.source, summary, made, cuts=work.cuts(), redactions=replaced, handle=handle,
            taint=(raw.source,), failed=raw.failed,
        )  # fmt: skip

    def select(
        self,
        value: Any,
        *,
        fields: Sequence[str] | None = None,
        equals: Mapping[str, Any] | None = None,
        offset: int = 0,
        limit: int | None = None,
    ) -> list[Any]:
        """Rows of a kept result.

        Args:
            fields: The fields to keep; None for all.
            equals: Fields, and the values that they must have. ``True``, ``1`` and ``1.0`` are
                three values. A row without fields fits nothing.
            offset: The number of fitting rows to pass over.
            limit: The most rows; None for all.

        Raises:
            InvalidValue: The offset is negative, the limit is below 1, or another argument is of a
                wrong type.
        """
        whole(offset, "query.offset", 0)
        if limit is not None:
            whole(limit, "query.limit", 1)
        wanted = {} if equals is None else dict(entries(equals, "query.equals"))
        kept = None if fields is None else names(fields, "query.fields")
        rows = [row for row in rows_of(value) if not wanted or _fits(row, wanted)]
        rows = rows[offset : None if limit is None else offset + limit]
        if kept is None:
            return rows
        return [
            {key: each for key, each in row.items() if name_of(key) in kept}
            for row in rows
            if isinstance(row, Mapping)
        ]


class _Work:
    """The making of one frame."""

    def __init__(self, budgets: Budgets, redactor: Redactor) -> None:
        self.redactions = 0
        self.cutter = Cutter(budgets, redactor.head)
        self._redactor = redactor
        self._room = Room(budgets.chars)

    def summary(self, size: str, rows: Sequence[Any], names: Sequence[str], free: bool) -> str:
        """The lines about the fields, or about the values of rows without fields."""
        lines = [size]
        for name in names:
            if self._redactor.hides(name):
                lines.append(f"{quoted(self._redacted(name))}: {HIDDEN}")
                self.redactions += 1
            else:
                lines.append(line_of(name, rows, self._redacted))
        if not names and free:
            others = [row for row in rows if not isinstance(row, Mapping)]
            lines.append(described(others, self._redacted))
        said = self._room.text("\n".join(lines))
        return size if said is NO_ROOM else str(said)

    def rows(
        self, rows: Sequence[Any], most: int, names: Sequence[str], free: bool
    ) -> tuple[Any, ...]:
        """The first rows, with these fields, redacted, then cut to the room that is left."""
        kept = set(names)
        made: list[Any] = []
        for row in rows[:most]:
            if type(row) is dict or isinstance(row, Mapping):
                part: Any = {key: each for key, each in row.items() if key in kept}
            elif free:
                part = row
            else:
                continue
            part, count = self._redactor.value(self.cutter.plain(part))
            fitted = self._room.fit(part)
            if fitted is NO_ROOM or (part and fitted in ({}, [])):
                break
            self.redactions += count
            made.append(fitted)
        self.cutter.cut("rows", len(made), len(rows))
        return tuple(made)

    def cuts(self) -> Any:
        """All that was left out."""
        self.cutter.cut("characters", self._room.shown, self._room.wanted)
        return self.cutter.cuts

    def _redacted(self, value: Any) -> Any:
        if type(value) is str:
            value = self.cutter.text(value, most=IN_LINE)
        made, count = self._redactor.value(value)
        self.redactions += count
        return made


def _fits(row: Any, wanted: Mapping[str, Any]) -> bool:
    return isinstance(row, Mapping) and all(
        name in row and type(row[name]) is type(value) and row[name] == value
        for name, value in wanted.items()
    )

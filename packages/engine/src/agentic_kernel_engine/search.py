"""Search: the filters and the order of `Store.find`, checked once for every store."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Final, Self, TypedDict, Unpack

import msgspec

from agentic_kernel import InvalidValue, Task, TaskStatus

from . import edges
from .moments import aware
from .record import Record, host_of

LABEL: Final = "label/"
"""The scope of the metadata keys that a search can filter by."""
LONGEST_LABEL: Final = 256
"""The most characters that a label's value may have."""
MAX_LIMIT: Final = 1_000_000
"""The largest page that a search may ask for."""
Created = tuple[datetime, str]
"""A Task's ``created_at`` and its id: a place in the order from newest to oldest."""


class SearchOptions(TypedDict, total=False):
    """The keyword arguments of `Store.find`. Filters combine by "and"."""

    status: TaskStatus | None
    """Only Tasks in this status."""
    kinds: Collection[str] | None
    """Only these runtime kinds."""
    agent: str | None
    """Only Tasks of the Agent with this name."""
    realms: Collection[str] | None
    """Only records of these realms; ``""`` selects records without a realm."""
    labels: Mapping[str, str] | None
    """Only Tasks dispatched with these labels; ``team`` and ``label/team`` are one name."""
    parent: str | None
    """Only children of this Task."""
    owner: str | None
    """Only records that this Host owns."""
    claimable: bool
    """Only running records without a living owner."""
    due: datetime | None
    """Only paused records with a ``due_at`` at or before this moment."""
    created_from: datetime | None
    """Only Tasks created at or after this moment."""
    created_before: datetime | None
    """Only Tasks created before this moment."""
    newest: bool
    """Newest first: by ``created_at`` and then by id, both descending. Else ascending by id."""
    after: str | Created | None
    """Only records after this place: an id, or ``(created_at, id)`` if ``newest`` is set."""
    limit: int
    """The size of the page, from 0 to `MAX_LIMIT`; 100 if not given."""


class Search(msgspec.Struct, frozen=True):
    """One checked search; moments are in UTC, collections are frozen."""

    status: TaskStatus | None = None
    kinds: frozenset[str] | None = None
    agent: str | None = None
    realms: frozenset[str] | None = None
    labels: Mapping[str, str] = {}
    parent: str | None = None
    owner: str | None = None
    claimable: bool = False
    due: datetime | None = None
    created_from: datetime | None = None
    created_before: datetime | None = None
    newest: bool = False
    after: str | None = None
    """The id after which the page begins, if the order is by id."""
    older_than: Created | None = None
    """The place after which the page begins, if the order is newest first."""
    limit: int = 100

    @classmethod
    def of(cls, **options: Unpack[SearchOptions]) -> Self:
        """Check the keyword arguments of a `Store.find`.

        Raises:
            InvalidValue: One of them has the wrong type or range; its name is the path.
            TypeError: There is no such filter.
        """
        return cls(**{name: _CHECKS[name](value, name) for name, value in _given(options)})

    def matches(self, record: Record, gone: Collection[str] = ()) -> bool:
        """True if the record passes all filters; its place in the order does not count.

        Args:
            gone: The hosts that are not alive; at least each such host that owns a record.
        """
        task = record.task
        return (
            (self.status is None or task.status is self.status)
            and (self.kinds is None or task.runtime_kind in self.kinds)
            and (self.agent is None or task.agent_name == self.agent)
            and (self.realms is None or record.realm in self.realms)
            and (not self.labels or self.labels.items() <= labels_of(task).items())
            and (self.parent is None or record.parent == self.parent)
            and (self.owner is None or _held_by(record, self.owner))
            and (not self.claimable or _claimable(record, gone))
            and (self.due is None or _is_due(record, self.due))
            and (self.created_from is None or task.created_at >= self.created_from)
            and (self.created_before is None or task.created_at < self.created_before)
        )


def labels_of(task: Task) -> dict[str, str]:
    """The labels that a Task was dispatched with, by their full metadata keys.

    A label is text under the scope ``label/``. A note that an implementation adds later is not a
    label, so a Task's labels never change.
    """
    return {
        key: value
        for key, value in task.metadata.items()
        if key.startswith(LABEL) and isinstance(value, str) and key not in task.noted
    }


def check_labels(task: Task) -> None:
    """Refuse a Task with a label that no search could find.

    Raises:
        InvalidValue: A label's value is not text, or too long; the message names its key.
    """
    for key, value in task.metadata.items():
        if not key.startswith(LABEL):
            continue
        if not isinstance(value, str):
            raise InvalidValue(
                f"task.metadata[{ascii(key)[:60]}]",
                f"is a {type(value).__name__}, and a label is text; pass a string, or use another "
                f"scope than {LABEL}",
            )
        if len(value) > LONGEST_LABEL:
            raise InvalidValue(
                f"task.metadata[{ascii(key)[:60]}]",
                f"has {len(value):,} characters, and a label has at most {LONGEST_LABEL}; shorten "
                f"it, or use another scope than {LABEL}",
            )


def created(record: Record) -> Created:
    """A record's place in the order from newest to oldest."""
    return record.task.created_at, record.task.id


def page_size(value: Any, name: str = "limit") -> int:
    """Check the size of a page.

    Raises:
        InvalidValue: The value is not a whole number from 0 to `MAX_LIMIT`.
    """
    return edges.whole(value, name, 0, MAX_LIMIT)


def _given(options: Mapping[str, Any]) -> list[tuple[str, Any]]:
    unknown = options.keys() - _CHECKS.keys()
    if unknown:
        raise TypeError(f"find() has no filter {', '.join(sorted(unknown))}")
    given = {name: value for name, value in options.items() if value is not None}
    if "after" in given and given.get("newest"):
        given["older_than"] = given.pop("after")
    return list(given.items())


def _held_by(record: Record, host: str) -> bool:
    return record.owner is not None and host_of(record.owner) == host


def _claimable(record: Record, gone: Collection[str]) -> bool:
    return record.task.status is TaskStatus.RUNNING and (
        record.owner is None or host_of(record.owner) in gone
    )


def _is_due(record: Record, moment: datetime) -> bool:
    return (
        record.task.status is TaskStatus.PAUSED
        and record.due_at is not None
        and record.due_at <= moment
    )


def _text(value: Any, name: str) -> str:
    if not issubclass(type(value), str):
        raise InvalidValue(name, f"must be a string, not {type(value).__name__}")
    return str.__str__(value)


def _texts(value: Any, name: str) -> frozenset[str]:
    if isinstance(value, str) or not isinstance(value, Collection):
        raise InvalidValue(name, "must be a collection of strings")
    return frozenset(_text(each, name) for each in edges.several(value, name, "strings"))


def _moment(value: Any, name: str) -> datetime:
    return aware(name, value)


def _labels(value: Any, name: str) -> Mapping[str, str]:
    found = {}
    for key, text in edges.entries(value, name):
        label = _text(key, f"{name}'s key")
        label = label if label.startswith(LABEL) else LABEL + label
        found[label] = _text(text, f"{name}[{edges.came(label)}]")
    return found


def _created(value: Any, name: str) -> Created:
    if not isinstance(value, tuple) or len(value) != 2:
        raise InvalidValue("after", "must be a pair (created_at, id) if newest is set")
    return aware("after[0]", value[0]), _text(value[1], "after[1]")


_CHECKS: Final[Mapping[str, Any]] = {
    "status": edges.one_status,
    "kinds": _texts,
    "agent": _text,
    "realms": _texts,
    "labels": _labels,
    "parent": _text,
    "owner": _text,
    "claimable": edges.flag,
    "due": _moment,
    "created_from": _moment,
    "created_before": _moment,
    "newest": edges.flag,
    "after": _text,
    "older_than": _created,
    "limit": page_size,
}

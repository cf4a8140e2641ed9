"""Record: all that a store keeps about one Task, except its events."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from agentic_kernel import Task

FENCED: Final = b'{"spent":{}}'
"""The state of a child that was ended before it could begin: it has used nothing (R18)."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """One Task as a store holds it, at one version.

    A record is immutable; a commit replaces it by a successor whose ``version`` is one higher. The
    Task's input never changes, and its supplements and events only grow. So a store writes the
    input once, and each commit writes the head and the appended tails (R16).
    """

    task: Task
    """The snapshot that a Query returns. Never ``not_started``, because dispatch changes that."""
    version: int = 1
    """1 when inserted, one more with every commit and claim."""
    state: bytes | None = None
    """The substrate's state from its last commit, as JSON text; opaque to a store."""
    inbox: tuple[Mapping[str, Any], ...] = ()
    """Decisions that wait for the owner (a pause, an approval, …), oldest first; small JSON."""
    owner: str | None = None
    """``<host>:<version at acquisition>`` of the run that may write, or None."""
    step: int = 0
    """The number of commits that owners have made; no other write advances it (R5)."""
    attempts: int = 0
    """The number of runs that have begun since a run last made progress or released the Task."""
    due_at: datetime | None = None
    """The moment at which a Host resumes the paused Task, in UTC."""
    parent: str | None = None
    """The Task that spawned this one."""
    terms: bytes | None = None
    """The principal that the Task acts for and the Task's limits, as JSON text; written once, with
    the input, and opaque to a store (R19)."""
    realm: str = ""
    """The group of Tasks that the Task belongs to, e.g. a tenant's, for `Store.find`; written once,
    with the input."""
    form: str = ""
    """The form of ``state``, such as ``loop/3``, so that a reader knows before it takes the Task if
    it can read the state (R23); empty if the substrate does not say."""

    @property
    def needs_schema(self) -> int:
        """The oldest stored form that holds this record: 2 if it has a field that 1 lacks."""
        return 2 if self.form or self.realm or self.terms is not None else 1

    def changed(self, **fields: Any) -> Record:
        """A copy of the record with these fields replaced."""
        return msgspec.structs.replace(self, **fields)


def owner_name(host: str, version: int) -> str:
    """The owner's name after ``host`` acquires a record at ``version`` (R2)."""
    return f"{host}:{version}"


def host_of(owner: str) -> str:
    """The host in an owner's name."""
    return owner.rpartition(":")[0]


def acquired_at(owner: str) -> int:
    """The version at which an owner acquired its record."""
    return int(owner.rpartition(":")[2])

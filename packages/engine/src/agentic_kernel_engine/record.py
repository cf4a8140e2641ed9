"""Record: everything a store keeps about one Task besides its events."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from agentic_kernel import Task


class Record(msgspec.Struct, frozen=True, gc=False):
    """One Task as a store holds it, at one version.

    Immutable; a commit replaces it by a successor whose ``version`` is one higher. The Task's
    input never changes, its supplements and its events only grow, so a store writes the input
    once and then heads and appended tails (R16).
    """

    task: Task
    """The snapshot that a Query returns. Never ``not_started``: what is stored was dispatched."""
    version: int = 1
    """1 when inserted, one more with every commit and claim."""
    state: bytes | None = None
    """What the substrate left in its last commit, as JSON text; opaque to a store."""
    inbox: tuple[Mapping[str, Any], ...] = ()
    """Decisions that wait for the owner (a pause, an approval, …), oldest first; small JSON."""
    owner: str | None = None
    """``<host>:<version at acquisition>`` of the run that may write, or None."""
    step: int = 0
    """How many commits owners have made; advances by nothing else (R5)."""
    attempts: int = 0
    """How many runs have begun since one last made progress, or let go of the Task."""
    due_at: datetime | None = None
    """When a paused Task asks to be woken, in UTC."""
    parent: str | None = None
    """The Task that spawned this one."""
    terms: bytes | None = None
    """On whose behalf and within what limits the Task runs, as JSON text; written once, with the
    input, and opaque to a store (R19)."""
    realm: str = ""
    """Whose Task this is, for `Store.find`; written once, with the input."""
    form: str = ""
    """The form of ``state``, such as ``loop/3``, so that a reader knows beforehand whether it can
    read it (R23); empty if the substrate does not say."""

    @property
    def needs_schema(self) -> int:
        """The oldest stored form that holds this record: 2 if it has a field that 1 lacks."""
        return 2 if self.form or self.realm or self.terms is not None else 1

    def changed(self, **fields: Any) -> Record:
        """The same record but for these fields."""
        return msgspec.structs.replace(self, **fields)


def owner_name(host: str, version: int) -> str:
    """The owner that ``host`` becomes when it acquires a record at ``version`` (R2)."""
    return f"{host}:{version}"


def host_of(owner: str) -> str:
    """The host behind an owner."""
    return owner.rpartition(":")[0]


def acquired_at(owner: str) -> int:
    """The version at which an owner acquired its record."""
    return int(owner.rpartition(":")[2])

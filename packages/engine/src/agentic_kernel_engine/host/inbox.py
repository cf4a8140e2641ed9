"""Inbox: the decisions that wait in a Task's record; their types and their number are checked.

Every decision of a person, another process or a parent passes `check` and `added`, so a run can
rely on the types of its fields. A store that an earlier version wrote may hold bad entries: `fault`
returns the error of such an entry, and the run ignores the entry, with an event.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from agentic_kernel import InvalidValue
from agentic_kernel.frozen import freeze

from .. import edges, values
from ..errors import InboxFull
from ..events import Checked
from ..pause_request import PAUSE
from ..plans import vocabulary
from ..record import Record
from ..waiting import asked, decides, digests, field_text, request_of

InboxEntry = Mapping[str, Any]
MOST_ENTRIES: Final = 256
"""The most decisions that may wait for one Task; every post writes all of them again."""
MOST_BYTES: Final = 256 * 1024
"""The most bytes that they may have together as JSON text; also the most of one decision."""
_SCOPE: Final = "engine/"

_TEXTS: Final[Mapping[str, tuple[str, ...]]] = {
    vocabulary.APPROVAL: ("digest", "by", "why"),
    vocabulary.ANSWER: ("text", "digest", "by", "why"),
    vocabulary.RETUNE: ("by", "why"),
    vocabulary.STEP: ("by", "why"),
    vocabulary.GRANT: (),
}
"""The engine's decisions, and their fields that hold text; their other fields are free."""
_REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    vocabulary.APPROVAL: ("digest", "granted"),
    vocabulary.ANSWER: ("text",),
    vocabulary.RETUNE: ("limits",),
    vocabulary.GRANT: ("grant", "seq"),
}
_POSTED: Final = tuple(sorted(kind for kind in _TEXTS if kind != vocabulary.GRANT))
"""The engine's decisions that a caller may post; the run of a parent alone changes a grant."""


def check(decision: Any, path: str = "decision") -> InboxEntry:
    """Check that a run could act on a decision; return it as it may be stored.

    Args:
        path: The decision's name in an error; "" if its fields are arguments.

    Raises:
        InvalidValue: The decision has no type, is a pause, has an id, has a field of a wrong type,
            or is too long.
    """
    name = path or "decision"
    # Frozen, so that later changes by the caller have no effect.
    decision = freeze(values.mapping(decision, name), name, values.MAX_DEPTH)
    kind = values.check_id(decision.get("type"), f"{name}.type")
    if kind == PAUSE:
        raise InvalidValue(f"{name}.type", f"is {PAUSE!r}, which is not a decision; call pause()")
    if "id" in decision:
        raise InvalidValue(f"{name}.id", "is given by the Host; leave it out")
    length = len(values.encode(decision, name))
    if length > MOST_BYTES:
        raise InvalidValue(
            name,
            f"is {length:,} bytes of JSON, over the limit of {MOST_BYTES:,}; store it elsewhere "
            "and keep a reference",
        )
    if kind.startswith(_SCOPE):
        if kind not in _POSTED:
            raise InvalidValue(
                f"{name}.type", f"is {edges.came(kind)}; use one of {', '.join(_POSTED)}"
            )
        _check_fields(decision, kind, f"{path}." if path else "")
    checked: InboxEntry = decision
    return checked


def fault(entry: InboxEntry) -> str | None:
    """The error of a stored decision of the engine; None if it is valid."""
    try:
        kind = field_text(entry, "type")
        if not kind:
            raise InvalidValue("type", "is missing")
        if kind in _TEXTS:
            _check_fields(entry, kind, "")
    except InvalidValue as wrong:
        return str(wrong)
    return None


def left_over(before: Record, acted_on: Collection[int]) -> list[Checked]:
    """The events for the decisions in a Task that ends: each is recorded as ignored.

    Args:
        acted_on: Ids of the decisions that the run acted on; they are on record already.
    """
    why = "the Task ended before a run acted on the decision"
    return [
        Checked(
            vocabulary.APPROVAL_IGNORED,
            {"digest": field_text(entry, "digest"), "by": field_text(entry, "by"), "why": why},
        )
        for entry in before.inbox
        if entry["type"] not in (PAUSE, vocabulary.GRANT) and entry["id"] not in acted_on
    ]


def added(
    decision: InboxEntry | None, before: Record, inbox: tuple[InboxEntry, ...]
) -> tuple[InboxEntry, ...]:
    """An inbox with one more decision; its id is the version that carries it (R12).

    A person's answer gets the digest of the question that the Task shows, so it never answers
    another question (R3). The first decision about each request of the Task is accepted even if the
    inbox is full.

    Raises:
        InboxFull: Too many decisions wait already, or they are too long.
    """
    if decision is None:
        return inbox
    if decision["type"] == vocabulary.ANSWER and "digest" not in decision:
        shown = request_of(before.task) or {}
        if shown.get("kind") == "question" and "digest" in shown:
            decision = {**decision, "digest": shown["digest"]}
    entry: InboxEntry = freeze({**decision, "id": before.version + 1})
    if not _wanted(entry, before, inbox):
        waiting = [each for each in inbox if each["type"] != PAUSE]
        length = len(values.encode_checked([*waiting, entry], "inbox"))
        if len(waiting) >= MOST_ENTRIES or length > MOST_BYTES:
            raise InboxFull(before.task.id, len(waiting), length, MOST_ENTRIES, MOST_BYTES)
    return (*inbox, entry)


def regranted(grant: Mapping[str, Any], seq: int, before: Record) -> tuple[InboxEntry, ...] | None:
    """An inbox with a changed grant in place of an older one; None if it has a newer one.

    Raises:
        InvalidValue: An amount is not valid.
    """
    from ..plans.budget import granted_to  # Loads the plans' data, which few Hosts need.

    granted_to(grant)
    edges.whole(seq, "seq", 1)
    for entry in before.inbox:
        if entry["type"] == vocabulary.GRANT and entry["seq"] >= seq:
            return None
    rest = tuple(entry for entry in before.inbox if entry["type"] != vocabulary.GRANT)
    entry = {"type": vocabulary.GRANT, "grant": dict(grant), "seq": seq, "id": before.version + 1}
    return (*rest, freeze(entry))


def _wanted(entry: InboxEntry, before: Record, inbox: tuple[InboxEntry, ...]) -> bool:
    waiting = asked(before.task)
    if waiting is None:
        return False
    kind = waiting["kind"]
    return any(
        decides(entry, kind, digest) and not any(decides(each, kind, digest) for each in inbox)
        for digest in digests(waiting)
    )


def _check_fields(entry: InboxEntry, kind: str, path: str) -> None:
    for name in _REQUIRED.get(kind, ()):
        if name not in entry:
            raise InvalidValue(f"{path}{name}", f"is missing; a decision {kind!r} needs it")
    for name in _TEXTS[kind]:
        if name in entry:
            edges.text(entry[name], f"{path}{name}")
    if kind == vocabulary.APPROVAL:
        edges.flag(entry["granted"], f"{path}granted")
        edges.text(
            entry["digest"], f"{path}digest", empty=False,
            remedy="use the digest of the action, as the Task's note says",
        )  # fmt: skip
    elif kind == vocabulary.GRANT:
        from ..plans.budget import granted_to

        granted_to(entry["grant"], f"{path}grant")
        edges.whole(entry["seq"], f"{path}seq", 1)
    elif kind == vocabulary.RETUNE:
        if not isinstance(entry["limits"], Mapping):
            raise InvalidValue(
                f"{path}limits",
                f"must be a mapping of limits by name, not {type(entry['limits']).__name__}",
            )
        from ..plans.limits import Limits  # Loads the plans' data, which few Hosts need.

        Limits().changed(entry["limits"])

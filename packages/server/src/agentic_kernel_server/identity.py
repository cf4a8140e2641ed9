"""Identity: the wire's ids, labels, cursors and sequences, each encoded so that no two meet.

An agent id is any text, and the name of a kernel's Agent is a scoped name. So the id is quoted as
in a URL: a letter, a digit and ``_.-~`` stay, and every other byte becomes ``%XX``. The same holds
for the keys of labels.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import quote, unquote

from agentic_kernel import Task
from agentic_kernel_engine import Cursor

from .errors import Refused

_AGENT: Final = "agent/"
_TOOL: Final = "tool/"
_LABEL: Final = "label/"
PLACES: Final = 20
"""The bits of a sequence that hold the place of an event in its commit."""
LAST_SEQUENCE: Final = (1 << 63) - 1
LONGEST: Final = 128
"""The most characters of an id from a client."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def agent_name(agent_id: str) -> str:
    """The name of the kernel's Agent for an agent id."""
    return _AGENT + quote(agent_id, safe="")


def agent_id(name: str | None) -> str:
    """The agent id in the name of a kernel's Agent."""
    return unquote((name or "").removeprefix(_AGENT))


def tool_name(tool_id: str) -> str:
    """The name of the kernel's Agent that stands for a tool."""
    return _TOOL + quote(tool_id, safe="")


def tool_id(name: str | None) -> str:
    """The tool id in the name of the kernel's Agent that stands for it."""
    return unquote((name or "").removeprefix(_TOOL))


def label_key(key: str) -> str:
    """The metadata key of a label."""
    return _LABEL + quote(key, safe="")


def labels_of(task: Task) -> dict[str, str]:
    """The labels of an execution."""
    return {
        unquote(key.removeprefix(_LABEL)): str(value)
        for key, value in task.metadata.items()
        if key.startswith(_LABEL)
    }


def encoded_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Labels as metadata."""
    return {label_key(key): value for key, value in labels.items()}


def checked(value: str, name: str) -> str:
    """Check an id from a client.

    Raises:
        Refused: It is empty, too long, or has a character that cannot be printed.
    """
    if not value or len(value) > LONGEST or not value.isprintable():
        raise Refused(
            "VALIDATION_ERROR",
            f"{name} must have 1 to {LONGEST} printable characters; it is {ascii(value)[:60]}",
        )
    return value


def sequence(cursor: Cursor) -> int:
    """The sequence of the event with this id: it grows and is not dense."""
    version, place = cursor
    return (version << PLACES) + place + 1


def cursor_of(sequence: int) -> Cursor | None:
    """The cursor after the event with this sequence; None for 0, before every event."""
    if sequence <= 0:
        return None
    at = sequence - 1
    return at >> PLACES, at & ((1 << PLACES) - 1)


def page_cursor(task: Task) -> str:
    """The text by which a list goes on after this execution."""
    since = task.created_at - _EPOCH
    stamp = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return base64.urlsafe_b64encode(f"{stamp}:{task.id}".encode()).decode().rstrip("=")


def place_of(cursor: str) -> tuple[datetime, str]:
    """The place in the order of a list.

    Raises:
        Refused: It is not the text of a cursor.
    """
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        stamp, _, id = text.partition(":")
        moment = _EPOCH + timedelta(microseconds=int(stamp))
    except (ValueError, binascii.Error, UnicodeDecodeError, OverflowError):
        raise Refused(
            "VALIDATION_ERROR", "cursor is not one that a list returned; begin without a cursor"
        ) from None
    return moment, id


def shown(at: datetime) -> str:
    """A moment as the wire shows it."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")

"""Edges: checks of the callers' arguments, before the store opens or writes a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentic_kernel import InvalidValue
from agentic_kernel_engine import values
from agentic_kernel_engine.record import Record

_LONGEST = 86_400.0
"""The longest time to wait for a lock, in seconds: one day."""


def folder_path(folder: Any) -> Path:
    """The absolute path of a folder.

    Raises:
        InvalidValue: The value cannot be a path.
    """
    if not isinstance(folder, str | os.PathLike):
        raise InvalidValue("folder", f"must be a path, not {type(folder).__name__}")
    path = os.fspath(folder)
    if not isinstance(path, str):
        raise InvalidValue("folder", f"must be a path as a string, not as {type(path).__name__}")
    if not path:
        raise InvalidValue("folder", "is empty; name a folder")
    if "\0" in path:
        raise InvalidValue("folder", "holds a NUL character; remove it")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise InvalidValue(
            "folder", f"{ascii(path)[:60]} cannot be encoded as a path on this system; rename it"
        ) from None
    return Path(path).absolute()


def seconds(name: str, value: Any) -> float:
    """A number of seconds to wait.

    Raises:
        InvalidValue: The value is not a number from 0 to a day's seconds.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidValue(name, f"must be a number of seconds, not {type(value).__name__}")
    if not 0 <= value <= _LONGEST:  # true for NaN, too
        shown = value if isinstance(value, float) or abs(value) < 10**20 else "out of range"
        raise InvalidValue(name, f"is {shown}; use 0 to {_LONGEST:,.0f} seconds")
    return float(value)


def checked_text(name: str, value: Any) -> str:
    """A string that may be a name.

    Raises:
        InvalidValue: The value is not a string.
    """
    if not isinstance(value, str):
        raise InvalidValue(name, f"must be a string, not {type(value).__name__}")
    return value


def checked_record(name: str, value: Any) -> Record:
    """A record that the log can hold.

    Raises:
        InvalidValue: The value is not a record, or a part of it cannot be stored.
    """
    if not isinstance(value, Record):
        raise InvalidValue(name, f"must be a Record, not {type(value).__name__}")
    values.check_id(value.task.id, "task.id")
    if value.owner is not None:
        values.check_text(value.owner, f"{name}.owner")
    if value.parent is not None:
        values.check_id(value.parent, f"{name}.parent")
    for field, text in (("state", value.state), ("terms", value.terms)):
        if not isinstance(text, bytes | None):
            raise InvalidValue(
                f"{name}.{field}", f"must be JSON text as bytes, not {type(text).__name__}"
            )
    return value


def checked_events(events: Sequence[bytes]) -> None:
    """Refuse events that the log cannot hold.

    Raises:
        InvalidValue: They are not a sequence of JSON texts as bytes.
    """
    given: Any = events
    if type(given) not in (list, tuple) and (
        isinstance(given, bytes | str) or not isinstance(given, Sequence)
    ):
        raise InvalidValue("events", f"must be a list of JSON texts, not {type(given).__name__}")
    for text in given:
        if type(text) is not bytes:
            raise InvalidValue("events", f"must be JSON texts as bytes, not {type(text).__name__}")

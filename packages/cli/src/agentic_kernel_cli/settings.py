"""Settings: the defaults of a project, in a file of the current folder.

``agentic-kernel.toml`` has them, or else the table ``[tool.agentic-kernel]`` of ``pyproject.toml``.
They are defaults for new Tasks. They grant nothing to a stored Task, and they name no tools.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from agentic_kernel import InvalidValue

OWN: Final = "agentic-kernel.toml"
SHARED: Final = "pyproject.toml"
LARGEST: Final = 1 << 20
"""The most bytes of a file."""


@dataclass(frozen=True)
class Settings:
    """The defaults."""

    file: str = ""
    """The file that they are from; empty if there is none."""
    app: str | None = None
    runtime: str | None = None
    model: str | None = None
    state: str | None = None
    limits: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path) -> Settings:
        """Read the settings of a folder.

        Raises:
            InvalidValue: The file belongs to another user, is too large, is no TOML, or has a key
                or a value that is not known.
        """
        for name in (OWN, SHARED):
            table = _table(folder / name)
            if table is not None:
                return _checked(name, table, folder)
        return cls()


def _table(path: Path) -> Mapping[str, Any] | None:
    """The table of a file; None if there is none."""
    try:
        with path.open("rb") as file:
            text = file.read(LARGEST + 1)
            found = os.fstat(file.fileno())
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    if path.name == SHARED and b"agentic-kernel" not in text:
        return None
    if len(text) > LARGEST:
        raise InvalidValue(path.name, f"has more than {LARGEST:,} bytes; make it smaller")
    try:
        read: Any = tomllib.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise InvalidValue(path.name, f"is no TOML: {error}") from error
    if path.name == SHARED:
        read = read.get("tool", {})
        read = read.get("agentic-kernel") if isinstance(read, dict) else None
        if read is None:
            return None
    # A user who can write this file chooses the code that runs, so only the owner may.
    if found.st_uid not in (os.getuid(), 0) or found.st_mode & stat.S_IWOTH:
        raise InvalidValue(
            path.name,
            "belongs to another user, or every user may write it; take it over with chown and "
            "chmod o-w, or go to another folder",
        )
    if not isinstance(read, dict):
        raise InvalidValue(path.name, "has no table tool.agentic-kernel; make it a table")
    return read


def _checked(name: str, table: Mapping[str, Any], folder: Path) -> Settings:
    from agentic_kernel_engine import Limits

    texts = ("app", "runtime", "model", "state")
    for key, value in table.items():
        if key not in (*texts, "limits"):
            raise InvalidValue(
                name, f"{ascii(key)[:60]} is no setting; use {', '.join(texts)}, limits"
            )
        if key in texts and (not isinstance(value, str) or not value):
            raise InvalidValue(name, f"{key} must be a text that is not empty")
    limits = table.get("limits", {})
    if not isinstance(limits, dict):
        raise InvalidValue(name, "limits must be a table, e.g. limits = { max_cost = 0.5 }")
    for key, value in limits.items():
        if key not in Limits.__struct_fields__:
            raise InvalidValue(
                name,
                f"limits.{ascii(key)[:60]} is no limit; use {', '.join(Limits.__struct_fields__)}",
            )
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
            raise InvalidValue(name, f"limits.{key} must be a number, 0 or more")
    try:
        Limits(**limits)
    except InvalidValue as error:
        raise InvalidValue(name, f"limits.{error.path} {error.reason}") from error
    state = table.get("state")
    return Settings(
        name,
        app=table.get("app"),
        runtime=table.get("runtime"),
        model=table.get("model"),
        state=state,
        limits=limits,
    )

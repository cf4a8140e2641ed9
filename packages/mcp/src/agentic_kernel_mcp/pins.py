"""Pins: the digests of the tools that a person accepted, kept in a file or in memory."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from .errors import BadPins

VERSION: Final = 1
"""The version of the file's form."""
MAX_FILE: Final = 10_000_000
"""The longest file of pins, in bytes."""


class Pins:
    """The digest of each accepted tool, by server and tool.

    The first listing of a server is accepted as it is, because no earlier one is known. From
    then on a tool that is new or described in another way is withheld until a person accepts it.

    Args:
        path: A JSON file that keeps the pins from one process to the next. It is made with the
            first pin, and replaced as a whole. None to keep them in this object only.

    Raises:
        BadPins: The file cannot be read, or holds something else.
    """

    def __init__(self, path: Path | str | None = None) -> None:
        self.path: Final = None if path is None else Path(path)
        self._pins: dict[str, dict[str, str]] = {}
        if self.path is not None:
            self._pins = _read(self.path)

    def of(self, server: str) -> Mapping[str, str] | None:
        """The digests of a server's accepted tools by name; None if it was never listed."""
        return self._pins.get(server)

    def pin(self, server: str, tools: Mapping[str, str]) -> None:
        """Accept these tools of a server, beside those that are accepted already.

        Raises:
            BadPins: The file cannot be written; nothing is accepted then.
        """
        pins = self._pins if self.path is None else _read(self.path)
        pins = {**pins, server: {**pins.get(server, {}), **tools}}
        if self.path is not None:
            _write(self.path, pins)
        self._pins = pins


def digest(described: Mapping[str, Any]) -> str:
    """The SHA-256, in hexadecimal, of what a server says about a tool.

    All that a model or this program acts upon counts: name, title, description, schemas,
    annotations. Icons and ``_meta`` do not.
    """
    said = {
        name: value
        for name, value in described.items()
        if name not in ("icons", "_meta", "execution") and value is not None
    }
    text = json.dumps(said, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _read(path: Path) -> dict[str, dict[str, str]]:
    try:
        with path.open("rb") as file:
            text = file.read(MAX_FILE + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BadPins(f"{path} cannot be read: {error.strerror or error}") from None
    if len(text) > MAX_FILE:
        raise BadPins(f"{path} is longer than {MAX_FILE:,} bytes, so it is no file of pins")
    servers: Any = None
    try:
        data = json.loads(text)
        if data["version"] != VERSION:
            raise BadPins(
                f"{path} has version {data['version']!r:.40}; this package reads {VERSION}"
            )
        servers = data["servers"]
        sound = isinstance(servers, dict) and all(
            isinstance(tools, dict) and all(isinstance(each, str) for each in tools.values())
            for tools in servers.values()
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        sound = False
    if not sound:
        raise BadPins(f"{path} is not a file of pins; restore it, or remove it and look anew")
    return {server: dict(tools) for server, tools in servers.items()}


def _write(path: Path, pins: Mapping[str, Mapping[str, str]]) -> None:
    text = json.dumps({"version": VERSION, "servers": pins}, indent=2, sort_keys=True) + "\n"
    made = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file, made = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(file, "w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        Path(made).replace(path)
    except OSError as error:
        if made:
            with suppress(OSError):
                Path(made).unlink()
        raise BadPins(f"{path} cannot be written: {error.strerror or error}") from None

"""Whether this machine has what the command needs, and what to do when it has not."""

from __future__ import annotations

import platform
import secrets
import shutil
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from agentic_kernel import KernelError
from agentic_kernel_file import FileStore

from .local import INSTALL, find_model

_PACKAGES = ("core", "engine", "file", "cli")
_ROOM = 200 * 1024 * 1024
"""Bytes of free disk below which answers may not be kept."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    name: str
    ok: bool
    detail: str
    advice: str = ""
    """What to do when it is not ok."""


async def findings(folder: Path, model: Path | None) -> list[Finding]:
    """Everything that was looked at, in the order in which it matters."""
    return [
        _python(),
        *(_package(f"agentic-kernel-{name}") for name in _PACKAGES),
        await _state(folder),
        _room(folder),
        _package("agentic-kernel-local"),
        _package("xllamacpp"),
        _model(model),
    ]


def _python() -> Finding:
    detail = f"{platform.python_version()} at {sys.executable}"
    return Finding("python", sys.version_info >= (3, 11), detail, "install Python 3.11 or later")


def _package(name: str) -> Finding:
    try:
        return Finding(name, True, version(name))
    except PackageNotFoundError:
        return Finding(name, False, "not installed", INSTALL)


async def _state(folder: Path) -> Finding:
    """Open the folder as a run would: locks, schema and writability are all tried by joining."""
    host = secrets.token_hex(8)
    try:
        store = FileStore(folder)
        await store.join(host)
        try:
            alive = await store.alive(f"{host}:1")
        finally:
            await store.leave(host)
    except (KernelError, OSError) as error:
        return Finding("state", False, str(error), "choose another folder with --state")
    if not alive:
        advice = "file locks do not work on this file system; choose another with --state"
        return Finding("state", False, f"{folder}: locks are not held", advice)
    return Finding("state", True, f"{folder}: writable, locks held")


def _room(folder: Path) -> Finding:
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(there).free
    detail = f"{free / 2**30:.1f} GiB free"
    return Finding("disk", free >= _ROOM, detail, "make room, or choose another --state")


def _model(given: Path | None) -> Finding:
    try:
        path = find_model(given)
        size = path.stat().st_size
    except (KernelError, OSError) as error:
        return Finding("model", False, "none found", str(error))
    return Finding("model", True, f"{path} ({size / 1e6:.0f} MB)")

"""Doctor: checks that this machine has what the command needs, with a remedy for each failure."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from agentic_kernel import KernelError

from .database import Database
from .finding import Finding, package
from .kinds import COPILOT, LOCAL, install
from .local import find_model
from .place import Folder, Place, holds
from .upkeep import examined
from .vendors import VENDORS, address

_PACKAGES = ("core", "engine", "file", "cli")
_PATIENCE = 5.0
"""Seconds to wait for the answer of a server."""
_ROOM = 200 * 1024 * 1024
"""Bytes of disk that must be free, so that answers can be kept."""


async def findings(place: Place, runtime: str, model: str | None) -> list[Finding]:
    """Check everything and return the findings, the most basic first.

    Args:
        place: The state.
        runtime: The runtime that must work; the findings about the others are only information.
        model: The file of the local model; None for the default one.
    """
    found = [
        _python(),
        *(package(f"agentic-kernel-{name}") for name in _PACKAGES),
    ]
    if isinstance(place, Database):
        found += await examined(place)
    elif isinstance(place, Folder):
        found += [await _state(place), _room(place.path)]
    local = [package("agentic-kernel-local"), package("xllamacpp"), _model(model)]
    found += [replace(finding, needed=runtime == LOCAL) for finding in local]
    copilot = [package("agentic-kernel-copilot", install(COPILOT)), *_copilot()]
    found += [replace(finding, needed=runtime == COPILOT) for finding in copilot]
    for kind in VENDORS:
        found += [replace(each, needed=runtime == kind) for each in await _vendor(kind)]
    return found


def _copilot() -> list[Finding]:
    """Check for the Copilot CLI; no finding if the package that uses it is not installed."""
    try:
        from agentic_kernel_copilot import find_cli
    except ImportError:
        return []
    try:
        return [Finding("copilot CLI", True, str(find_cli()))]
    except KernelError as error:
        return [Finding("copilot CLI", False, "none found", str(error))]


async def _vendor(kind: str) -> list[Finding]:
    """Check that a vendor's package is installed, its key is set, and its server answers."""
    installed = package(f"agentic-kernel-{kind}", install(kind))
    if not installed.ok:
        return [installed]
    vendor, found = VENDORS[kind], [installed]
    if vendor.key:
        key = bool(os.environ.get(vendor.key))
        told = "is set" if key else "is not set"
        found.append(Finding(f"{kind} key", key, f"{vendor.key} {told}", f"set {vendor.key}"))
    found.append(await _server(kind))
    return found


async def _server(kind: str) -> Finding:
    """Connect to the server and send nothing, so that no key leaves this machine."""
    name, where = f"{kind} server", urlsplit(address(kind))
    advice = f"check the network, or the address in {VENDORS[kind].base}"
    try:
        port = where.port or {"https": 443, "http": 80}[where.scheme]
        async with asyncio.timeout(_PATIENCE):
            _, writer = await asyncio.open_connection(where.hostname, port)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
    except (OSError, ValueError, KeyError) as error:
        why = str(error) or "no answer"
        return Finding(name, False, f"{where.hostname}: {why}", advice)
    return Finding(name, True, f"{where.hostname}:{port} answers")


def _python() -> Finding:
    detail = f"{platform.python_version()} at {sys.executable}"
    return Finding("python", sys.version_info >= (3, 11), detail, "install Python 3.11 or later")


async def _state(folder: Folder) -> Finding:
    """Open the folder as a run would; joining tests the locks, the schema and write access."""
    try:
        alive = await holds(folder)
    except (KernelError, OSError) as error:
        return Finding("state", False, str(error), "choose another folder with --state")
    if not alive:
        advice = "file locks do not work here; choose a folder on another file system with --state"
        return Finding("state", False, f"{folder}: a lock is not held", advice)
    return Finding("state", True, f"{folder}: writable, locks held")


def _room(folder: Path) -> Finding:
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(there).free
    detail = f"{free / 2**30:.1f} GiB free"
    return Finding(
        "disk",
        free >= _ROOM,
        detail,
        f"delete files until {_ROOM >> 20} MiB are free, or choose another folder with --state",
    )


def _model(given: str | None) -> Finding:
    try:
        path = find_model(given)
        size = path.stat().st_size
    except (KernelError, OSError) as error:
        return Finding("model", False, "none found", str(error))
    return Finding("model", True, f"{path} ({size / 1e6:.0f} MB)")

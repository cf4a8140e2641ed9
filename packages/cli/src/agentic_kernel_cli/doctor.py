"""Doctor: checks that this machine has what the command needs, with a remedy for each failure."""

from __future__ import annotations

import asyncio
import platform
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agentic_kernel import CannotStart, InvalidValue, KernelError
from agentic_kernel_engine.discovery import OBSERVERS, STORES, Found, Unusable, options_of
from agentic_kernel_engine.discovery import found as found_in
from agentic_kernel_engine.faults import said

from .database import Database
from .finding import Finding, package
from .kinds import EXTRAS, LOCAL, check_known, install, offered
from .local import find_model
from .place import Folder, Place, holds
from .text import label
from .upkeep import examined

if TYPE_CHECKING:
    from .application import Application

_PACKAGES = ("core", "engine", "file", "cli")
_PRODUCTS = ("guard", "mcp", "new", "server")
"""Packages that bring commands or flags of their own, and that a run does not need."""
_PARTS = ("otel", "postgres")
"""Packages with a store or an observer; installed ones are found as such."""
_PATIENCE = 10.0
"""Seconds to wait for all checks of one entry."""
_REASON = 300
"""The most characters of a foreign exception that are shown."""
_ROOM = 200 * 1024 * 1024
"""Bytes of disk that must be free, so that answers can be kept."""


async def findings(
    place: Place,
    runtime: str,
    model: str | None,
    app: Application | None = None,
    *,
    alone: bool = False,
    observers: Sequence[str] = (),
) -> list[Finding]:
    """Check everything and return the findings, the most basic first.

    Packages that are not installed, and that the runtime does not need, are one finding together.

    Args:
        place: The state.
        runtime: The runtime that must work, or empty. Of the others only a package that is broken
            is a failure; a key or a server that they lack is only information.
        model: The file of the local model; None for the default one.
        app: The app of the command, which must work, too.
        alone: True to leave the other runtimes out, and to take a broken store or observer that
            is not asked for as information.
        observers: The observers that must work, as ``--observer`` names them.
    """
    found = [
        _python(),
        *(package(f"agentic-kernel-{name}") for name in _PACKAGES),
    ]
    if app is not None:
        found.append(await _app(app, place))
        if runtime and app.known and not app.serves(runtime):
            try:
                check_known(runtime, app.name, app.kinds or ())
            except InvalidValue as error:
                found.append(Finding("runtime", False, runtime, error.reason))
    if isinstance(place, Database):
        found += await examined(place)
    else:
        found.append(await _state(place))
        if isinstance(place, Folder):
            found.append(_room(place.path))
    there = [kind for kind in offered() if runtime == kind or not alone]
    lacking = [kind for kind in EXTRAS if kind not in offered()]
    if runtime == LOCAL or LOCAL in there:
        local = [package("agentic-kernel-local"), package("xllamacpp"), _model(model)]
        found += [replace(finding, needed=runtime == LOCAL) for finding in local]
    others = [name for name in there if name != LOCAL or offered()[name].problem]
    checked = await asyncio.gather(*(_entry("runtime", offered()[name]) for name in others))
    for name, findings in zip(others, checked, strict=True):
        found += [replace(each, needed=each.needed or runtime == name) for each in findings]
    if runtime in lacking and runtime != LOCAL:
        found.append(package(f"agentic-kernel-{runtime}", install(runtime)))
    for product in _PRODUCTS:
        one = package(f"agentic-kernel-{product}")
        if one.ok:
            found.append(replace(one, needed=False))
        else:
            lacking.append(product)
    lacking += [part for part in _PARTS if not package(f"agentic-kernel-{part}").ok]
    asked = {text.partition("?")[0] for text in observers}
    for word, group in (("store", STORES), ("observer", OBSERVERS)):
        entries = _of(group)
        checked = await asyncio.gather(*(_entry(word, entry) for entry in entries))
        for entry, findings in zip(entries, checked, strict=True):
            wanted = group == OBSERVERS and entry.name in asked
            found += [
                replace(each, needed=wanted or (each.needed and not alone)) for each in findings
            ]
    for text in observers:
        found += await _observer(text)
    spared = [name for name in lacking if name != runtime]
    if spared:
        advice = f"to add one, put its name for NAME: {install('NAME')}"
        found.append(Finding("not installed", False, ", ".join(spared), advice, needed=False))
    return list({(each.name, each.detail): each for each in found}.values())


async def _app(app: Application, place: Place) -> Finding:
    """Open the app as a run would, and let it run nothing."""
    from .application import check_place

    try:
        check_place(app, place)
        if app.takes_store:
            async with place.opened() as store, app.opened(store, last=False):
                pass
        else:
            async with app.opened(None, last=False):
                pass
    except InvalidValue as error:
        return Finding("app", False, app.name, error.reason)
    except Exception as error:
        why = f"{type(error).__name__}: {said(error)[:_REASON]}"
        return Finding("app", False, app.name, f"{why}; correct --app, or the module")
    kinds = "every kind" if app.kinds is None else ", ".join(sorted(app.kinds))
    return Finding("app", True, f"{app.name} serves {kinds}")


async def _observer(text: str) -> list[Finding]:
    """Make and close an observer as a run would; return its fault, or an empty list."""
    from .observers import Named

    try:
        await Named([text]).close()
    except (CannotStart, InvalidValue, Unusable) as error:
        advice = error.reason
    except Exception as error:
        advice = f"{type(error).__name__}: {said(error)[:_REASON]}"
    else:
        return []
    name = label(text.partition("?")[0], 60)
    return [Finding(f"observer {name}", False, "cannot be used as given", advice)]


def _of(group: str) -> Sequence[Found]:
    return list(found_in(group).values())


async def _entry(word: str, there: Found) -> list[Finding]:
    """Load an entry of a package and run its checks.

    A finding is needed only if the package is broken: if it cannot be loaded, or its checks fail to
    run.
    """
    head, target = there.distribution, f"{word} {there.name}" if there.group else there.name
    try:
        entry = there.load()
        options = ", ".join(map(str, options_of(entry)))
    except Unusable as error:
        return [Finding(target, False, f"{head} {there.version}", error.reason)]
    detail = f"{there.version}: {target}" + (f", {entry.summary}" if entry.summary else "")
    said_of_options = f"; options: {options}" if options else ""
    told = [Finding(head, True, detail + said_of_options, needed=False)]
    if entry.checks is None:
        return told
    try:
        async with asyncio.timeout(_PATIENCE):
            checks = await entry.checks()
        for each in checks:
            words = str(each.detail), str(each.advice)
            told.append(Finding(str(each.name), bool(each.ok), *words, needed=False))
    except (Exception, SystemExit) as error:
        why = f"{type(error).__name__}: {said(error)[:_REASON]}"
        advice = f"repair or uninstall {head}: its checks must return a list of Check"
        told.append(Finding(target, False, f"its checks failed: {why}", advice))
    return told


def _python() -> Finding:
    detail = f"{platform.python_version()} at {sys.executable}"
    return Finding("python", sys.version_info >= (3, 11), detail, "install Python 3.11 or later")


async def _state(folder: Place) -> Finding:
    """Open the place as a run would; joining tests the locks, the schema and write access."""
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

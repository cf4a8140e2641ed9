"""Breaks of the public interface against the release before, and the list of those that are meant.

Public are the names that a package, or a documented folder of it, exports in ``__all__``.
"""

from __future__ import annotations

import logging
import subprocess
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Final

import griffe

from .finding import Finding

BEFORE: Final = "21c6eb3"
"""The commit of version 0.1.0."""
MEANT: Final = Path(__file__).with_name("breaks.toml")
"""Each break that is meant, and what a user does instead."""


def interface(root: Path) -> Finding:
    """No break that is not listed, and no listed break that is none any more."""
    with tempfile.TemporaryDirectory() as name:
        before = Path(name)
        try:
            unpack(root, before)
        except subprocess.CalledProcessError as fault:
            said = fault.stderr.decode(errors="replace").strip()
            return Finding("interface", False, f"no commit {BEFORE}: {said}; fetch the history")
        found = set(breaks(before, root))
    return judged(found, tomllib.loads(MEANT.read_text(encoding="utf-8")))


def judged(found: set[str], meant: Mapping[str, str]) -> Finding:
    """The finding for these breaks."""
    unlisted, gone = sorted(found - set(meant)), sorted(set(meant) - found)
    if unlisted or gone:
        said = [f"{each} is not in {MEANT.name}" for each in unlisted]
        said += [f"{each} is in {MEANT.name} and is no break" for each in gone]
        return Finding("interface", False, "; ".join(said))
    return Finding("interface", True, f"{len(found)} breaks against {BEFORE}, all of them listed")


def unpack(root: Path, folder: Path) -> None:
    """Write the files of the release before into a folder."""
    packed = subprocess.run(
        ["git", "archive", BEFORE, "packages", "conformance"],
        cwd=root, check=True, capture_output=True,
    ).stdout  # fmt: skip
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")


def breaks(before: Path, after: Path) -> Iterator[str]:
    """Each break between two trees: the name and what happened to it."""
    names = sorted(
        path.parent.name
        for folder in ("packages/*/src", "conformance/src")
        for path in before.glob(f"{folder}/*/__init__.py")
    )
    old, new = _loaded(before, names), _loaded(after, names)
    for name in names:
        if name not in new.members:
            yield f"{name}: the package was removed"
            continue
        for package in list(_packages(old[name])):
            path = package.path
            if not package.exports:
                continue
            try:
                now = new[path]
            except KeyError:
                yield f"{path}: the package was removed"
                continue
            # Only what the package exports counts, and not the modules in which it lives.
            for member in [each.name for each in package.members.values() if _is_module(each)]:
                del package.members[member]
            for each in griffe.find_breaking_changes(package, now):
                yield f"{each.obj.path}: {each.kind.value[0].lower()}{each.kind.value[1:]}"


def _loaded(root: Path, names: list[str]) -> griffe.ModulesCollection:
    folders = [*root.glob("packages/*/src"), root / "conformance" / "src"]
    logger = logging.getLogger("griffe")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        loader = griffe.GriffeLoader(search_paths=folders)
        for name in names:
            if any((folder / name).is_dir() for folder in folders):
                loader.load(name)
        loader.resolve_aliases(implicit=False)
    finally:
        logger.setLevel(level)
    return loader.modules_collection


def _is_module(member: griffe.Object | griffe.Alias) -> bool:
    return not member.is_alias and member.is_module


def _packages(module: griffe.Module) -> Iterator[griffe.Module]:
    """A package and the public packages in it."""
    yield module
    for member in list(module.members.values()):
        if isinstance(member, griffe.Module) and member.is_package and member.name[:1] != "_":
            yield from _packages(member)

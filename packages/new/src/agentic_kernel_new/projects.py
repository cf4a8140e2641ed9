"""Projects: a sibling's folder is written once, and a newer template comes in by `recopy`."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path, PurePosixPath
from typing import Any, Final

import yaml
from packaging.version import InvalidVersion, Version

from agentic_kernel import InvalidValue

from .errors import FolderTaken, NewerTemplate, NoAnswers
from .rendering import render, template_version
from .sibling import Sibling

ANSWERS: Final = ".copier-answers.yml"
"""The file of the answers and of the digests of the files that a template made."""
_LARGEST: Final = 65_536
"""The most bytes of that file."""


def create(sibling: Sibling, parent: Path) -> Path:
    """Write a new package into the folder with its name; all of it appears at once.

    Args:
        sibling: The names and texts of the package.
        parent: The folder above; it is there already.

    Returns:
        The folder of the package.

    Raises:
        FolderTaken: A file or folder has this name already.
        InvalidValue: ``parent`` is not a folder.
    """
    folder = parent / sibling.name
    if not parent.is_dir():
        raise InvalidValue(
            "--path", f"{ascii(str(parent))} is not a folder; make it, or use another"
        )
    if os.path.lexists(folder):
        raise FolderTaken(folder)
    with _rendered(sibling, parent) as made:
        _write_answers(made, _digests(made))
        try:
            made.rename(folder)
        except OSError:
            if os.path.lexists(folder):  # Another process was faster.
                raise FolderTaken(folder) from None
            raise
    return folder


@dataclass(frozen=True, kw_only=True)
class Recopied:
    """The files of a `recopy`, each with ``/`` between its parts."""

    written: tuple[str, ...]
    """Files that the newer template changed or added, and that were replaced or made."""
    kept: tuple[str, ...]
    """Files that both the author and the newer template changed; they stay as they are."""
    dropped: tuple[str, ...]
    """Files that the newer template does not make any more; they stay as they are."""
    proposals: Mapping[str, str]
    """The text of the newer template for each file of `kept`."""


def recopy(folder: Path, *, dry_run: bool = False, settle: bool = False) -> Recopied:
    """Bring the installed template into a package, without a change to the author's own work.

    A file is replaced only if it is as a template made it. A file that the author changed stays,
    and so does the absence of one that the author removed. Files that no template made are not
    looked at.

    Args:
        folder: The folder of the package.
        dry_run: True to write nothing.
        settle: True to count the files of `Recopied.kept` as settled, so that later runs name them
            only if the template changes them again.

    Raises:
        NoAnswers: It has no answers, or they cannot be read.
        NewerTemplate: A newer template made the package.
        InvalidValue: An answer does not have its form, or a file of the template lies behind a
            symbolic link.
    """
    sibling, recorded = _read_answers(folder)
    written, kept, proposals = [], [], {}
    digests: dict[str, str] = {}
    with _rendered(sibling, None) as made:
        fresh = _digests(made)
        for name in fresh:  # All of them, before one is written.
            _check_inside(folder, folder / name)
        for name, digest in fresh.items():
            target = folder / name
            before = recorded.get(name)
            digests[name] = digest
            now = _digest(target) if target.is_file() else None
            if digest in (before, now) or (now is None and before is not None):
                continue  # The template has no change, or none that the author has not made.
            if now == before or now is None:
                written.append(name)
                if not dry_run:
                    _place(made / name, target)
            else:
                kept.append(name)
                if not settle:
                    digests.pop(name)
                    digests.update({} if before is None else {name: before})
                proposals[name] = (made / name).read_text(encoding="utf-8")
        dropped = sorted(recorded.keys() - fresh.keys())
        if not dry_run:
            _write_answers(made, digests)
            _place(made / ANSWERS, folder / ANSWERS)
    return Recopied(
        written=tuple(written), kept=tuple(kept), dropped=tuple(dropped), proposals=proposals
    )


@contextmanager
def _rendered(sibling: Sibling, parent: Path | None) -> Iterator[Path]:
    """The package in a folder that is removed at the end, unless it is moved away."""
    with tempfile.TemporaryDirectory(
        prefix=".agentic-kernel-new-", dir=parent, ignore_cleanup_errors=True
    ) as above:
        made = Path(above, sibling.name)
        render(sibling, made)
        yield made


def _digests(folder: Path) -> dict[str, str]:
    """The digest of each file by its path, in order; the answers are left out."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    found = {path.relative_to(folder).as_posix(): _digest(path) for path in paths}
    found.pop(ANSWERS, None)
    return found


def _digest(path: Path) -> str:
    """The digest of a file; a version control system may have changed the ends of its lines."""
    return hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest()


def _write_answers(folder: Path, digests: Mapping[str, str]) -> None:
    with (folder / ANSWERS).open("a", encoding="utf-8") as file:
        yaml.safe_dump({"files": dict(digests)}, file)


def _read_answers(folder: Path) -> tuple[Sibling, Mapping[str, str]]:
    path = folder / ANSWERS
    try:
        with path.open("rb") as file:
            text = file.read(_LARGEST + 1)
    except OSError as error:
        raise NoAnswers(path, f"cannot be read ({error.strerror})") from error
    if len(text) > _LARGEST:
        raise NoAnswers(path, f"has more than {_LARGEST:,} bytes")
    try:
        found: Any = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise NoAnswers(path, f"is not valid YAML ({type(error).__name__})") from error
    known = {"template", "files", *(each.name for each in fields(Sibling))}
    if not isinstance(found, dict) or found.keys() != known:
        raise NoAnswers(path, f"does not have the keys {', '.join(sorted(known))}")
    digests = found.pop("files")
    if not isinstance(digests, dict) or not all(map(_is_file, digests.items())):
        raise NoAnswers(path, "does not have a digest for each path under `files`")
    made_by, installed = found.pop("template"), template_version()
    try:
        newer = Version(made_by) > Version(installed)
    except (InvalidVersion, TypeError) as error:
        raise NoAnswers(path, "does not have a version under `template`") from error
    if newer:
        raise NewerTemplate(made_by, installed)
    return Sibling(**found), digests


def _is_file(item: tuple[object, object]) -> bool:
    name, digest = item
    if not isinstance(name, str) or not isinstance(digest, str):
        return False
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts


def _check_inside(folder: Path, target: Path) -> None:
    """Refuse a path that a symbolic link would lead elsewhere."""
    if target.is_symlink() or not target.resolve().is_relative_to(folder.resolve()):
        raise InvalidValue(
            "FOLDER", f"{ascii(str(target))} lies behind a symbolic link; replace it by a file"
        )


def _place(source: Path, target: Path) -> None:
    """Copy a file into its place; a crash leaves the old one or the new one."""
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f".{target.name}.new")
    shutil.copyfile(source, beside)
    beside.replace(target)

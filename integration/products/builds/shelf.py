"""Shelf: the outputs of finished targets, kept by the digest of their content."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Outputs = Mapping[str, Mapping[str, Any]]
"""The outputs of one finished target: by their names, ``sha256`` and ``mode``."""


class MistakeError(Exception):
    """A mistake of the user; the message names the thing and the remedy."""


class Shelf:
    """Files in one folder, named after the digest of their content.

    A file appears under its name in one step, so several processes may share the folder. A file
    that a crash damaged counts as missing, because its digest is checked before it is used.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, root: Path, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Copy these files of a folder, and return their digests and modes.

        Raises:
            OSError: A file is missing, or cannot be copied.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        kept = {}
        for name in names:
            with _beside(self._folder / "new") as copy:
                shutil.copyfile(root / name, copy)
                digest = content_digest(copy)
                mode = (root / name).stat().st_mode & 0o777
                copy.replace(self._folder / digest)
            kept[name] = {"sha256": digest, "mode": mode}
        return kept

    def restore(self, root: Path, outputs: Outputs) -> bool:
        """Put the outputs back into a folder; False if one of them is not on the shelf.

        Files are written only if all of them are on the shelf.

        Raises:
            OSError: A file cannot be written.
        """
        sources = {name: self._folder / each["sha256"] for name, each in outputs.items()}
        for source in sources.values():
            if not source.is_file() or content_digest(source) != source.name:
                return False
        for name, source in sources.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            with _beside(root / name) as copy:
                shutil.copyfile(source, copy)
                copy.chmod(outputs[name]["mode"])
                copy.replace(root / name)
        return True

    def drop_all_but(self, wanted: Collection[str]) -> int:
        """Remove every file whose digest is not wanted; return their number."""
        dropped = 0
        for path in self._folder.glob("*"):
            if path.name not in wanted:
                with suppress(FileNotFoundError):
                    path.unlink()
                    dropped += 1
        return dropped


def changed(root: Path, outputs: Outputs) -> list[str]:
    """The names of the outputs that are missing from a folder, or have another content there."""
    return [
        name
        for name, each in outputs.items()
        if not (root / name).is_file() or content_digest(root / name) != each["sha256"]
    ]


def inputs_digest(root: Path, patterns: Iterable[str]) -> str:
    """A digest of the names and the contents of all files that fit one of the patterns.

    A file whose path has a part that begins with a dot fits only a pattern that has such a part.

    Raises:
        MistakeError: A pattern fits no file.
    """
    found: dict[str, str] = {}
    for pattern in patterns:
        hidden = _hidden(Path(pattern))
        files = [
            path
            for path in root.glob(pattern)
            if path.is_file() and (hidden or not _hidden(path.relative_to(root)))
        ]
        if not files:
            raise MistakeError(f"no file fits the input {pattern!r} in {root}; make it first")
        for path in files:
            found[path.relative_to(root).as_posix()] = content_digest(path)
    return hashlib.sha256(json.dumps(sorted(found.items())).encode()).hexdigest()


def content_digest(path: Path) -> str:
    """The SHA-256 of a file's content, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


async def aside(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Make a call in a thread of its own, so that the event loop does not wait for the disk."""
    thread = ThreadPoolExecutor(1, "builds")
    try:
        return await asyncio.wrap_future(thread.submit(call, *args, **kwargs))
    finally:
        thread.shutdown(wait=False)


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """A new file in the folder of another one; removed at the end if it is still there."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".part-", delete=False) as file:
        name = Path(file.name)
    try:
        yield name
    finally:
        name.unlink(missing_ok=True)

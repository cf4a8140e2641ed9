"""Workspace: the one folder in which the command's tools write, opened descriptor by descriptor.

Each part of a path is opened inside the folder that was opened before it, and never through a
link. So a folder that is replaced by a link, at any moment, cannot lead out of the workspace.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final

from .text import label, visible

Identity = tuple[int, int]
"""Device and inode of a folder; they stay the same if its name is given to another folder."""

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def identity_of(folder: Path) -> Identity:
    """The identity of a folder as it is now.

    Raises:
        OSError: The folder does not exist, or is a link or a file.
    """
    with _opened(folder) as descriptor:
        return _identity(descriptor)


def write_new(workspace: Path, path: str, content: str, *, identity: Identity | None = None) -> str:
    """Write a new file inside a folder, with mode 0600; an existing file is never replaced.

    Args:
        workspace: The folder.
        path: The file's path, inside the folder; the folders on the way must exist.
        content: Written as UTF-8.
        identity: The folder's identity when it was granted; None to take any folder.

    Returns:
        The path inside the folder.

    Raises:
        ValueError: The path leads out of the folder or through a link, or has an invisible
            character; a folder on the way was moved; the folder is not the one that was granted;
            or the content cannot be encoded.
        OSError: The file cannot be written, or exists already.
    """
    data = content.encode()
    root = workspace.resolve(strict=True)
    with ExitStack() as stack:
        top = stack.enter_context(_opened(root))
        if identity is not None and _identity(top) != identity:
            raise ValueError(
                "the workspace is not the folder that was granted; start the command again"
            )
        names: list[str] = []
        folders = [top]
        *parents, last = _parts(root, path)
        for part in parents:
            if part == "..":
                # Go back to the folder that was opened before, and not to its parent on disk now.
                folders.pop()
                names.pop()
            else:
                folders.append(stack.enter_context(_opened(part, folders[-1])))
                names.append(part)
        descriptor = os.open(last, _NEW, 0o600, dir_fd=folders[-1])
        with os.fdopen(descriptor, "wb") as file:
            if not _nested(folders):
                os.unlink(last, dir_fd=folders[-1])
                raise ValueError("a folder of the path was moved during the write; try again")
            file.write(data)
    return "/".join([*names, last])


_OUT: Final = "the path leads out of the workspace; name a file inside it"


def _parts(root: Path, path: str) -> list[str]:
    """The parts of a path inside the folder; at least one."""
    if not visible(path):
        raise ValueError(
            "the path has a control character or one that cannot be seen; use plain names"
        )
    if path.startswith("/"):
        try:
            path = Path(path).relative_to(root).as_posix()
        except ValueError:
            raise ValueError(_OUT) from None
    parts = [part for part in path.split("/") if part not in ("", ".")]
    depth = 0
    for part in parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            break
    if depth < 1:
        raise ValueError(_OUT)
    if parts[-1] == "..":
        raise ValueError(f"{label(path, 80)} is a folder; name a file")
    return parts


def _nested(folders: Sequence[int]) -> bool:
    """True if each of these open folders is still directly inside the one before it."""
    for outer, inner in pairwise(folders):
        above = os.open("..", _FOLDER, dir_fd=inner)
        try:
            if _identity(above) != _identity(outer):
                return False
        finally:
            os.close(above)
    return True


@contextmanager
def _opened(folder: str | Path, inside: int | None = None) -> Iterator[int]:
    """Open a folder that is not a link; yield its descriptor.

    Raises:
        ValueError: ``inside`` is given, and the folder is a link.
        OSError: The folder cannot be opened.
    """
    try:
        descriptor = os.open(folder, _FOLDER, dir_fd=inside)
    except OSError:
        if inside is not None and _is_link(str(folder), inside):
            raise ValueError(
                f"{label(str(folder), 80)} is a link, and leads out of the workspace; "
                "name a file in a folder"
            ) from None
        raise
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_link(name: str, inside: int) -> bool:
    try:
        os.readlink(name, dir_fd=inside)
    except OSError:
        return False
    return True


def _identity(descriptor: int) -> Identity:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino

"""The errors of this package; a bad name or text is an `InvalidValue` of the kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentic_kernel import KernelError


class FolderTaken(KernelError, FileExistsError):
    """Error for a folder that is there already; nothing is written.

    Attributes:
        path: The folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(path)

    def __str__(self) -> str:
        return f"{ascii(str(self.path))} is there already; use another name, or another --path"


class NoAnswers(KernelError, LookupError):
    """Error for a folder without the answers of a sibling, or with answers that cannot be read.

    Attributes:
        path: The file of the answers.
        reason: The cause.
    """

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(path, reason)

    def __str__(self) -> str:
        return (
            f"{ascii(str(self.path))} {self.reason}; name the folder of a package that "
            "`agentic-kernel new` made, and restore this file from its history"
        )


class NewerTemplate(KernelError):
    """Error for a package that a newer template made; nothing is written.

    Attributes:
        made_by: The version that made the package.
        installed: The version that is installed.
    """

    def __init__(self, made_by: str, installed: str) -> None:
        self.made_by = made_by
        self.installed = installed
        super().__init__(made_by, installed)

    def __str__(self) -> str:
        return (
            f"version {self.made_by} of the template made this package, and {self.installed} is "
            "installed; upgrade agentic-kernel-new"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.made_by, self.installed)

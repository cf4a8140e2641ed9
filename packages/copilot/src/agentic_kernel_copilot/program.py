"""Program: finds the program of the Copilot CLI."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from pathlib import Path
from typing import Final

from agentic_kernel import CannotStart

CLI_VERSION: Final = "1.0.102"
"""The version of the CLI that the SDK of this package speaks with."""
CLI_VARIABLE: Final = "COPILOT_CLI_PATH"
"""The environment variable that names the program if no path is given."""
INSTALL: Final = f"npm install -g @github/copilot@{CLI_VERSION}"
_MACHINES: Final = {"x86_64": "x64", "AMD64": "x64", "aarch64": "arm64", "arm64": "arm64"}


def find_cli(given: str | os.PathLike[str] | None = None) -> Path:
    """Find the CLI's own program, not npm's script that starts it.

    The script would be a process between the Host and the CLI, and would outlive a killed Host.

    Args:
        given: The program, npm's script, or a folder that npm installed into; None for the
            environment variable ``COPILOT_CLI_PATH``, or ``copilot`` on the path.

    Raises:
        CannotStart: The program is not found; the message says what to install.
    """
    named = os.fspath(given) if given is not None else os.environ.get(CLI_VARIABLE)
    found = named or shutil.which("copilot")
    if not found:
        raise CannotStart(
            f"there is no Copilot CLI; run {INSTALL}, or name it by cli_path or {CLI_VARIABLE}"
        )
    path = Path(found).expanduser().resolve()
    for each in (path, *_beside(path)):
        if each.is_file() and each.suffix != ".js" and os.access(each, os.X_OK):
            return each
    raise CannotStart(f"there is no Copilot CLI at {found}; run {INSTALL}, and give its path")


def _beside(path: Path) -> list[Path]:
    """The paths at which npm puts the program, relative to its folder or to its script."""
    machine = _MACHINES.get(platform.machine(), platform.machine())
    package = f"copilot-{sys.platform}-{machine}"
    return [
        path / "node_modules" / "@github" / package / "copilot",
        path.parent.parent / package / "copilot",
        path.parent / "node_modules" / "@github" / package / "copilot",
    ]

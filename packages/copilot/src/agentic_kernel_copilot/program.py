"""Program: where the Copilot CLI is."""

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
"""The environment variable that names the program, where no path is given."""
INSTALL: Final = f"npm install -g @github/copilot@{CLI_VERSION}"
_MACHINES: Final = {"x86_64": "x64", "AMD64": "x64", "aarch64": "arm64", "arm64": "arm64"}


def find_cli(given: str | os.PathLike[str] | None = None) -> Path:
    """The CLI's own program, not the script by which npm starts it.

    The script would be a process between the Host and the CLI, which outlives a killed Host.

    Args:
        given: The program, npm's script, or a folder that npm installed into; None for the
            environment variable ``COPILOT_CLI_PATH``, or ``copilot`` on the path.

    Raises:
        CannotStart: There is none; says what to install.
    """
    named = os.fspath(given) if given is not None else os.environ.get(CLI_VARIABLE)
    found = named or shutil.which("copilot")
    if not found:
        raise CannotStart(
            f"there is no Copilot CLI: {INSTALL}, or say where it is by cli_path or {CLI_VARIABLE}"
        )
    path = Path(found).expanduser().resolve()
    for each in (path, *_beside(path)):
        if each.is_file() and each.suffix != ".js" and os.access(each, os.X_OK):
            return each
    raise CannotStart(f"there is no Copilot CLI at {found}: {INSTALL}, and give its path")


def _beside(path: Path) -> list[Path]:
    """Where npm puts the program, seen from its folder or from its script."""
    machine = _MACHINES.get(platform.machine(), platform.machine())
    package = f"copilot-{sys.platform}-{machine}"
    return [
        path / "node_modules" / "@github" / package / "copilot",
        path.parent.parent / package / "copilot",
        path.parent / "node_modules" / "@github" / package / "copilot",
    ]

"""The command that installs a distribution of this project: one place for a release and before it.

Before a release our names are free on the package index, and a stranger may own them. Then the
command takes the wheels that `nox -s wheelhouse` makes of a checkout.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

WHEELHOUSE: Final = "wheelhouse"
"""The folder that `nox -s wheelhouse` makes, with the wheels and the file ``constraints.txt``."""


def command(requirement: str, release: str, wheels: str = WHEELHOUSE) -> str:
    """The command for a version of this project.

    Args:
        requirement: The distribution to install, e.g. ``agentic-kernel-cli[local]``.
        release: The version; one with ``.dev`` is not on an index.
        wheels: The folder of the wheels, as a shell reads it.
    """
    wanted = f"'{requirement}'" if "[" in requirement else requirement
    if ".dev" in release:
        return f"pip install -f {wheels} -c {wheels}/constraints.txt {wanted}"
    return f"pip install {wanted}"


def install(requirement: str) -> str:
    """The command for the version that is installed here, for an error or a report."""
    release = version("agentic-kernel-engine")
    where = " (nox -s wheelhouse, in a checkout, makes that folder)" if ".dev" in release else ""
    return command(requirement, release) + where

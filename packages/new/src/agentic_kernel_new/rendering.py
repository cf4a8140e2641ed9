"""Rendering: the files that the templates make for one sibling, by Copier."""

from __future__ import annotations

from dataclasses import asdict
from importlib.metadata import version
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Final

from agentic_kernel_engine.install import WHEELHOUSE, command

from .sibling import Sibling

_COMMON: Final = "common"
"""The part of the templates that every kind has; the other part has the name of the kind."""
_FIRST: Final = "0.1.0"
"""The version of a new package."""
_WHEELS: Final = '"$WHEELHOUSE"'
"""The folder of our wheels in a README: it lies in a checkout, never in the package's folder."""


def template_version() -> str:
    """The version of the templates, which is that of this package."""
    return version("agentic-kernel-new")


def render(sibling: Sibling, folder: Path) -> None:
    """Write all files of a sibling into a folder, which may not be there yet.

    It asks nothing, runs no code of a template but Jinja's, and reads no settings of the user.
    """
    import copier

    data = answers_for(sibling)
    with as_file(files(__package__) / "templates") as templates:
        for part in (_COMMON, sibling.kind):
            copier.run_copy(
                str(templates),
                folder,
                {**data, "part": part},
                settings=copier.Settings(),
                defaults=True,
                overwrite=True,
                quiet=True,
                skip_tasks=True,
            )


def answers_for(sibling: Sibling) -> dict[str, Any]:
    """The variables of the templates."""
    release = version("agentic-kernel-engine")
    kept = {"template": template_version(), **asdict(sibling)}
    return {
        **asdict(sibling),
        "answers": kept,
        "module": sibling.module,
        "variable": sibling.variable,
        "contract": sibling.contract,
        "version": _FIRST,
        "pin": pin(release),
        "released": ".dev" not in release,
        "install": _install(release),
        "develop": command("--editable . --group dev", release, _WHEELS),
    }


def pin(release: str) -> str:
    """The versions of one minor, e.g. ``>=0.2,<0.3``."""
    major, minor, *_ = release.split(".")
    # A development version is older than the minor version that it leads to.
    least = release if ".dev" in release else f"{major}.{minor}"
    return f">={least},<{major}.{int(minor) + 1}"


def _install(release: str) -> str:
    """The lines of the README that install the command and the package."""
    lines = [f"    {command(each, release, _WHEELS)}" for each in ("agentic-kernel-cli", ".")]
    if ".dev" in release:
        lines[:0] = [
            "AgenticKernel is not on a package index yet. In a checkout of it, make the folder of "
            "its wheels:",
            "",
            f'    nox -s wheelhouse && export WHEELHOUSE="$PWD/{WHEELHOUSE}"',
            "",
            "Then, in this folder and in the same shell:",
            "",
        ]
    return "\n".join(lines)

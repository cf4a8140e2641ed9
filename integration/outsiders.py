"""Packages of strangers: built as wheels, and installed into a folder of their own."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PARTS: Final = ROOT / "docs" / "examples" / "parts"
_BUILD: Final = 60.0
"""Seconds that a build may take."""
_PROJECT: Final = """
[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "{version}"
dependencies = ["agentic-kernel-engine"]

{entries}

[tool.hatch.build.targets.wheel]
packages = ["src/{module}"]
"""


def project(
    folder: Path, name: str, entries: dict[str, dict[str, str]], sources: dict[str, str]
) -> Path:
    """Write the project of a package with these entry points, by group, and these modules."""
    module = name.replace("-", "_")
    source = folder / name / "src" / module
    source.mkdir(parents=True)
    tables = [
        f'[project.entry-points."{group}"]\n'
        + "\n".join(f'"{key}" = "{target}"' for key, target in points.items())
        for group, points in entries.items()
    ]
    text = _PROJECT.format(name=name, version="1.0", entries="\n\n".join(tables), module=module)
    (folder / name / "pyproject.toml").write_text(text)
    for file, code in {"__init__.py": "", **sources}.items():
        (source / file).write_text(code)
    return folder / name


def wheel(package: Path, folder: Path) -> Path:
    """Build the wheel of a project, as its own build system does."""
    copy = shutil.copytree(
        package, folder / f"{package.name}-source", ignore=shutil.ignore_patterns("__pycache__")
    )
    built = folder / "wheels"
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(built)],
        cwd=copy,
        capture_output=True,
        text=True,
        timeout=_BUILD,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    stem = package.name.replace("-", "_") if package != PARTS else "acme_parts"
    (made,) = built.glob(f"{stem}-*.whl")
    return made


def installed(made: Path, folder: Path) -> Path:
    """Install a wheel of pure Python into a folder for ``PYTHONPATH``, as ``pip --target`` does."""
    with zipfile.ZipFile(made) as archive:
        archive.extractall(folder)
    return folder


def written(
    site: Path, name: str, entries: dict[str, dict[str, str]], sources: dict[str, str]
) -> None:
    """Write a package as an installer leaves it, without a build."""
    module = name.replace("-", "_")
    for folder, files in (
        (site / module, {"__init__.py": "", **sources}),
        (
            site / f"{module}-1.0.dist-info",
            {
                "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
                "entry_points.txt": "\n".join(
                    f"[{group}]\n"
                    + "\n".join(f"{key} = {target}" for key, target in points.items())
                    for group, points in entries.items()
                ),
            },
        ),
    ):
        folder.mkdir(parents=True)
        for file, text in files.items():
            (folder / file).write_text(text)

"""Release 0.1.0 in an environment of its own, built from git, to run beside this version.

The torture tests use it: it needs the whole history and a package index that can be reached.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Final

import pytest

COMMIT: Final = "21c6eb3"
"""The last commit of version 0.1.0."""
MEMBERS: Final = (
    *(f"packages/{name}" for name in ("kernel", "engine", "file", "postgres", "cli")),
    "conformance",
)
ROOT: Final = Path(__file__).parent.parent
PATIENCE: Final = 300.0
"""Seconds that git, or the installer, may take."""


class NotReleased(RuntimeError):
    """The environment with release 0.1.0 cannot be made; the message says why."""


def released(folder: Path) -> Path:
    """The interpreter of an environment that holds release 0.1.0, and nothing of this version.

    The first call makes the environment; later calls with the same folder find it. Run the
    interpreter with ``-I``, as `told` and `beside` do: a ``PYTHONPATH`` would put this version's
    modules before the release's.

    Args:
        folder: Where the environment is, or is made.

    Raises:
        NotReleased: The history has no such commit, or the installer failed.
    """
    python = folder / "environment" / "bin" / "python"
    if not (folder / "ready").exists():
        source = folder / "source"
        shutil.rmtree(folder, ignore_errors=True)
        source.mkdir(parents=True)
        with tarfile.open(fileobj=BytesIO(_archive(ROOT))) as archive:
            archive.extractall(source, filter="data")
        _run([sys.executable, "-m", "venv", str(python.parents[1])])
        # All siblings are named in one call, so the installer asks no index for them.
        _run([*_installer(python), *(str(source / member) for member in MEMBERS)])
        (folder / "ready").touch()
    return python


@pytest.fixture(scope="session")
def old_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of `released`, made once in a session."""
    return released(tmp_path_factory.mktemp("released") / "0.1.0")


def told(python: Path, *arguments: str, code: int = 0) -> str:
    """The output of this interpreter for these arguments; it must end with this exit code."""
    done = subprocess.run(
        [python, "-I", *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == code, f"exit code {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@contextmanager
def beside(python: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process of this interpreter, with pipes; killed when the block ends."""
    with subprocess.Popen(
        [python, "-I", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _archive(root: Path) -> bytes:
    """The release's packages as a tar file, from the history of this folder."""
    command = ["git", "-C", str(root), "archive", "--format=tar", COMMIT, *MEMBERS]
    try:
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=True)
    except FileNotFoundError as error:
        raise NotReleased(
            f"release 0.1.0 is built from git commit {COMMIT}; install git to run this test"
        ) from error
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip()
        raise NotReleased(
            f"release 0.1.0 is built from git commit {COMMIT}, which the history of {root} does "
            f"not have; run this test in a clone, after `git fetch --unshallow`. git said: {said}"
        ) from error
    return done.stdout


def _installer(python: Path) -> list[str]:
    """The command that installs into that environment: uv's if there is one, or else pip's."""
    uv = shutil.which("uv")
    if uv is not None:
        return [uv, "pip", "install", "--python", str(python)]
    return [str(python), "-m", "pip", "install"]


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if done.returncode != 0:
        raise NotReleased(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")

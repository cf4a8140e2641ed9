"""Plants one mutant in a copy of its package, and runs the tests that concern it there."""

from __future__ import annotations

import compileall
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path

from .concern import CHOSEN, ROOT, environment
from .sites import Mutant
from .verdict import HUNG, NOT_RUN, NOTICED, SURVIVED, UNDECIDED, Verdict

SLOWER = 3.0
"""A test hangs after this many times its measured seconds, and `GRACE` more. It was measured with
coverage, so this is about six times what it takes here."""
GRACE = 10.0
"""Seconds more for each test, because the machine may have other work."""
STARTING = 60.0
"""Seconds in which pytest starts and collects the tests of a mutant: about 3 on an idle machine."""
_OUT_OF_TIME = re.compile(r"did not end within its limit|Timeout \(\d")
"""What a test says that reached its own limit."""
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


class Bed:
    """A copy of the packages under test that goes before the installed ones.

    Args:
        folder: An empty folder of its own.
        packages: The source folders, such as ``packages/file/src/agentic_kernel_file``.
    """

    def __init__(self, folder: Path, packages: tuple[str, ...]) -> None:
        self._folder = folder
        self._packages = packages
        for package in packages:
            target = folder / Path(package).name
            shutil.copytree(ROOT / package, target, ignore=shutil.ignore_patterns("__pycache__"))
            compileall.compile_dir(target, quiet=1)

    def judge(self, mutant: Mutant, tests: list[str], seconds: list[float]) -> Verdict:
        """Plant the mutant, run the tests until one fails, and take the mutant out again.

        Args:
            mutant: The fault.
            tests: The ids of its tests.
            seconds: The measured seconds of each test, which say when they hang.

        Raises:
            RuntimeError: The tests could not be run at all.
        """
        if not tests:
            return Verdict(mutant, NOT_RUN)
        path = self._path(mutant.file)
        text = (ROOT / mutant.file).read_text(encoding="utf-8")
        Path(cache_from_source(str(path))).unlink(missing_ok=True)
        path.write_text(mutant.planted(text), encoding="utf-8")
        try:
            status, said = self._run(tests, seconds)
        finally:
            path.write_text(text, encoding="utf-8")
        if status is None or _OUT_OF_TIME.search(said):
            return self._hung(mutant, tests, seconds)
        if status == 0:
            return Verdict(mutant, SURVIVED, tests=len(tests))
        failed = _FAILED.search(said)
        # 1: a test failed; 2 and 4: the module cannot even be imported, which is noticed as well.
        if status in (1, 2, 3, 4) and failed:
            return Verdict(mutant, NOTICED, failed[1].rpartition("::")[2], len(tests))
        if status in (2, 3, 4) and mutant.file.rpartition("/")[2] in said:
            return Verdict(mutant, NOTICED, "it cannot be imported", len(tests))
        if status < 0:
            return Verdict(mutant, NOTICED, f"the process died of signal {-status}", len(tests))
        raise RuntimeError(f"pytest ended with status {status}:\n{said[-2_000:]}")

    def _hung(self, mutant: Mutant, tests: list[str], seconds: list[float]) -> Verdict:
        """The verdict after a time limit: it is the fault's only if the tests end without it."""
        status, _ = self._run(tests, seconds)
        return Verdict(mutant, HUNG if status == 0 else UNDECIDED, tests=len(tests))

    def _run(self, tests: list[str], seconds: list[float]) -> tuple[int | None, str]:
        """The exit status of pytest, None if it hung; and what it wrote."""
        chosen = self._folder / "tests.txt"
        chosen.write_text("\n".join(tests), encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "--tb=line",
            "-p",
            "no:cacheprovider",
        ]
        limits = [f"timeout={GRACE + SLOWER * max(seconds):g}", f"timeout_grace={GRACE:g}"]
        given = [part for limit in limits for part in ("-o", limit)]
        known = os.environ.get("PYTHONPATH")
        paths = [str(self._folder), *([known] if known else [])]
        process = subprocess.Popen(
            [*command, "--basetemp", str(self._folder / "temp"), *CHOSEN, *given, f"@{chosen}"],
            cwd=ROOT,
            env=environment() | {"PYTHONPATH": os.pathsep.join(paths)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(timeout=STARTING + SLOWER * sum(seconds))
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            _end(process)
        return process.returncode, said

    def _path(self, file: str) -> Path:
        for package in self._packages:
            if file.startswith(f"{package}/"):
                return self._folder / Path(package).name / file.removeprefix(f"{package}/")
        raise ValueError(f"{file} is in none of the packages {', '.join(self._packages)}")


def _end(process: subprocess.Popen[str]) -> None:
    """End the whole session of a run: a mutant may leave processes behind."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()

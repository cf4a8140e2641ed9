"""Which tests concern a line: those that ran it when the code was as it should be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from itertools import chain, zip_longest
from pathlib import Path

from coverage import CoverageData

from .sites import Mutant

ROOT = Path(__file__).parents[2]
CHECKS = (
    "packages/engine/tests",
    "packages/file/tests",
    "conformance/tests/test_host.py",
    "conformance/tests/test_memory_store.py",
    "integration/test_family_trees.py",
    *sorted(
        f"packages/postgres/tests/{path.name}"
        for path in (ROOT / "packages/postgres/tests").glob("test_*.py")
        if not path.name.startswith("test_memory")
    ),
)
"""The checks of the Host, the Loop, FileStore and PostgresStore: their own tests, and the kit's
contracts."""
CHOSEN = ("-m", "not torture", "--conformance-level=brief")
UNHURRIED = ("-o", "timeout=3600")
"""A test's own limit is not for a machine with other work, and coverage slows each test down."""
_NEAR = 3
_UNKNOWN = 30.0
"""Seconds that are allowed for a test of ``--also`` that was not measured."""
SECONDS = 24.0
"""The tests of one mutant took at most this long while their lines were counted, which takes about
half of the time."""


class Concerns:
    """Tests by the lines that they run.

    Args:
        folder: Where `measure` left its two files.
        seconds: The most that the tests of one mutant may take, as they were measured.
        also: Tests that are run for each mutant, before the ones that run its lines.

    Raises:
        FileNotFoundError: Nothing was measured there.
    """

    def __init__(self, folder: Path, seconds: float = SECONDS, also: Sequence[str] = ()) -> None:
        self._most = seconds
        self._also = list(also)
        self._seconds: dict[str, float] = json.loads(_durations(folder).read_text("utf-8"))
        self._data = CoverageData(str(_lines(folder)))
        self._data.read()
        self._files = {Path(name).resolve(): name for name in self._data.measured_files()}
        self._known: dict[str, dict[int, list[str]]] = {}

    def tests(self, mutant: Mutant) -> list[str]:
        """Return tests that run the mutant's lines, for ``seconds`` in all.

        Half of the time is for tests that also run the line in its neighbourhood which fewest tests
        run: that is where a condition makes a difference. In each half test modules take turns,
        each with its quickest test that is left, so that checks of every kind are among them. A
        test that failed or was skipped when nothing was planted is never chosen.
        """
        end = mutant.line + mutant.old.count("\n")
        by_line = self._by_line(mutant.file)
        found = self._fit(by_line, range(mutant.line, end + 1))
        near = [self._fit(by_line, [line]) & found for line in range(mutant.line, end + _NEAR)]
        rare = min(filter(None, near), key=len, default=set())
        chosen = self._in_turns(rare, self._most / 2, [])
        chosen = self._in_turns(found - set(chosen), self._most, chosen)
        return self._also + [test for test in chosen if test not in self._also]

    def seconds(self, tests: Iterable[str]) -> list[float]:
        """The seconds that each test took when nothing was planted; `_UNKNOWN` if not measured."""
        return [self._seconds.get(test, _UNKNOWN) for test in tests]

    def _fit(self, by_line: dict[int, list[str]], lines: Iterable[int]) -> set[str]:
        """The tests that run one of these lines and passed when nothing was planted."""
        return {test for line in lines for test in by_line.get(line, ())} & self._seconds.keys()

    def _in_turns(self, tests: set[str], most: float, begun: list[str]) -> list[str]:
        """The begun list with more of the tests, as long as all of it takes no longer."""
        modules: dict[str, list[str]] = {}
        for test in sorted(tests, key=lambda test: (self._seconds[test], test)):
            modules.setdefault(test.partition("::")[0], []).append(test)
        chosen, total = list(begun), sum(self._seconds[test] for test in begun)
        for test in chain.from_iterable(zip_longest(*modules.values())):
            if test is not None and total + self._seconds[test] <= most:
                total += self._seconds[test]
                chosen.append(test)
        return chosen

    def _by_line(self, file: str) -> dict[int, list[str]]:
        if file not in self._known:
            name = self._files.get((ROOT / file).resolve())
            by_line = {} if name is None else self._data.contexts_by_lineno(name)
            self._known[file] = {
                line: [context.partition("|")[0] for context in contexts]
                for line, contexts in by_line.items()
            }
        return self._known[file]


def measure(folder: Path, sources: Iterable[str], checks: Sequence[str] = CHECKS) -> None:
    """Run the checks once, and leave in the folder what each took and which lines it ran.

    Raises:
        subprocess.CalledProcessError: A check fails although nothing is planted.
    """
    folder.mkdir(parents=True, exist_ok=True)
    covered = [f"--cov={source}" for source in sources]
    options = ["-q", "-p", "integration.mutants.timing", f"--durations-file={_durations(folder)}"]
    command = [sys.executable, "-m", "pytest", *options, "--cov-context=test", "--cov-report="]
    subprocess.run(
        [*command, *covered, "-n", "2", "--dist", "loadfile", *CHOSEN, *UNHURRIED, *checks],
        cwd=ROOT,
        env=environment() | {"COVERAGE_FILE": str(_lines(folder))},
        check=True,
    )


def environment() -> dict[str, str]:
    """The environment of a run of pytest: no bytecode is written beside what is planted."""
    return {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}


def _durations(folder: Path) -> Path:
    return folder / "durations.json"


def _lines(folder: Path) -> Path:
    return folder / "lines.coverage"

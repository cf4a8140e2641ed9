"""The order of the test files in a run of several workers, as a pytest plugin.

A worker takes a whole file, so a long file that begins late keeps the run waiting after the other
workers have ended. The files that the ini option ``seconds`` lists come first, the longest of them
at the beginning. ``--renew-seconds`` writes that list anew: do so when a new file takes long.

Every worker imports all files before the first test. Each begins at another folder, so in a new
environment they do not all compile the same module at the same time.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import pytest

LEAST: Final = 3.0
"""Seconds of the quickest file that is listed."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        "seconds",
        "a JSON file: each test file that takes long, and the seconds of its tests",
        type="paths",
    )
    parser.addoption(
        "--renew-seconds", action="store_true",
        help="write the file of the ini option seconds from this run, which must be of all tests",
    )  # fmt: skip


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    # pytest-xdist would put the files with the most tests first.
    config.option.loadscopereorder = False
    if config.getoption("--renew-seconds") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Seconds(config.getini("seconds")))
    if hasattr(config, "workerinput"):
        first = _first(config.workerinput, len(config.args))
        config.args[:] = config.args[first:] + config.args[:first]


def _first(worker: dict[str, Any], folders: int) -> int:
    """The place of the folder at which a worker begins: the workers are spread evenly."""
    workers = int(worker["workercount"])
    number = int(worker["workerid"].removeprefix("gw"))
    # A worker that replaces one that died has a number of its own.
    return number % workers * folders // workers


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the long files first in a worker; a run without workers keeps its order.

    pytest-xdist needs the same order in each worker, so the other files are sorted by their names.
    """
    if hasattr(config, "workerinput"):
        took: dict[str, float] = {}
        for path in config.getini("seconds"):
            took |= json.loads(path.read_text())
        items.sort(key=lambda item: _place(_file(item.nodeid), took))


def _place(file: str, took: dict[str, float]) -> tuple[float, str]:
    return -took.get(file, 0.0), file


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


class Seconds:
    """The seconds of each file's tests, with what was set up for them."""

    def __init__(self, paths: list[Path]) -> None:
        self._paths = paths
        self._took: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._took[_file(report.nodeid)] += report.duration

    def pytest_unconfigure(self) -> None:
        longest = sorted(self._took.items(), key=lambda each: -each[1])
        listed = {file: round(seconds) for file, seconds in longest if seconds >= LEAST}
        for path in self._paths:
            path.write_text(json.dumps(listed, indent=2) + "\n")

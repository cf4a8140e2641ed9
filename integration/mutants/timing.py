"""A plugin of pytest that writes what each test that passed took: ``--durations-file FILE``."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--durations-file", type=Path, help="write seconds by test as JSON to FILE")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--durations-file")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Timing(path), "mutants-timing")


class _Timing:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._seconds: dict[str, float] = defaultdict(float)
        self._unfit: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] += report.duration
        if report.outcome != "passed":
            self._unfit.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        kept = {test: took for test, took in self._seconds.items() if test not in self._unfit}
        self._path.write_text(json.dumps(kept), encoding="utf-8")

"""The pytest plugin: markers, options, features that are closed, and the report."""

from __future__ import annotations

import os
from collections.abc import Generator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from .contract import Contract, disarmed
from .level import LEVELS, Level
from .report import Report
from .rules import RuleError

_CLOSED = "feature closed: "


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance", "AgenticKernel conformance")
    group.addoption(
        "--conformance-level",
        choices=sorted(LEVELS),
        default=None,
        help="how hard to try (default: $CONFORMANCE_LEVEL, or quick)",
    )
    group.addoption(
        "--conformance-seed",
        type=int,
        default=0,
        metavar="N",
        help="the first seed of what is drawn at random (default: 0)",
    )
    group.addoption(
        "--conformance-report",
        metavar="FILE",
        default=None,
        help="write the matrix of adapters and rules to FILE.json and FILE.md",
    )


def pytest_configure(config: pytest.Config) -> None:
    for line in (
        "rule(name): the rule that the test proves: clause1, C1-C7, edges, R1-R17, … "
        "(agentic_kernel_conformance.RULES)",
        "feature(name): the test is about a feature that an adapter may declare closed",
    ):
        config.addinivalue_line("markers", line)
    config.pluginmanager.register(_Gathering(config), "agentic-kernel-conformance-report")


def _level(config: pytest.Config) -> Level:
    name = config.getoption("--conformance-level") or os.environ.get("CONFORMANCE_LEVEL", "quick")
    if name not in LEVELS:
        raise pytest.UsageError(
            f"CONFORMANCE_LEVEL is {ascii(name)}; it must be one of {', '.join(sorted(LEVELS))}"
        )
    return LEVELS[name]


@pytest.fixture(scope="session")
def conformance_level(pytestconfig: pytest.Config) -> Level:
    """The sizes of the exercises, from ``--conformance-level`` or ``CONFORMANCE_LEVEL``."""
    return _level(pytestconfig)


@pytest.fixture(scope="session")
def conformance_seed(pytestconfig: pytest.Config) -> int:
    """The first seed of random histories, from ``--conformance-seed``."""
    return int(pytestconfig.getoption("--conformance-seed"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse an adapter that disarmed the guard itself: it could not report that."""
    for cls in {cls for item in items if (cls := _adapter(item))}:
        if how := disarmed(cls):
            raise pytest.UsageError(f"{cls.__name__} {how}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what is about a closed feature, before any fixture is made."""
    cls = _adapter(item)
    if cls is None:
        return
    for mark in item.iter_markers("feature"):
        name = mark.args[0]
        try:
            is_open = cls.features.is_open(name)
        except KeyError:
            pytest.fail(
                f"{cls.__name__}.features is {type(cls.features).__name__}, which has no feature "
                f"{name!r}; use the features class of {cls.contract}",
                pytrace=False,
            )
        if not is_open:
            pytest.skip(f"{_CLOSED}{name}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach what the report needs; plain values, so that they survive other processes."""
    report = yield
    cls = _adapter(item)
    if cls is not None:
        vars(report)["conformance"] = {
            "class": f"{cls.__module__}.{cls.__qualname__}",
            "adapter": cls.__name__.removeprefix("Test"),
            "contract": cls.contract,
            "features": asdict(cls.features),
            "rules": sorted({name for mark in item.iter_markers("rule") for name in mark.args}),
            "broke": _broke(call),
        }
    return report


class _Gathering:
    """Gathers outcomes as reports come in, from this process or from a worker's."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._report = Report(level=_level(config).name)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        found: dict[str, Any] | None = getattr(report, "conformance", None)
        if found is None or (report.when != "call" and report.passed):
            return
        test = report.nodeid.rpartition("::")[2]
        self._report.add(found, test, *_outcome(report))

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        lines = self._report.lines()
        if not lines:
            return
        terminalreporter.section("conformance")
        for line in lines:
            terminalreporter.write_line(line)
        path = self._config.getoption("--conformance-report")
        if path is not None:
            for written in self._report.write(Path(path)):
                terminalreporter.write_line(f"written: {written}")


def _outcome(report: pytest.TestReport) -> tuple[str, str]:
    excuse = getattr(report, "wasxfail", None)
    if report.failed:
        found: dict[str, Any] = vars(report)["conformance"]
        return "failed", found["broke"]
    if report.passed:
        return "passed", ""
    if excuse is not None:
        return "excused", excuse
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
    _, closed, feature = reason.partition(_CLOSED)
    return ("closed", feature) if closed else ("skipped", reason)


def _broke(call: pytest.CallInfo[None]) -> str:
    """The rule that broke and what was seen, or the exception that came instead."""
    if call.excinfo is None:
        return ""
    error = call.excinfo.value
    if isinstance(error, RuleError):
        return f"{error.rule.name}: {error.seen}"
    return call.excinfo.exconly().partition("\n")[0]


def _adapter(item: pytest.Item) -> type[Contract] | None:
    cls = getattr(item, "cls", None)
    return cls if isinstance(cls, type) and issubclass(cls, Contract) else None

"""The pytest plugin: markers, options, closed features, time limits, and the report."""

from __future__ import annotations

import inspect
import os
import shlex
import time
from collections.abc import Generator, Iterator
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial, wraps
from math import inf
from pathlib import Path
from typing import Any

import pytest

from .contract import Contract, Unproven, disarmed
from .header import causes, header, lowered
from .level import LEVELS, Level
from .order import arrange
from .overrun import PATIENCES, Overrun, ended_in_time
from .pages import write
from .report import Adapter, Report
from .rules import KitError, RuleError
from .sources import Source, SourceMissing, named_by, sources_of
from .substrate_bounds import Bounds
from .totals import Planned, planned
from .trials import Campaign, Tally, Trials
from .unproven import unproven
from .unusable import UNUSABLE, UnusableFixtures

_CLOSED = "feature closed: "
_CAMPAIGN = pytest.StashKey[Campaign]()
_OVERRUN = pytest.StashKey[Overrun]()
_TOLD = pytest.StashKey[set[type]]()
_FIXTURES = pytest.StashKey[UnusableFixtures]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance", "AgenticKernel conformance")
    group.addoption(
        "--conformance-level",
        choices=sorted(LEVELS),
        default=None,
        help="the sizes of the exercises (default: $CONFORMANCE_LEVEL, or quick)",
    )
    group.addoption(
        "--conformance-seed",
        type=int,
        default=0,
        metavar="N",
        help="the first seed of the random tests (default: 0)",
    )
    group.addoption(
        "--conformance-minutes",
        type=_minutes,
        default=None,
        metavar="N",
        help="draw seeds for N minutes, which the random tests share, and not the number of the "
        "level; to go on later, pass the --conformance-seed=NEXT that is printed at the end",
    )
    group.addoption(
        "--conformance-report",
        metavar="FILE",
        default=None,
        help="write the report to FILE.json, FILE.md and FILE.svg (a badge)",
    )


def pytest_configure(config: pytest.Config) -> None:
    for line in (
        "rule(name): the rule that the test proves: clause1, C1-C7, edges, R1-R17, … "
        "(agentic_kernel_conformance.RULES)",
        "feature(name): the test needs this feature; it is skipped if the feature is closed",
        "cost(n): the place of the test in its contract; cheap tests run first (0 to 4)",
        "random(weight): the test draws seeds; the weight is its share of --conformance-minutes",
    ):
        config.addinivalue_line("markers", line)
    minutes = config.getoption("--conformance-minutes")
    config.stash[_CAMPAIGN] = Campaign(
        config.getoption("--conformance-seed"),
        None if minutes is None else minutes * 60,
        partial(_news, config),
    )
    config.stash[_TOLD] = set()
    _level(config)  # so that a level that does not exist ends the run before any test
    config.stash[_FIXTURES] = UnusableFixtures()
    config.pluginmanager.register(config.stash[_FIXTURES], "agentic-kernel-conformance-fixtures")
    config.pluginmanager.register(_Gathering(config), "agentic-kernel-conformance-report")


def _minutes(text: str) -> float:
    minutes = float(text)
    if not 0 < minutes < inf:
        raise ValueError(text)
    return minutes


def _news(config: pytest.Config, line: str) -> None:
    """Write a line to the terminal while a test runs."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    capture = config.pluginmanager.get_plugin("capturemanager")
    if reporter is not None:
        with nullcontext() if capture is None else capture.global_and_fixture_disabled():
            reporter.write_line(f"\n{line}", flush=True)


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


@pytest.fixture
def conformance_trials(
    request: pytest.FixtureRequest, pytestconfig: pytest.Config
) -> Iterator[Trials]:
    """The seeds that this test draws, and their count."""
    item, campaign = request.node, pytestconfig.stash[_CAMPAIGN]
    level = _level(pytestconfig).name
    harder = "" if level == "quick" else f" --conformance-level={level}"
    cls = _adapter(item)
    adapter = "" if cls is None else cls.__name__.removeprefix("Test")
    again = f"pytest {shlex.quote(item.nodeid)}{harder} --conformance-seed="
    begun = time.monotonic()
    overrun = item.stash.get(_OVERRUN, None)
    progress = None if overrun is None else overrun.renew
    yield campaign.trials(item.nodeid, adapter, item.name, again, progress)
    campaign.over(item.nodeid, time.monotonic() - begun)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Share the time of a campaign among the random tests that will run."""
    for item in session.items:
        mark = item.get_closest_marker("random")
        cls = _adapter(item)
        if mark is not None and cls is not None:
            names = [mark.args[0] for mark in item.iter_markers("feature")]
            known = asdict(cls.features)
            if all(known.get(name) for name in names):
                session.config.stash[_CAMPAIGN].expect(item.nodeid, mark.kwargs.get("weight", 1))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse an adapter that disables the guard; let the cheap tests of each contract run first.

    The guard itself cannot report that it is disabled.
    """
    for cls in {cls for item in items if (cls := _adapter(item))}:
        if how := disarmed(cls):
            raise pytest.UsageError(f"{cls.__name__} {how}")
    arrange(items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test of a closed feature, before any fixture is made."""
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
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Give a contract test its time limit."""
    cls = _adapter(item)
    if cls is not None and inspect.iscoroutinefunction(test := getattr(item, "obj", None)):
        marks = [name for mark in item.iter_markers("rule") for name in mark.args]
        seconds = _bound(item.config, cls)
        say = partial(_news, item.config)
        overrun = Overrun(item.name, marks[0] if marks else "kit", seconds, cls.patience, say)
        item.stash[_OVERRUN] = overrun

        @wraps(test)
        async def bounded(*args: Any, **kwargs: Any) -> None:
            __tracebackhide__ = True
            await overrun.bound(test(*args, **kwargs))

        vars(item)["_obj"] = bounded
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Limit the time that an adapter's fixtures take to end."""
    cls = _adapter(item)
    if cls is None:
        return (yield)
    say = partial(_news, item.config)
    with ended_in_time(f"the end of the fixtures of {item.nodeid}", _bound(item.config, cls), say):
        return (yield)


def _bound(config: pytest.Config, cls: type[Contract]) -> float:
    """Return the seconds within which a contract's test must make progress."""
    return cls.patience * PATIENCES * _level(config).patiences


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach the data of the report, as plain values that can cross a process boundary."""
    report = yield
    cls = _adapter(item)
    if cls is not None:
        vars(report)["conformance"] = {
            "node": item.nodeid.rpartition("::")[0],
            "seen": _broke(call),
            "finding": _finding(call),
        }
        told = item.config.stash[_TOLD]
        if cls not in told:
            told.add(cls)
            vars(report)["conformance_adapter"] = _about(item, cls)
        if modules := item.config.stash[_FIXTURES].named.pop(cls, None):
            more = named_by(cls, modules, item.config.rootpath)
            vars(report)["conformance_sources"] = [asdict(each) for each in more]
        tally = item.config.stash[_CAMPAIGN].tallies.get(item.nodeid)
        if tally is not None:
            vars(report)["conformance_tally"] = asdict(tally)
    return report


def _about(item: pytest.Item, cls: type[Contract]) -> dict[str, Any]:
    """Return what the report says of an adapter, as plain values."""
    bounds = getattr(cls, "bounds", None)
    usual = next(vars(b)["patience"] for b in reversed(cls.__mro__) if "patience" in vars(b))
    try:
        sources = sources_of(cls, item.config.rootpath)
    except SourceMissing as error:
        raise pytest.UsageError(f"{cls.__name__}.sources: {error}") from error
    return {
        "name": cls.__name__.removeprefix("Test"),
        "contract": cls.contract,
        "node": item.nodeid.rpartition("::")[0],
        "features": asdict(cls.features),
        "bounds": asdict(bounds) if isinstance(bounds, Bounds) else {},
        "patience": cls.patience,
        "usual_patience": usual,
        "planned": {name: asdict(plan) for name, plan in planned(cls).items()},
        "sources": [asdict(each) for each in sources],
        "unproven": [asdict(each) for each in unproven(cls)],
    }


def _adapter_from(told: dict[str, Any]) -> Adapter:
    """Return the adapter that `_about` describes."""
    lists = {
        "planned": {
            name: Planned(tuple(plan["rules"]), tuple(plan["features"]), plan["count"])
            for name, plan in told["planned"].items()
        },
        "sources": [Source(**each) for each in told["sources"]],
        "unproven": [Unproven(**each) for each in told["unproven"]],
    }
    return Adapter(**{**told, **lists})


class _Gathering:
    """Gathers outcomes as test reports arrive, from this process or from a worker process."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._report: Report | None = None

    @property
    def report(self) -> Report:
        """The report; the date in its header is the moment of the first use."""
        if self._report is None:
            level = _level(self._config)
            self._report = Report(header(self._config, level), lowered(level), causes(self._config))
        return self._report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        about: dict[str, Any] | None = getattr(report, "conformance_adapter", None)
        if about is not None:
            self.report.adapters.setdefault(about["node"], _adapter_from(about))
        for each in getattr(report, "conformance_sources", ()):
            known = self.report.adapters[report.nodeid.rpartition("::")[0]].sources
            if each["package"] not in {part.package for part in known}:
                known.append(Source(**each))
        tally: dict[str, Any] | None = getattr(report, "conformance_tally", None)
        if tally is not None:
            self.report.tallies[report.nodeid] = Tally(**tally)
        if report.when not in ("setup", "call", "teardown"):  # xdist: the worker process is gone
            self.report.crashed(report.nodeid, str(report.longrepr).strip())
            return
        found: dict[str, Any] | None = getattr(report, "conformance", None)
        if found is None or (report.when != "call" and report.passed):
            return
        test = report.nodeid.rpartition("::")[2]
        outcome, detail = _outcome(report, found)
        if outcome:
            self.report.add(found["node"], test, outcome, detail)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        # An interrupted test has no report, but its trials so far count.
        tallies = self._config.stash[_CAMPAIGN].tallies
        if self._report is None and not tallies:
            return
        self.report.tallies |= tallies
        lines = [*self.report.lines(), *self.report.trials()]
        if not lines:
            return
        terminalreporter.section("conformance")
        for line in lines:
            terminalreporter.write_line(line)
        path = self._config.getoption("--conformance-report")
        if path is not None:
            for written in write(self.report, Path(path)):
                terminalreporter.write_line(f"written: {written}")


def _outcome(report: pytest.TestReport, found: dict[str, Any]) -> tuple[str, str]:
    excuse = getattr(report, "wasxfail", None)
    if report.failed:
        return ("failed" if found["finding"] else "error"), found["seen"]
    if report.passed:
        return "passed", ""
    if excuse is not None:
        return "excused", excuse
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
    _, closed, feature = reason.partition(_CLOSED)
    if closed:
        return "closed", feature
    return ("", "") if UNUSABLE in reason else ("skipped", reason)


def _finding(call: pytest.CallInfo[None]) -> bool:
    """True if a failure says something about the implementation, and not about kit or fixtures."""
    if call.excinfo is None or isinstance(call.excinfo.value, RuleError):
        return True
    return call.when == "call" and not isinstance(call.excinfo.value, KitError)


def _broke(call: pytest.CallInfo[None]) -> str:
    """Return the broken rule and what was seen, or any other exception of the test."""
    if call.excinfo is None:
        return ""
    error = call.excinfo.value
    if isinstance(error, RuleError):
        return f"{error.rule.name}: {error.seen}"
    return call.excinfo.exconly().partition("\n")[0]


def _adapter(item: pytest.Item) -> type[Contract] | None:
    cls = getattr(item, "cls", None)
    return cls if isinstance(cls, type) and issubclass(cls, Contract) else None

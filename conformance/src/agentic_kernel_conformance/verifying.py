"""Checks of a written report: that it was not edited, that it fits what is installed, a rerun.

The digest shows a change by mistake or by a person who did not compute it again. Anyone can compute
it again, so it does not show who made the report. A rerun is the proof.
"""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import agentic_kernel_conformance as kit

from .contract import Contract
from .header import SCHEMA, versions
from .level import LEVELS
from .pages import digest
from .report import OUTCOMES
from .sources import SourceMissing, source
from .totals import planned

_FIELDS: Final = (
    *("schema", "kit", "kernel", "engine", "python", "seed", "level", "minutes"),
    *("verdict", "partial", "adapters", "errors"),
)
_COUNTS: Final = tuple(outcome.replace(" ", "_") for outcome in OUTCOMES)
_BYTES: Final = ("files", "sha256")
"""The fields of a source that must be equal, also if the report names no distribution."""
_REPEATED: Final = (
    *("contract", "features", "patience", "total", "rules", "cells", "unproven", *_COUNTS),
)
"""The fields of an adapter that a rerun compares; ``tests`` is compared test by test."""


_SHOWN: Final = 20
"""The number of differences that one message lists."""


class ReportRefused(Exception):
    """A report does not prove what it says; the subclass says why."""


class NotAReport(ReportRefused, ValueError):
    """The file is no JSON report of the kit, or of a form that this kit does not read."""


class ReportEdited(ReportRefused):
    """The report was changed after it was written.

    Attributes:
        said: The digest in the report.
        found: The digest of its content.
    """

    def __init__(self, path: Path, said: str, found: str) -> None:
        self.said = said
        self.found = found
        super().__init__(
            f"{path} was edited: its digest is {said}, and its content has {found}; run the "
            "contract again with --conformance-report"
        )


class ReportStale(ReportRefused):
    """The report is about other versions or other sources than the installed ones.

    Attributes:
        differences: One sentence for each part that differs.
    """

    def __init__(self, path: Path, differences: list[str]) -> None:
        self.differences = differences
        super().__init__(
            f"{path} does not fit what is installed:{_listed(differences)}\nInstall what it names, "
            "or run the contract again with --conformance-report"
        )


class ReportNotRepeated(ReportRefused):
    """A rerun gave other outcomes.

    Attributes:
        differences: One sentence for each test that differs.
    """

    def __init__(self, path: Path, differences: list[str]) -> None:
        self.differences = differences
        super().__init__(f"{path} was not repeated by a rerun:{_listed(differences)}")


def _listed(differences: list[str]) -> str:
    """Return the differences as text, one below the other."""
    shown = differences[:_SHOWN]
    more = [f"and {len(differences) - _SHOWN} more"] if len(differences) > _SHOWN else []
    return "".join(f"\n  {each}" for each in [*shown, *more])


def read(path: Path) -> dict[str, Any]:
    """Return the document of a report whose digest holds.

    Raises:
        NotAReport: The file cannot be read, or is no report of the kit.
        ReportEdited: The digest does not fit the content.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise NotAReport(
            f"{path} cannot be read ({error.strerror}); pass the .json of a report"
        ) from error
    except (ValueError, RecursionError) as error:
        raise NotAReport(f"{path} is no report: {error}; pass the .json of a report") from error
    if not isinstance(document, dict):
        raise NotAReport(f"{path} is no report: it holds a {type(document).__name__}")
    if document.get("schema") != SCHEMA:
        raise NotAReport(
            f"{path} has the schema {ascii(document.get('schema'))}; this kit reads {SCHEMA}"
        )
    said, found = str(document.get("digest", "missing")), digest(document)
    if said != found:
        raise ReportEdited(path, said, found)
    if missing := [name for name in _FIELDS if name not in document]:
        raise NotAReport(f"{path} has no {', '.join(missing)}; it was not written by this kit")
    return document


def verify(path: Path, root: Path) -> dict[str, Any]:
    """Return the document of a report that was not edited and that fits what is installed.

    Args:
        path: The JSON file of the report.
        root: The root of the adapter's project, where pytest ran.

    Raises:
        NotAReport: The file is no report of the kit.
        ReportEdited: The digest does not fit the content.
        ReportStale: The versions of kit, kernel, engine or Python differ, or the sources of an
            adapter do. Or its counts are not those of its own tests.
    """
    document = read(path)
    now = versions()
    differences = [
        f"{name} is {now[name]}, and the report says {document[name]}"
        for name in now
        if now[name] != document[name]
    ]
    try:
        for adapter in document["adapters"]:
            differences += _miscounted(adapter)
            for said in adapter["sources"]:
                differences += _differs(said, root)
    except (KeyError, TypeError, AttributeError) as error:
        raise NotAReport(f"{path} lacks a part of its adapters: {error!r}") from error
    if differences:
        raise ReportStale(path, differences)
    return document


def _miscounted(adapter: dict[str, Any]) -> list[str]:
    """Return how the counts of an adapter differ from its tests and from the kit's contract."""
    name, total = adapter["adapter"], adapter["total"]
    found = Counter(test["outcome"] for test in adapter["tests"])
    found["not run"] = adapter["not_run"]
    said = {outcome: adapter[outcome.replace(" ", "_")] for outcome in OUTCOMES}
    differences = [
        f"{name} has {found[outcome]} {outcome}, and the report says {count}"
        for outcome, count in said.items()
        if found[outcome] != count
    ]
    if found.total() != total:
        differences.append(f"{name} has {found.total()} tests, and the report says {total}")
    contract = getattr(kit, adapter["contract"], None)
    if inspect.isclass(contract) and issubclass(contract, Contract):
        wanted = sum(test.count for test in planned(contract).values())
        if total < wanted:
            said_total = f"{name} has {total} tests, and {adapter['contract']} has {wanted}"
            differences.append(said_total)
    return differences


def _differs(said: dict[str, Any], root: Path) -> list[str]:
    """Return how the sources of a package differ from those in a report."""
    package = said["package"]
    place = root / said["under"] if said["under"] else None
    if place is not None and not place.resolve().is_relative_to(root.resolve()):
        return [f"{package} lies outside the project, at {said['under']}"]
    if place is not None and not place.exists():
        return [
            f"{package} is not at {said['under']} below {root.resolve()}; pass --root with the "
            "folder in which pytest ran"
        ]
    try:
        found = asdict(source(package, root, place))
    except SourceMissing as error:
        return [str(error)]
    return [
        f"{package}: {name} is {found[name]}, and the report says {said[name]}"
        for name in ("distribution", "version", "files", "sha256")
        if found[name] != said[name] and (name in _BYTES or said["distribution"])
    ]


def rerun(document: dict[str, Any], path: Path, root: Path) -> dict[str, Any]:
    """Run the tests of a report again, with its seed and level; return the new document.

    The tests run in a process of their own, in the project's folder. The report is data: of its
    text only the files of the adapters and the options ``-k`` and ``-m`` reach the command.

    Raises:
        NotAReport: The report names a file outside the project, or a level that is not there.
        ReportNotRepeated: A test has another outcome, or pytest did not come to its end.
    """
    files = sorted({adapter["node"].partition("::")[0] for adapter in document["adapters"]})
    for name in files:
        place = (root / name).resolve()
        if not place.is_file() or not place.is_relative_to(root.resolve()):
            raise NotAReport(
                f"{path}: {ascii(name)} is no file of the project {root.resolve()}; pass --root "
                "with the folder in which pytest ran"
            )
    if document["level"] not in LEVELS or not isinstance(document["seed"], int):
        raise NotAReport(f"{path}: level {document['level']!a} or seed {document['seed']!a}")
    with tempfile.TemporaryDirectory() as folder:
        again = Path(folder) / "again.json"
        command = [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no"),
            f"--conformance-level={document['level']}",
            f"--conformance-seed={document['seed']}",
            f"--conformance-report={again}",
            f"-k={document.get('keyword') or ''}",
            f"-m={document.get('marks') or ''}",
            *([f"--conformance-minutes={document['minutes']}"] if document["minutes"] else []),
            *(f"./{name}" for name in files),
        ]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1) or not again.exists():
            told = (done.stdout + done.stderr)[-1_000:].strip()
            raise ReportNotRepeated(path, [f"pytest ended with {done.returncode}: {told}"])
        new = read(again)
    if differences := [*_outcomes_differ(document, new), *_summaries_differ(document, new)]:
        raise ReportNotRepeated(path, differences)
    return new


def _outcomes_differ(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return the tests whose outcomes differ; a test that did not run in ``old`` does not count."""
    before, after = _outcomes(old), _outcomes(new)
    return [
        f"{test} {after.get(test, 'did not run')}, and the report says {outcome}"
        for test, outcome in before.items()
        if after.get(test) != outcome
    ]


def _summaries_differ(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return the fields of the summary that differ, if the first run left no test out."""
    if any(adapter["not_run"] for adapter in old["adapters"]):
        return []
    found = [
        f"{name} is {_plain(new[name])}, and the report says {_plain(old[name])}"
        for name in ("verdict", "errors")
        if new[name] != old[name]
    ]
    after = {adapter["node"]: adapter for adapter in new["adapters"]}
    for adapter in old["adapters"]:
        other = after.get(adapter["node"])
        if other is None:
            found.append(f"{adapter['adapter']}: {adapter['node']} was not run again")
            continue
        for name in _REPEATED:
            found += _parts_differ(f"{adapter['adapter']}: {name}", adapter[name], other[name])
    return found


def _parts_differ(name: str, old: Any, new: Any) -> list[str]:
    """Return one sentence for each part that differs; a text or a number is one part."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
        return [f"{name} {key}: {_said(new.get(key), old.get(key))}" for key in keys]
    if isinstance(old, list) and isinstance(new, list):
        gone = [f"{name}: the report has {_plain(each)}" for each in old if each not in new]
        return [*gone, *(f"{name}: a rerun has {_plain(each)}" for each in new if each not in old)]
    return [] if old == new else [f"{name}: {_said(new, old)}"]


def _said(new: Any, old: Any) -> str:
    return f"{_plain(new)}, and the report says {_plain(old)}"


def _plain(value: Any) -> str:
    """Return a value for a person: on one line, a record as its values."""
    if isinstance(value, dict):
        value = ", ".join(f"{key} {each}" for key, each in value.items()) or "none"
    text = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in str(value))
    return text if len(text) <= 200 else f"{text[:199]}…"


def _outcomes(document: dict[str, Any]) -> dict[str, str]:
    return {
        f"{adapter['node'].rpartition('::')[2]}::{test['test']}": test["outcome"]
        for adapter in document["adapters"]
        for test in adapter["tests"]
    }

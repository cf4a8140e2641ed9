"""A report as evidence: what it is about, what it lacks, and how it is verified."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, fields
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import pytest

import agentic_kernel_conformance as kit
from agentic_kernel_conformance import RULES, KernelContract, QueryContract
from agentic_kernel_conformance.__main__ import main
from agentic_kernel_conformance.contract import Contract, Unproven
from agentic_kernel_conformance.explaining import explain
from agentic_kernel_conformance.pages import digest, markdown
from agentic_kernel_conformance.report import OUTCOMES, Adapter, Report, Verdict
from agentic_kernel_conformance.sources import SourceMissing, source, sources_of
from agentic_kernel_conformance.totals import Planned, planned
from agentic_kernel_conformance.unproven import unproven
from agentic_kernel_conformance.verifying import (
    NotAReport,
    ReportEdited,
    ReportNotRepeated,
    ReportStale,
    _summaries_differ,
    read,
    rerun,
    verify,
)

_TOTAL = sum(test.count for test in planned(KernelContract).values())
_KERNEL = """
import pytest
import agentic_kernel
from agentic_kernel_conformance import KernelContract
from implementation import kernel_of

class TestAcmeKernel(KernelContract):
    {body}

    @pytest.fixture
    def kernel(self):
        return kernel_of()
"""
_CONFIG = "[pytest]\npythonpath = .\nasyncio_default_fixture_loop_scope = function\n"
_HONEST = "import agentic_kernel\n\ndef kernel_of():\n    return agentic_kernel\n"
_BROKEN = "def kernel_of():\n    raise OSError('no kernel here')\n"

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text(_CONFIG)
    (tmp_path / "implementation.py").write_text(_HONEST)
    (tmp_path / "test_kernel.py").write_text(_KERNEL.replace("{body}", "pass"))
    return tmp_path


@pytest.fixture
def run(project: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the contract in the project, in a process of its own; return the report."""
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "CONFORMANCE_LEVEL", "CI"):
        monkeypatch.delenv(name, raising=False)

    def running(*options: str, level: str = "brief", code: int = 0) -> dict[str, Any]:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [*command, f"--conformance-level={level}", "--conformance-report=report", *options],
            cwd=project,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        document: dict[str, Any] = json.loads((project / "report.json").read_text())
        return document

    return running


def rewrite(path: Path, document: dict[str, Any], **changes: Any) -> None:
    """Write a report with changes and with the digest that fits them."""
    changed = {**document, **changes}
    path.write_text(json.dumps({**changed, "digest": digest(changed)}))


def test_a_whole_run_says_what_it_is_about_and_is_verified(project: Path, run: Run) -> None:
    document = run("--conformance-seed=7", level="quick")
    (row,) = document["adapters"]
    assert (document["verdict"], document["partial"]) == ("passed", [])
    assert (document["level"], document["seed"]) == ("quick", 7)
    assert document["date"].endswith("+00:00")
    assert (row["total"], row["passed"], row["not_run"]) == (_TOTAL, _TOTAL, 0)
    sources = {each["package"]: each for each in row["sources"]}
    assert sources["implementation"] == asdict(
        source("implementation", project, project / "implementation.py")
    )
    assert set(sources) == {"implementation", "test_kernel"}
    assert verify(project / "report.json", project) == document
    page = (project / "report.md").read_text()
    for part in ("# Conformance: passed", document["digest"], document["platform"]):
        assert part in page
    assert f"passed {_TOTAL} of {_TOTAL}" in (project / "report.svg").read_text()


_SHELL = """
import pytest
from agentic_kernel_conformance import KernelContract

{imports}

class TestAcmeKernel(KernelContract):
    {body}

    @pytest.fixture
    def kernel(self):
        {more}
        import agentic_kernel
        return agentic_kernel
"""
_FORMS = {
    "a text of a package": ("from acme.shell import KIND", "KIND"),
    "a submodule": ("from acme import shell", "shell"),
    "a dotted import": ("import acme.shell", "acme"),
    "a name for a module": ("import acme.shell as used", "used"),
    "inside a function": ("", "from acme.shell import KIND"),
    "a text module:object": ("", "'acme.shell:make'"),
    "a helper beside the test": ("from helper import number", "number"),
    "a helper of the tests' package": ("from .helper import number", "number"),
    "a conftest": ("", "1"),
}


@pytest.mark.parametrize("form", sorted(_FORMS))
def test_a_package_counts_however_the_test_names_it(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The value that a test imports may be a text, which does not say where it comes from."""
    above, used = _FORMS[form]
    tests = tmp_path / "cases" if "package" in form and "helper" in form else tmp_path
    for folder in (tests, tmp_path / "site" / "acme"):
        folder.mkdir(parents=True, exist_ok=True)
        if folder != tmp_path:
            (folder / "__init__.py").touch()
    (tmp_path / "site/acme/shell.py").write_text("KIND = 'shell'\ndef make(): return KIND\n")
    helper = "conftest.py" if form == "a conftest" else "helper.py"
    (tests / helper).write_text("from acme.shell import KIND\nnumber = len(KIND)\n")
    file = tests / f"test_{tmp_path.name}.py"
    file.write_text(_SHELL.format(imports=above, more=used, body="pass"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "site")
    name = f"{'cases.' if tests != tmp_path else ''}{file.stem}"
    module = import_module(name)
    try:
        found = {each.package: each for each in sources_of(module.TestAcmeKernel, tmp_path)}
    finally:
        for each in [n for n in sys.modules if n.partition(".")[0] in _LOADED or n == name]:
            del sys.modules[each]
    assert found["acme"] == source("acme", tmp_path, tmp_path / "site" / "acme")
    assert name in found
    assert {n.rpartition(".")[2] for n in found} - {"acme", file.stem} <= {"helper", "conftest"}


_LOADED = ("acme", "cases", "helper")


def test_a_report_of_another_substrate_is_refused(project: Path, run: Run) -> None:
    """The test imports a text and names the factory by a text, as a generated package does."""
    acme = project / "acme"
    acme.mkdir()
    (acme / "__init__.py").touch()
    (acme / "shell.py").write_text("KIND = 'shell'\n")
    text = _SHELL.format(imports="from acme.shell import KIND", more="", body="pass")
    (project / "test_kernel.py").write_text(text)
    document = run("-k", "nothing_is_overridden")
    assert verify(project / "report.json", project) == document
    (acme / "shell.py").write_text("KIND = 'shell'  # and no commit\n")
    with pytest.raises(ReportStale, match="acme: sha256 is"):
        verify(project / "report.json", project)


@pytest.mark.parametrize(
    "made",
    [
        "import_module('ac' + 'me.shell').Shell()",
        pytest.param("'.'.join(('acme', 'shell:make'))", marks=pytest.mark.torture),
    ],
    ids=["value", "text"],
)
def test_a_package_counts_that_only_a_value_of_a_fixture_names(
    project: Path, run: Run, made: str
) -> None:
    acme = project / "acme"
    acme.mkdir()
    (acme / "__init__.py").touch()
    (acme / "shell.py").write_text("class Shell: pass\n")
    text = _KERNEL.replace("import agentic_kernel\n", "from importlib import import_module\n")
    text = text.replace("kernel_of()", made).replace("from implementation import\n", "")
    (project / "test_kernel.py").write_text(text.replace("{body}", "pass"))
    (row,) = run("-k", "fixture_is_a_kernel", code=1)["adapters"]
    found = {each["package"]: each for each in row["sources"]}
    assert found["acme"] == asdict(source("acme", project, acme))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        pytest.param(
            ["-k", "table"], "options that leave tests out: -k 'table'", marks=pytest.mark.torture
        ),
        pytest.param(
            ["-m", "not parametrize"], "options that leave tests out: -m", marks=pytest.mark.torture
        ),
        (["test_kernel.py::TestAcmeKernel::test_nothing_is_overridden"], "test_nothing_is"),
        (["--deselect", "test_kernel.py::TestAcmeKernel::test_the_table"], "--deselect=test_kern"),
    ],
    ids=["-k", "-m", "one test", "--deselect"],
)
def test_tests_that_are_left_out_make_a_report_partial(
    run: Run, options: list[str], named: str
) -> None:
    document = run(*options)
    (row,) = document["adapters"]
    assert document["verdict"] == "partial"
    assert row["total"] == _TOTAL
    assert row["not_run"] == _TOTAL - row["passed"] > 0
    assert any(named in reason for reason in document["partial"]), document["partial"]


@pytest.mark.torture
def test_a_run_that_ends_at_its_first_failure_is_failed_and_partial(
    project: Path, run: Run
) -> None:
    (project / "implementation.py").write_text(_HONEST.replace("return agentic", "return 7  #"))
    document = run("-x", code=1)
    assert document["verdict"] == "failed"
    assert "options that leave tests out: --maxfail=1" in document["partial"]
    assert "PARTIAL" in (project / "report.md").read_text()


@pytest.mark.torture
def test_a_lower_level_and_a_lower_patience_are_partial(project: Path, run: Run) -> None:
    (project / "test_kernel.py").write_text(_KERNEL.replace("{body}", "patience = 0.5"))
    assert run(level="brief")["partial"] == [
        "the level brief is below quick",
        "AcmeKernel: patience 0.5 s is below 20 s",
    ]


@pytest.mark.torture
def test_an_excused_test_keeps_its_row_and_its_reason(project: Path, run: Run) -> None:
    name, plan = next((n, p) for n, p in planned(KernelContract).items() if p.rules == ("time",))
    body = (
        f'@pytest.mark.xfail(reason="time is another here")\n'
        f"    def {name}(self): raise AssertionError\n"
    )
    (project / "test_kernel.py").write_text(_KERNEL.replace("{body}", body))
    document = run()
    (row,) = document["adapters"]
    assert document["verdict"] == "partial"
    assert row["excused"] == 1
    assert "excused" in row["cells"]["time"]
    assert row["total"] == _TOTAL
    page = (project / "report.md").read_text()
    assert f"AcmeKernel {name} (time): time is another here" in page
    assert plan.count >= 1


def test_a_fixture_that_cannot_be_made_is_one_error_and_no_finding(project: Path, run: Run) -> None:
    (project / "implementation.py").write_text(_BROKEN)
    document = run(code=1)
    (row,) = document["adapters"]
    assert document["verdict"] == "error"
    assert (row["error"], row["failed"]) == (1, 0)
    (error,) = [test for test in row["tests"] if test["outcome"] == "error"]
    assert error["detail"] == "OSError: no kernel here"
    assert row["not_run"] == row["total"] - row["passed"] - 1


@pytest.mark.torture
def test_a_worker_process_that_crashes_is_an_error_and_no_finding(project: Path, run: Run) -> None:
    (project / "implementation.py").write_text("import os\n\ndef kernel_of():\n    os._exit(7)\n")
    document = run("-n1", "--maxfail=1", code=1)
    assert document["verdict"] == "error"
    assert document["errors"]
    assert all(row["failed"] == 0 for row in document["adapters"])


def test_a_report_that_was_edited_is_refused(
    project: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    run("-k", "nothing_is_overridden")
    path = project / "report.json"
    path.write_text(path.read_text().replace('"not run"', '"passed"', 1))
    with pytest.raises(ReportEdited) as refusal:
        verify(path, project)
    assert refusal.value.said != refusal.value.found
    assert main(["verify", str(path), "--root", str(project)]) == 1
    assert capsys.readouterr().err.startswith(f"{path} was edited: ")


def test_a_report_of_other_sources_or_versions_is_refused(project: Path, run: Run) -> None:
    document = run("-k", "nothing_is_overridden")
    path = project / "report.json"
    (project / "implementation.py").write_text(_HONEST + "# a later version\n")
    with pytest.raises(ReportStale, match="implementation: sha256 is"):
        verify(path, project)
    (project / "implementation.py").write_text(_HONEST)
    with pytest.raises(ReportStale, match="--root with the folder in which pytest ran"):
        verify(path, project.parent)
    rewrite(path, document, kernel="9.9")
    with pytest.raises(ReportStale, match=r"kernel is .*, and the report says 9\.9"):
        verify(path, project)


def test_what_a_rerun_found_is_a_line_for_each_difference() -> None:
    row: dict[str, Any] = {
        **dict.fromkeys(("contract", "patience", "total", "features", "rules"), ""),
        **dict.fromkeys((outcome.replace(" ", "_") for outcome in OUTCOMES), 0),
        "adapter": "Acme",
        "node": "test_acme.py::TestAcme",
        "unproven": [],
        "cells": {"once": "✓ 4 of 4", "result": "✓ 2 of 2"},
    }
    told = {"rule": "once", "text": "Not counted.", "unless": "marks"}
    cells = {**row["cells"], "once": "✗ 3 of 4, 1 failed"}
    again = {**row, "cells": cells, "unproven": [told], "failed": 1}
    old = {"verdict": "passed", "errors": {}, "adapters": [row]}
    new = {"verdict": "failed", "errors": {}, "adapters": [again]}
    differences = _summaries_differ(old, new)
    assert str(ReportNotRepeated(Path("q.json"), differences)).splitlines() == [
        "q.json was not repeated by a rerun:",
        "  verdict is failed, and the report says passed",
        "  Acme: cells once: ✗ 3 of 4, 1 failed, and the report says ✓ 4 of 4",
        "  Acme: unproven: a rerun has rule once, text Not counted., unless marks",
        "  Acme: failed: 1, and the report says 0",
    ]


def test_an_editable_install_has_its_distribution(tmp_path: Path) -> None:
    """Its RECORD has no file of the package, only a ``.pth`` file with the folder."""
    for project in ("agentic_kernel_conformance", "agentic_kernel_engine"):
        found = source(project, tmp_path)
        assert found.distribution == project.replace("_", "-")
        assert found.version == metadata.version(found.distribution)


@pytest.mark.torture
def test_counts_that_are_not_those_of_the_tests_are_refused(project: Path, run: Run) -> None:
    document = run("-k", "table")
    (row,) = document["adapters"]
    path = project / "report.json"
    rewrite(path, document, adapters=[{**row, "passed": _TOTAL, "not_run": 0}])
    with pytest.raises(ReportStale, match=f"the report says {_TOTAL}"):
        verify(path, project)
    part = row["passed"]
    rewrite(path, document, adapters=[{**row, "total": part, "not_run": 0}])
    with pytest.raises(ReportStale, match=f"KernelContract has {_TOTAL}"):
        verify(path, project)


@pytest.mark.torture
def test_a_rerun_finds_out_what_a_new_digest_hides(project: Path, run: Run) -> None:
    """Anyone can compute the digest of an edited report; only a rerun shows the lie."""
    document = run("-k", "kit or nothing_is_overridden or fixture")
    path = project / "report.json"
    assert rerun(verify(path, project), path, project)["adapters"][0]["failed"] == 0
    (row,) = document["adapters"]
    test = {**row["tests"][0], "outcome": "failed"}
    forged = {**row, "tests": [test, *row["tests"][1:]], "passed": row["passed"] - 1, "failed": 1}
    rewrite(path, document, adapters=[forged])
    document = verify(path, project)
    with pytest.raises(ReportNotRepeated, match=test["test"]):
        rerun(document, path, project)


@pytest.mark.parametrize(
    "node",
    [
        "../elsewhere.py::TestX",
        pytest.param("missing.py::TestX", marks=pytest.mark.torture),
        pytest.param("-x::TestX", marks=pytest.mark.torture),
    ],
)
def test_a_rerun_runs_only_files_of_the_project(project: Path, run: Run, node: str) -> None:
    document = run("-k", "nothing_is_overridden")
    path = project / "report.json"
    (project.parent / "elsewhere.py").write_text("raise SystemExit(3)\n")
    document["adapters"][0]["node"] = node
    with pytest.raises(NotAReport, match=r"is no file of the project .* pass --root"):
        rerun(document, path, project)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"schema": 1}', "7", "[" * 100_000], ids=range(6))
def test_a_file_that_is_no_report_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "report.json"
    path.write_text(text)
    with pytest.raises(NotAReport):
        read(path)
    assert main(["verify", str(path)]) == 2
    assert main(["verify", str(tmp_path / "missing.json")]) == 2


def test_a_report_that_cannot_be_read_is_told_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(NotAReport, match=r"missing\.json cannot be read \(No such file"):
        read(tmp_path / "missing.json")


def test_the_digest_of_a_package_follows_names_and_bytes(tmp_path: Path) -> None:
    package = tmp_path / "acme"
    package.mkdir()
    with pytest.raises(SourceMissing, match="has no files"):
        source("acme", tmp_path, package)
    (package / "a.py").write_text("1")
    first = source("acme", tmp_path, package)
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "a.pyc").write_text("2")
    assert source("acme", tmp_path, package) == first
    (package / "a.py").rename(package / "b.py")
    assert source("acme", tmp_path, package).sha256 != first.sha256
    with pytest.raises(SourceMissing, match="no such module"):
        source("no_such_package_here", tmp_path)


def test_each_rule_is_explained_without_the_repository(capsys: pytest.CaptureFixture[str]) -> None:
    for name, rule in RULES.items():
        assert main(["explain", name.upper()]) == 0
        assert capsys.readouterr().out.startswith(f"# {name}: {rule.title}\n")
    assert main(["explain"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(RULES)
    assert main(["explain", "R99"]) == 2
    assert "lists all" in capsys.readouterr().err


class _Suite(QueryContract):
    """A contract of the kit's with a text of its own."""

    unproven = (
        Unproven("C4", "that no reader waits, from outside", unless="holdable"),
        Unproven("C1", "that no process writes past the Runtime"),
    )


_Suite.__module__ = "agentic_kernel_conformance.imagined"


def test_what_is_unproven_depends_on_the_open_features() -> None:
    class TestOpen(_Suite):
        features = type(_Suite.features)(holdable=True)

    assert set(_Suite.unproven) <= set(unproven(_Suite))
    assert _Suite.unproven[0] not in unproven(TestOpen)
    assert _Suite.unproven[1] in unproven(TestOpen)


@pytest.mark.parametrize("name", [name for name in kit.__all__ if name.endswith("Contract")])
def test_each_contract_says_what_it_does_not_prove(name: str) -> None:
    contract: type[Contract] = getattr(kit, name)
    assert unproven(contract)
    for each in unproven(contract):
        assert each.rule in RULES
        assert each.text.endswith(".")
        assert not each.unless or contract.features.is_open(each.unless) is False


_CONTRACTS = sorted(name for name in kit.__all__ if name.endswith("Contract"))


@pytest.mark.parametrize("name", _CONTRACTS)
def test_a_rule_whose_page_names_a_closed_feature_is_not_ticked(name: str) -> None:
    """Its tests may pass and look at nothing, so its cell names the feature."""
    contract: type[Contract] = getattr(kit, name)
    closed = [feature.name for feature in fields(contract.features)]
    plans = planned(contract)
    adapter = Adapter("Acme", name, "", {}, plans, unproven=unproven(contract))
    for test, plan in plans.items():
        for number in range(plan.count):
            needed = plan.features[:1]
            verdict = Verdict(test, plan.rules, "closed" if needed else "passed", *needed)
            adapter.verdicts[f"{test}[{number}]"] = verdict
    for rule in {rule for plan in plans.values() for rule in plan.rules}:
        page = explain(rule).partition("## Breaking it")[0]
        named = [feature for feature in closed if f"`{feature}`" in page]
        features = {each for p in plans.values() if rule in p.rules for each in p.features}
        unless = {each.unless for each in adapter.unproven if each.rule == rule}
        assert set(named) <= features | unless, rule
        if named:
            assert not adapter.cell(rule).startswith("✓"), adapter.cell(rule)


def test_a_substrate_that_keeps_no_output_has_no_tick_for_output() -> None:
    class TestMute(kit.SubstrateContract):
        features = kit.SubstrateFeatures(marks=True, pauses=True)

    plans = planned(TestMute)
    adapter = Adapter("Mute", "SubstrateContract", "", {}, plans, unproven=unproven(TestMute))
    for test, plan in plans.items():
        adapter.verdicts[test] = Verdict(test, plan.rules, "passed")
    assert adapter.cell("output") == "4 of 4, unproven without keeps_output"
    page = markdown(_report({"Mute": adapter}), {**_report({}).document(), "digest": "sha256:0"})
    assert "- Mute: output: Output from before a stop is not read. (closed: keeps_output)" in page
    assert adapter.cell("progress").startswith("✓")


def _report(adapters: dict[str, Adapter]) -> Report:
    header = dict.fromkeys(("kit", "kernel", "engine", "python", "platform", "date"), "?")
    return Report({**header, "seed": 0, "level": "brief"}, adapters=adapters)


def test_a_page_of_several_contracts_has_a_table_for_each_in_one_order() -> None:
    asked = {"StoreContract": ("R1", "C2"), "ToolContract": ("C2",)}
    ran = [("Zinc", "StoreContract"), ("Hammer", "ToolContract"), ("Ash", "StoreContract")]
    adapters = {
        name: Adapter(name, contract, name, {}, {"test_it": Planned(asked[contract], (), 1)})
        for name, contract in ran
    }
    report = _report(adapters)
    page = markdown(report, {**report.document(), "digest": "sha256:0"})
    heads = [line for line in page.splitlines() if line.startswith(("### ", "| rule"))]
    assert heads == [
        "### StoreContract",
        "| rule | Ash | Zinc |",
        "### ToolContract",
        "| rule | Hammer |",
    ]
    tools = page.partition("### ToolContract")[2].partition("- Ash")[0]
    assert "C2: " in tools
    assert "R1: " not in tools

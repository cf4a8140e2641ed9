"""Strangers' packages, built and installed, are found and run by the command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from packages.cli.tests.terminals import Terminals

from .outsiders import PARTS, ROOT, installed, project, wheel, written
from .released import _installer

SQLITE_ENTRY = """
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit
from agentic_kernel_engine.discovery import StoreEntry

@dataclass(frozen=True)
class Options:
    lease: float = 10.0
    token: str = ""

@asynccontextmanager
async def opened(url, options):
    from .store import SQLiteStore
    store = SQLiteStore(unquote(urlsplit(url).path), lease=options.lease)
    try:
        yield store
    finally:
        store.close()

STORE = StoreEntry(open=opened, options=Options, secret=["token"], lease=10.0)
"""


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `docs/examples/parts`, and a package with the SQLite store, installed."""
    folder = tmp_path_factory.mktemp("parts")
    sources = {
        "store.py": (ROOT / "integration" / "sqlite_store.py").read_text(),
        "entry.py": SQLITE_ENTRY,
    }
    entries = {"agentic_kernel.stores": {"sqlite": "acme_sqlite.entry:STORE"}}
    site = folder / "site"
    installed(wheel(PARTS, folder), site)
    installed(wheel(project(folder, "acme-sqlite", entries, sources), folder), site)
    return site


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with packages that cannot be used, each for another reason."""
    site = tmp_path_factory.mktemp("broken")
    group = "agentic_kernel.runtimes"
    packages = {
        "bad-import": {group: {"import-fault": "bad_import:nothing"}},
        "bad-type": {group: {"odd-type": "bad_type:WORK"}},
        "bad-exit": {group: {"exits": "bad_exit.entry:WORK"}},
        "bad-name": {group: {"Odd Name": "bad_name:WORK"}},
        "twin-one": {group: {"twin": "twin_one:WORK"}},
        "twin-two": {"agentic_kernel.providers": {"twin": "twin_two:WORK"}},
        "bad-thief": {group: {"openai": "bad_thief:WORK"}},
        "bad-checks": {group: {"checked": "bad_checks.entry:WORK"}},
    }
    checks = (
        "from agentic_kernel_engine.discovery import *\n"
        "async def checks():\n    raise OSError('\\x1b[2Jthe disk is gone')\n"
        "WORK = RuntimeEntry(make=print, options=NoOptions, checks=checks)\n"
    )
    code = {
        "bad-import": {"__init__.py": "raise RuntimeError('\\x1b[2Jnot today')"},
        "bad-type": {"__init__.py": "WORK = 7"},
        "bad-exit": {"entry.py": "raise SystemExit(3)"},
        "bad-checks": {"entry.py": checks},
    }
    for name, entries in packages.items():
        written(site, name, entries, code.get(name, {}))
    unreadable = site / "bad_list-1.0.dist-info"
    unreadable.mkdir()
    (unreadable / "METADATA").write_text("Metadata-Version: 2.1\nName: bad-list\nVersion: 1.0\n")
    (unreadable / "entry_points.txt").write_text(f"[{group}]\nno object\n")
    return site


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[Terminals]:
    there = Terminals(tmp_path / "state")
    yield there
    for command in there.started:
        if command.process.poll() is None:
            command.process.kill()
        command.end()


def test_a_strangers_runtime_is_found_and_runs_by_its_name(
    terminals: Terminals, parts: Path, tmp_path: Path
) -> None:
    terminals.env["PYTHONPATH"] = str(parts)
    looked = terminals.call("--json", "doctor", "--runtime", "shell").lines
    told = {line["name"]: line for line in looked if line["needed"]}
    assert told["acme-parts"]["detail"] == (
        "1.0: runtime shell, shell commands, one a line; "
        "options: program=text (sh), seconds=number (60.0)"
    )
    assert told["sh"]["ok"]
    assert "shell" in terminals.call("run", "--runtime", "abacus", "x", code=2).err
    mark = tmp_path / "mark"
    words = ("run", "--runtime", "shell", "-o", "program=/bin/sh", "-o", "seconds=5")
    done = terminals.call(*words, "--id", "it", f"echo one\necho two >> {mark}; cat {mark}")
    assert done.out == "one\ntwo\n"
    [task] = terminals.call("--json", "show", "it").lines
    assert (task["status"], task["runtime_kind"]) == ("success", "shell")
    assert task["metadata"]["cli/options"] == {"program": "/bin/sh", "seconds": "5"}
    assert mark.read_text() == "two\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-o", "seconds=soon"], "seconds must be a number, not 'soon'; "),
        pytest.param(["-o", "seconds=0"], "give more than 0", marks=pytest.mark.torture),
        (["-o", "seconds=nan"], "finite"),
        (["-o", "colour=red"], "it has program=text (sh), seconds=number (60.0)"),
        (["-o", "seconds"], "NAME=VALUE"),
        (["-o", "seconds=1", "-o", "seconds=2"], "given twice"),
        (["--tools", "calculator"], "--tools: does not work with --runtime shell"),
        *(
            pytest.param(words, f"{words[0]}: does not work", marks=pytest.mark.torture)
            for words in (["--model", "m"], ["--max-tokens", "5"])
        ),
    ],
)
def test_its_options_are_typed_and_nothing_is_accepted_and_ignored(
    terminals: Terminals, parts: Path, words: list[str], told: str
) -> None:
    terminals.env["PYTHONPATH"] = str(parts)
    refused = terminals.call("run", "--runtime", "shell", *words, "echo no", code=2)
    assert told in refused.err
    assert refused.err.count("\n") == 1
    assert terminals.call("--json", "list").lines == []


def test_a_stored_task_gets_the_options_of_the_command_line_and_never_its_own(
    terminals: Terminals, parts: Path, tmp_path: Path
) -> None:
    terminals.env["PYTHONPATH"] = str(parts)
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
    trap.chmod(0o755)
    words = ("run", "--runtime", "shell", "-o", f"program={trap}", "--id", "it", "echo hello")
    terminals.call(*words)
    assert (tmp_path / "sprung").exists()
    (tmp_path / "sprung").unlink()
    refused = terminals.call("rerun", "it", "--runtime", "shell", code=5)
    assert f"--runtime shell --option program={trap}" in refused.err
    assert terminals.call("rerun", "it", "--runtime", "shell", "-o", "program=sh").out == "hello\n"
    assert not (tmp_path / "sprung").exists()


def test_a_strangers_store_and_observer_work_by_name(
    terminals: Terminals, parts: Path, tmp_path: Path
) -> None:
    terminals.env["PYTHONPATH"] = str(parts)
    file, lines = tmp_path / "tasks.db", tmp_path / "lines"
    terminals.url = f"sqlite://{file}?lease=20"
    run = ("run", "--runtime", "shell", "--id", "it", "echo hello")
    assert terminals.call("--observer", f"lines?path={lines}", *run).out == "hello\n"
    types = [json.loads(line)["type"] for line in lines.read_text().splitlines()]
    assert types[0] == "task.dispatched"
    assert "task.completed" in types
    assert file.exists()
    assert [task["id"] for task in terminals.call("--json", "list").lines] == ["it"]
    looked = {
        line["name"]: line
        for line in terminals.call("--json", "doctor", "--runtime", "shell").lines
    }
    assert looked["state"]["ok"]
    assert "store sqlite" in looked["acme-sqlite"]["detail"]
    refused = terminals.call("--observer", "lines", *run[:3], "x", code=2)
    assert "--observer: lines needs path=text; write 'lines?path=…'" in refused.err
    nowhere = f"lines?path={tmp_path / 'no' / 'where'}"
    doctor = ("--json", "doctor", "--runtime", "shell")
    findings = terminals.call("--observer", nowhere, *doctor, code=1).lines
    wrong = {line["name"]: line["advice"] for line in findings if line["needed"] and not line["ok"]}
    assert list(wrong) == ["observer lines"]
    assert "cannot be made: FileNotFoundError: " in wrong["observer lines"]
    assert "run, resume" in terminals.call("--observer", "lines", "list", code=2).err
    terminals.url = f"sqlite://{file}?lease=soon"
    told = terminals.call("list", code=2).err
    assert "the parameters of --state: lease must be a number, not 'soon'; " in told
    terminals.url = "redis://127.0.0.1/0"
    assert "file:, postgres:, postgresql:, sqlite:" in terminals.call("list", code=2).err


def test_secrets_in_a_url_are_not_shown(terminals: Terminals, parts: Path, tmp_path: Path) -> None:
    terminals.env["PYTHONPATH"] = str(parts)
    terminals.url = f"sqlite://me:hunter2@host{tmp_path}/a.db?token=hunter3&lease=5"
    shown = terminals.call("list")
    assert f"sqlite://me@host{tmp_path}/a.db?lease=5" in shown.err
    assert "hunter" not in shown.err + shown.out
    terminals.url = f"sqlite://me:hun/ter2@host{tmp_path}/a.db"
    refused = terminals.call("list", code=2)
    assert "%2F" in refused.err
    assert "ter2" not in refused.err


def test_a_broken_package_is_told_by_the_doctor_and_stops_nothing_else(
    terminals: Terminals, parts: Path, broken: Path
) -> None:
    terminals.env["PYTHONPATH"] = f"{parts}{os.pathsep}{broken}"
    assert terminals.call("run", "--runtime", "shell", "--id", "it", "echo hello").out == "hello\n"
    assert [task["id"] for task in terminals.call("--json", "list").lines] == ["it"]
    terminals.call("show", "it")
    looked = terminals.call("--json", "doctor", code=1).lines
    told = {line["name"]: line["advice"] for line in looked if not line["ok"]}
    assert "RuntimeError" in told["runtime import-fault"]
    assert "takes RuntimeEntry" in told["runtime odd-type"]
    assert "SystemExit" in told["runtime exits"]
    assert "its name is 'Odd Name'" in told["runtime Odd Name"]
    assert "twin-one 1.0 and twin-two 1.0 both offer 'twin'" in told["runtime twin"]
    assert "both offer 'openai'; uninstall all but one" in told["runtime openai"]
    assert "cannot be read" in told["the package bad-list"]
    assert "the disk is gone" in str([line for line in looked if line["name"] == "runtime checked"])
    assert "\x1b" not in terminals.call("doctor", code=1).out
    refused = terminals.call("run", "--runtime", "openai", "--model", "m", "x", code=2)
    assert "bad-thief 1.0" in refused.err
    refused = terminals.call("run", "--runtime", "import-fault", "x", code=1)
    assert "not today" in refused.err
    assert "\x1b" not in refused.err


def test_listing_imports_no_package(parts: Path) -> None:
    code = (
        "import sys\n"
        "from agentic_kernel_engine.discovery import *\n"
        "every = found(RUNTIMES, PROVIDERS, STORES, OBSERVERS)\n"
        "assert {'shell', 'openai', 'file', 'sqlite', 'otel'} <= set(every), every\n"
        "new = [n for n in sys.modules if n.startswith(('acme', 'agentic_kernel_'))]\n"
        "print(sorted({n.partition('.')[0] for n in new}))\n"
        "for each in every.values():\n    each.load()\n"
        "slow = 'openai anthropic google.genai copilot psycopg opentelemetry ollama xllamacpp'\n"
        "print([name for name in slow.split() if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(parts)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines() == ["['agentic_kernel_engine']", "[]"]


@pytest.mark.torture
def test_the_installed_wheel_passes_the_contract(parts: Path, tmp_path: Path) -> None:
    tests = shutil.copytree(PARTS / "tests", tmp_path / "tests")
    (tmp_path / "pytest.toml").write_text(
        '[pytest]\nasyncio_default_fixture_loop_scope = "function"\n'
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
         "--conformance-level=brief", str(tests)],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(parts)},
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert "Shell (SubstrateContract): passed 23 of 23" in done.stdout


@pytest.mark.torture
def test_a_strangers_wheel_runs_beside_our_wheels_in_a_clean_environment(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    for name in ("kernel", "engine", "file", "cli"):
        source = ROOT / "packages" / name
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)],
            cwd=source, check=True, capture_output=True, timeout=120,
        )  # fmt: skip
    theirs = wheel(PARTS, tmp_path)
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    made = [str(path) for path in wheels.glob("*.whl")]
    assert str(theirs) in made
    subprocess.run([*_installer(python), *made], check=True, capture_output=True, timeout=300)
    command = [str(python.with_name("agentic-kernel")), "--state", str(tmp_path / "state")]
    run = [*command, "run", "--runtime", "shell", "echo hello"]
    done = subprocess.run(run, check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout == "hello\n"
    looked = subprocess.run(
        [*command, "--json", "doctor", "--runtime", "shell"],
        check=True, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert "runtime shell" in looked.stdout

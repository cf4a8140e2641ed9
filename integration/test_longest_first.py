"""A run of several workers begins with the files that take longest."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from integration.longest_first import Seconds

ROOT = Path(__file__).parent.parent


def order(folder: Path, *options: str) -> list[str]:
    """The files of a run in the order in which their tests ran, each once."""
    for name, tests in {"a": 1, "b": 3, "c": 1}.items():
        lines = (f"def test_{number}():\n    pass\n" for number in range(tests))
        (folder / f"test_{name}.py").write_text("".join(lines))
    seconds = folder / "seconds.json"
    seconds.write_text(json.dumps({"test_c.py": 9, "test_a.py": 5}))
    said = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-p", "integration.longest_first", "-v",
            "-o", f"seconds={seconds}", f"--rootdir={folder}", *options, str(folder),
        ],
        cwd=ROOT, capture_output=True, text=True, timeout=100, check=True,
    ).stdout  # fmt: skip
    ran = (line for line in said.splitlines() if "PASSED" in line)
    files = (word.partition("::")[0] for line in ran for word in line.split() if "::" in word)
    return list(dict.fromkeys(Path(file).name for file in files))


@pytest.mark.parametrize(
    ("options", "files"),
    [
        (("-n", "1", "--dist", "loadfile"), ["test_c.py", "test_a.py", "test_b.py"]),
        ((), ["test_a.py", "test_b.py", "test_c.py"]),
    ],
    ids=["workers", "alone"],
)
def test_workers_begin_with_the_longest_files(
    tmp_path: Path, options: tuple[str, ...], files: list[str]
) -> None:
    assert order(tmp_path, *options) == files


def test_workers_begin_to_import_at_different_folders_and_agree_on_the_order(
    tmp_path: Path,
) -> None:
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / f"test_{name}.py").write_text(
            "import os, pathlib\n"
            "worker = os.environ['PYTEST_XDIST_WORKER']\n"
            f"with (pathlib.Path({str(tmp_path)!r}) / worker).open('a') as file:\n"
            f"    file.write({name!r})\n"
            "def test_it():\n    pass\n"
        )
    folders = [str(tmp_path / name) for name in ("a", "b")]
    subprocess.run(
        [
            sys.executable, "-m", "pytest", "-p", "integration.longest_first", "-n", "2",
            "--dist", "loadfile", "-o", "seconds=", f"--rootdir={tmp_path}", *folders,
        ],
        cwd=ROOT, capture_output=True, text=True, timeout=100, check=True,
    )  # fmt: skip
    assert [(tmp_path / worker).read_text() for worker in ("gw0", "gw1")] == ["ab", "ba"]


def test_the_list_is_renewed_from_what_the_tests_took(tmp_path: Path) -> None:
    listed = tmp_path / "seconds.json"
    seconds = Seconds([listed])
    for test, took in [("a.py::x", 2.4), ("b.py::x", 9.0), ("a.py::y", 2.0), ("c.py::x", 2.9)]:
        report = pytest.TestReport(test, (test, 0, test), {}, "passed", None, "call", duration=took)
        seconds.pytest_runtest_logreport(report)
    seconds.pytest_unconfigure()
    assert json.loads(listed.read_text()) == {"b.py": 9, "a.py": 4}


def test_the_list_names_files_that_are_there() -> None:
    listed = json.loads((ROOT / "integration" / "seconds.json").read_text())
    assert [file for file in listed if not (ROOT / file).is_file()] == []

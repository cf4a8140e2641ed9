"""A pytest that a test starts leaves the permissions of the run's own folder as they are."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

from .nested import ROOT

OUTER = """
import subprocess, sys

def test_it(tmp_path):
    runs = next(folder for folder in tmp_path.parents if folder.name.startswith("pytest-of-"))
    runs.chmod(0o711)  # as the embedded Postgres does
    (tmp_path / "test_inner.py").write_text("def test_it(tmp_path): pass")
    inner = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_inner.py"]
    subprocess.run(inner, cwd=tmp_path, check=True)
"""


def test_a_nested_run_does_not_close_the_folder_of_all_runs(tmp_path: Path) -> None:
    (tmp_path / "roots").mkdir()
    (tmp_path / "test_outer.py").write_text(OUTER)
    plugins = ["-p", "integration.nested", "-p", "no:cacheprovider"]
    repository = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, "test_outer.py"],
        env={**os.environ, ROOT: str(tmp_path / "roots"), "PYTHONPATH": str(repository)},
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    (runs,) = (tmp_path / "roots").iterdir()
    assert stat.S_IMODE(runs.stat().st_mode) == 0o711

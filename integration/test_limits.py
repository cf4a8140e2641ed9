"""A test that hangs is named, and the run goes on or ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

WAITS = """
import asyncio

async def test_hangs():
    await asyncio.Event().wait()
"""
HOLDS_ON = """
import asyncio

async def test_hangs():
    async def deaf():
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                pass
    asyncio.get_running_loop().held = asyncio.create_task(deaf())
    await asyncio.Event().wait()
"""
HOLDS_THE_INTERPRETER = """
import itertools

def test_hangs():
    assert "a" in itertools.repeat("b")
"""
AFTER = """
def test_after():
    print("the next test ran")
"""


def ran(
    folder: Path, program: str, *options: str, grace: int = 1
) -> subprocess.CompletedProcess[str]:
    """A run of a module with these limits, to its end."""
    module = folder / "test_run.py"
    module.write_text(program + AFTER)
    command = [sys.executable, "-m", "pytest", "-p", "integration.limits", "-s", "-q"]
    settings = ["timeout=1", "timeout_method=signal", f"timeout_grace={grace}"]
    given = [part for each in [*settings, "asyncio_mode=auto"] for part in ("-o", each)]
    return subprocess.run(
        [*command, *given, f"--rootdir={folder}", *options, str(module)],
        cwd=ROOT, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip


def test_a_test_that_waits_for_ever_fails_by_name_and_the_run_goes_on(tmp_path: Path) -> None:
    done = ran(tmp_path, WAITS, grace=60)  # on a busy machine, failing takes a while
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "test_run.py::test_hangs did not end within its limit of 1 s" in done.stderr
    assert "the next test ran" in done.stdout
    assert "1 failed, 1 passed" in done.stdout


@pytest.mark.parametrize("program", [HOLDS_ON, HOLDS_THE_INTERPRETER], ids=["loop", "interpreter"])
def test_a_test_that_holds_the_process_ends_it_with_its_stacks(
    program: str, tmp_path: Path
) -> None:
    done = ran(tmp_path, program)
    assert done.returncode == 1
    assert "test_hangs" in done.stderr
    assert "most recent call first" in done.stderr


@pytest.mark.torture
def test_with_workers_the_test_is_named_and_the_others_run(tmp_path: Path) -> None:
    done = ran(tmp_path, HOLDS_THE_INTERPRETER, "-n", "1")
    assert "crashed while running 'test_run.py::test_hangs'" in done.stdout
    assert "1 failed, 1 passed" in done.stdout

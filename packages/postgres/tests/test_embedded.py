"""The embedded server ends with the last process that uses it, whatever ended that process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import psutil  # type: ignore[import-untyped]
import psycopg
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

PATIENCE = 60
"""Seconds after which a process that is still there counts as left behind."""


class User:
    """A process that uses the server of a folder."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "packages.postgres.tests.embedded_worker", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        )
        self.place = _pipe(self.process.stdout).readline().strip()
        self.server = psutil.Process(int(_pipe(self.process.stdout).readline()))

    def guard(self) -> psutil.Process:
        """The program that stops the server after this process."""
        (guard,) = psutil.Process(self.process.pid).children()
        return guard

    def kill(self) -> None:
        """As the system does when there is no memory left."""
        self.process.kill()
        self._ended()

    def end(self) -> None:
        """As a program ends that has no more to do."""
        _pipe(self.process.stdin).close()
        self._ended()
        assert self.process.returncode == 0

    def _ended(self) -> None:
        self.process.wait(PATIENCE)
        for pipe in (self.process.stdin, self.process.stdout):
            _pipe(pipe).close()


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


def _gone(process: psutil.Process) -> bool:
    """True if a process ends; a dead process without a parent that waits for it counts as ended."""
    try:
        process.wait(PATIENCE)
    except psutil.TimeoutExpired:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    return True


@pytest.fixture
def folder() -> Iterator[Path]:
    # Not in pytest's own folder: run as root, the server has a user of its own, whom others that
    # run pytest shut out of there.
    home = Path(tempfile.mkdtemp(prefix="agentic-kernel-")).resolve()
    yield home / "data"
    shutil.rmtree(home)


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.torture)]
)
def test_the_server_ends_when_its_user_is_killed(folder: Path, number: signal.Signals) -> None:
    user = User(folder)
    os.kill(user.process.pid, number)
    user._ended()
    assert _gone(user.server)
    assert not (folder / "postmaster.pid").exists(), "it was stopped in an orderly way"


def test_the_server_is_stopped_before_its_user_has_ended(folder: Path) -> None:
    """So that whoever waited for a program may remove its folder."""
    user = User(folder)
    user.end()
    assert not user.server.is_running() or user.server.status() == psutil.STATUS_ZOMBIE


def test_of_several_users_the_last_one_ends_the_server(folder: Path) -> None:
    """In whatever way each of them ends."""
    first, second, third = User(folder), User(folder), User(folder)
    assert first.server == second.server == third.server
    first.kill()
    second.end()
    with psycopg.connect(third.place) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    third.kill()
    assert _gone(third.server)


@pytest.mark.torture
def test_users_that_die_at_once_leave_no_server(folder: Path) -> None:
    users = [User(folder) for _ in range(3)]
    for user in users:
        user.process.kill()
    for user in users:
        user._ended()
    assert _gone(users[0].server)


def test_a_server_that_was_left_behind_is_ended_by_the_next_user(folder: Path) -> None:
    """Its user and its guard are killed together, so that it goes on alone."""
    first = User(folder)
    first.guard().kill()
    first.kill()
    assert first.server.is_running()
    second = User(folder)
    assert second.server == first.server
    second.end()
    assert _gone(first.server)


@pytest.mark.torture
def test_a_guard_ends_a_server_whose_user_dies_while_it_starts(folder: Path) -> None:
    """The user is killed as soon as the server's own process is there."""
    User(folder).end()  # so that the folder is made
    process = subprocess.Popen(
        [sys.executable, "-m", "packages.postgres.tests.embedded_worker", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        cwd=Path(__file__).parents[3],
    )
    while not (folder / "postmaster.pid").exists():
        assert process.poll() is None
    process.kill()
    process.communicate()
    for each in psutil.process_iter(["cmdline"]):
        if str(folder) in (each.info["cmdline"] or []):
            assert _gone(each), each


def test_the_tests_servers_end_when_pytest_is_killed(tmp_path: Path) -> None:
    """A run of pytest that uses the fixture `server` is killed in the middle of a test."""
    module = tmp_path / "test_it.py"
    module.write_text(
        "import os, signal\n"
        "from integration.postgres_server import server\n"
        "def test_it(server):\n"
        "    print('AT', server, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environment = {key: value for key, value in os.environ.items() if key != "DATABASE_URL"}
    root = Path(__file__).parents[3]
    environment["PYTHONPATH"] = f"{root}{os.pathsep}{environment.get('PYTHONPATH', '')}"
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", str(module)],
        capture_output=True,
        text=True,
        env=environment,
        cwd=root,
        check=False,
    )
    assert ran.returncode == -signal.SIGKILL, ran.stdout + ran.stderr
    data = ran.stdout.partition("host=")[2].split()[0]
    for each in psutil.process_iter(["cmdline"]):
        if data in (each.info["cmdline"] or []):
            assert _gone(each), each
    assert not Path(data).parent.exists()

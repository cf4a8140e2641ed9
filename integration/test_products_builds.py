"""The build runner passes the contracts, and does what a user of a build runner expects."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from agentic_kernel import CannotStart, Task
from agentic_kernel_conformance import (
    Bounds,
    Fail,
    Mark,
    QueryContract,
    RuntimeContract,
    RuntimeFeatures,
    Say,
    Script,
    SubstrateContract,
    SubstrateFeatures,
    SubstrateWork,
)
from agentic_kernel_engine import Host

from .products.builds import workshop
from .products.builds.targets import BuildFileError, read_plan
from .products.builds.workshop import KIND, Workshop, task_of
from .sqlite_store import SQLiteStore

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
PATIENCE = 30.0


class Recipes(SubstrateWork):
    """A script as the lines of a recipe."""

    def task(self, script: Script) -> Task:
        lines = []
        for step in script:
            match step:
                case Mark(token):
                    lines.append(f"{sys.executable} -m agentic_kernel_conformance.mark {token}")
                case Say(text):
                    lines.append(f"echo {shlex.quote(text)}")
                case Fail(code):
                    lines.append(f"exit {code}")
        return task_of("script", lines or ["true"], ROOT)

    def refused(self) -> Task:
        return Task.new(summary="none", instructions="no recipe", runtime_kind=KIND)


class TestWorkshop(SubstrateContract):
    """A line that a crash cut off is run again, as in any build."""

    features = SubstrateFeatures(
        marks=True, pauses=True, keeps_output=True, fails=True, refuses=True
    )
    bounds = Bounds(after_crash="repeated")

    @pytest.fixture
    def factory(self) -> str:
        return f"{workshop.__name__}:Workshop"

    @pytest.fixture
    def work(self) -> Recipes:
        return Recipes()


FEATURES = RuntimeFeatures(pauses=True, refuses=True)


class _OnSQLite:
    @pytest.fixture
    def work(self) -> Recipes:
        return Recipes()

    @pytest_asyncio.fixture
    async def runtime(self, tmp_path: Path) -> AsyncIterator[Host]:
        store = SQLiteStore(tmp_path / "builds.db")
        async with Host(Workshop(), store, runtime_kinds=[KIND], interval=0.01) as host:
            yield host
        store.close()


class TestBuilds(_OnSQLite, RuntimeContract):
    features = FEATURES


class TestBuildsAsQuery(_OnSQLite, QueryContract):
    features = FEATURES


# The command


class Shop:
    """A folder with a build file, and the command on it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = root / "log"
        self.started: list[subprocess.Popen[str]] = []

    def says(self, text: str) -> None:
        """Write the build file."""
        (self.root / "builds.toml").write_text(text, encoding="utf-8")

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start the command."""
        command = [sys.executable, "-m", "integration.products.builds", "--state", ".builds"]
        process = subprocess.Popen(
            [*command, *words], cwd=self.root, env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        self.started.append(process)
        return process

    def run(self, *words: str) -> tuple[int, str]:
        """Run the command; its status and what it wrote."""
        process = self.start(*words)
        said, _ = process.communicate(timeout=PATIENCE)
        return process.returncode, said

    def wait_for(self, line: str) -> None:
        """Wait until a recipe wrote a line to the log."""
        end = time.monotonic() + PATIENCE
        while line not in self.lines():
            assert time.monotonic() < end, f"{line!r} never came; the log has {self.lines()}"
            time.sleep(0.02)

    def lines(self) -> list[str]:
        """The lines that recipes wrote to the log."""
        return self.log.read_text(encoding="utf-8").split() if self.log.exists() else []


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path)
    yield shop
    for process in shop.started:
        if process.poll() is None:
            process.kill()
        process.communicate()


WAITS = """
[slow]
run = [
    "echo one >> log",
    "echo two >> log; while [ ! -e go ]; do sleep 0.05; done",
    "echo three >> log",
]
"""


def test_what_nothing_has_changed_is_fresh(shop: Shop) -> None:
    (shop.root / "in.txt").write_text("a")
    shop.says(
        '[copy]\ninputs = ["in.txt"]\noutputs = ["out.txt"]\n'
        'run = ["cat in.txt > out.txt", "echo copied >> log"]\n'
        '[count]\nneeds = ["copy"]\nrun = ["echo counted >> log"]\n'
    )
    assert shop.run("build") == (0, "made     copy\nmade     count\n")
    assert shop.run("build") == (0, "fresh    copy\nfresh    count\n")
    (shop.root / "in.txt").write_text("b")
    assert shop.run("build") == (0, "made     copy\nmade     count\n")
    (shop.root / "out.txt").unlink()
    assert shop.run("build", "copy")[1] == "made     copy\n"
    assert shop.lines() == ["copied", "counted", "copied", "counted", "copied"]


def test_what_needs_a_failed_target_is_skipped_and_the_rest_is_made(shop: Shop) -> None:
    shop.says(
        '[bad]\nrun = ["echo no luck", "exit 3"]\n[after]\nneeds = ["bad"]\nrun = ["true"]\n'
        '[other]\nrun = ["true"]\n[liar]\noutputs = ["never"]\nrun = ["true"]\n'
    )
    status, said = shop.run("build")
    assert status == 1
    assert "failed   bad: line 2 ended with 3: exit 3" in said
    assert "skipped  after: bad was failed" in said
    assert "made     other" in said
    assert "failed   liar: the recipe did not make never" in said
    assert shop.run("log", "bad")[1].startswith("no luck\n")


def test_a_killed_process_is_succeeded_and_no_finished_line_is_run_again(shop: Shop) -> None:
    shop.says(WAITS)
    first = shop.start("build")
    shop.wait_for("two")
    first.kill()
    first.wait()
    (shop.root / "go").touch()
    status, said = shop.run("build")
    assert (status, said) == (0, "made     slow\n")
    assert shop.lines() == ["one", "two", "two", "three"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_signal_lets_the_line_end_and_the_next_build_goes_on(
    shop: Shop, number: signal.Signals
) -> None:
    shop.says(WAITS)
    first = shop.start("build")
    shop.wait_for("two")
    first.send_signal(number)
    (shop.root / "go").touch()
    said, _ = first.communicate(timeout=PATIENCE)
    assert first.returncode == 128 + number
    assert "build again to go on" in said
    assert shop.run("build")[0] == 0
    assert shop.lines() == ["one", "two", "three"]


def test_two_processes_make_a_target_once(shop: Shop) -> None:
    shop.says(WAITS)
    both = [shop.start("build"), shop.start("build")]
    shop.wait_for("two")
    (shop.root / "go").touch()
    said = sorted(process.communicate(timeout=PATIENCE)[0] for process in both)
    assert [process.returncode for process in both] == [0, 0]
    assert said[1] == "made     slow\n"
    assert shop.lines() == ["one", "two", "three"]


def test_stop_from_another_terminal_ends_the_processes(shop: Shop) -> None:
    shop.says(
        '[slow]\nrun = ["echo begun >> log; sleep 60 & echo $! > pid; wait", "echo on >> log"]\n'
    )
    builds = shop.start("build")
    shop.wait_for("begun")
    assert shop.run("stop", "slow") == (0, "slow: stopped\n")
    said, _ = builds.communicate(timeout=PATIENCE)
    assert (builds.returncode, said) == (1, "stopped  slow\n")
    pid = int((shop.root / "pid").read_text())
    stat = Path(f"/proc/{pid}/stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] in "ZX"
    assert shop.lines() == ["begun"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[a]\nneeds = ['b']\nrun = ['true']", "target 'a' needs 'b', which is no target"),
        ("[a]\nneeds = ['b']\nrun = ['true']\n[b]\nneeds = ['a']\nrun = ['true']", "in a ring"),
        ("[a]\nrun = 'true'", "`run` must be a list of texts"),
        ("[a]", "has no `run`"),
        ("[a]\nruns = ['true']", "has 'runs'; use inputs"),
        ("a = 1", "must be a table"),
        ("[", "is no TOML"),
    ],
)
def test_a_bad_build_file_is_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "builds.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BuildFileError, match=said):
        read_plan(path)


def test_a_mistake_of_the_caller_ends_with_2_and_a_remedy(shop: Shop) -> None:
    shop.says("[a]\ninputs = ['none-*']\nrun = ['true']")
    assert shop.run("build", "b") == (2, "builds: there is no target 'b'; there are a\n")
    status, said = shop.run("build")
    assert status == 2
    assert "no file fits the input 'none-*'" in said
    assert shop.run("log", "a")[0] == 2
    assert shop.run("build", "-j", "0")[0] == 2


async def test_a_task_that_is_no_recipe_is_refused(tmp_path: Path) -> None:
    async with Host(Workshop(), runtime_kinds=[KIND]) as host:
        with pytest.raises(CannotStart, match="no recipe"):
            await host.dispatch(Recipes().refused())
        assert not await host.find()

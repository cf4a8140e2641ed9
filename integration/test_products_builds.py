"""The build runner's substrate and Host pass the contracts, and its build file is checked."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from agentic_kernel import CannotStart, Task, TaskStatus
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
from agentic_kernel_engine import Host, MemoryStore

from .products.builds import workshop
from .products.builds.processes import run_line
from .products.builds.shelf import MistakeError, Shelf, aside, changed, inputs_digest
from .products.builds.targets import BuildFileError, read_plan
from .products.builds.workshop import KIND, MOST_OUTPUT, Workshop, task_of
from .sqlite_store import SQLiteStore

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]


class Recipes(SubstrateWork):
    """A script as the lines of a recipe."""

    once = False
    """True if no mark is made again after a crash."""

    def task(self, script: Script) -> Task:
        lines = []
        marks = [number for number, step in enumerate(script) if isinstance(step, Mark)]
        for step in script:
            match step:
                case Mark(token):
                    lines.append(f"{sys.executable} -m agentic_kernel_conformance.mark {token}")
                case Say(text):
                    lines.append(f"echo {shlex.quote(text)}")
                case Fail(code):
                    lines.append(f"exit {code}")
        return task_of("script", lines or ["true"], ROOT, once=marks if self.once else ())

    def refused(self) -> Task:
        return Task.new(summary="none", instructions="no recipe", runtime_kind=KIND)


class OnceRecipes(Recipes):
    """Recipes whose marks must not be made again after a crash."""

    once = True


class TestWorkshop(SubstrateContract):
    """A line that a crash cut off is run again."""

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


@pytest.mark.torture
class TestWorkshopOnce(SubstrateContract):
    """A line to run once is not run again, and the failure says that its outcome is unknown."""

    features = TestWorkshop.features
    bounds = Bounds(after_crash="reported")

    @pytest.fixture
    def factory(self) -> str:
        return f"{workshop.__name__}:Workshop"

    @pytest.fixture
    def work(self) -> OnceRecipes:
        return OnceRecipes()


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


# The Host's contract, once more; `SubstrateContract` proves what is the product's own.
@pytest.mark.torture
class TestBuilds(_OnSQLite, RuntimeContract):
    features = FEATURES


class TestBuildsAsQuery(_OnSQLite, QueryContract):
    features = FEATURES


async def made(task: Task) -> tuple[Task, str]:
    """Run a Task to its end; the Task and all of its output."""
    async with Host(Workshop(), runtime_kinds=[KIND]) as host:
        ended = await host.run(task)
        events = (await host.outcome(task.id)).events
    return ended, "".join(each.data["text"] for each in events if each.type == "run.delta")


def failure(task: Task) -> str:
    """The code of the failure of a Task."""
    assert task.failure is not None
    return task.failure.code


def gone(pid: str) -> bool:
    """True if a process runs no more."""
    stat = Path(f"/proc/{pid.strip()}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] in "ZX"


async def test_a_task_that_is_not_a_recipe_is_refused() -> None:
    async with Host(Workshop(), runtime_kinds=[KIND]) as host:
        for text in ("no recipe", "{}", "[]", "1", '{"run": ["true"], "folder": "."}', "[" * 9999):
            with pytest.raises(CannotStart, match="not a recipe"):
                await host.dispatch(Task.new(summary="none", instructions=text, runtime_kind=KIND))
        assert not await host.find()


async def test_the_output_of_a_line_is_bounded_and_its_end_is_in_the_failure(
    tmp_path: Path,
) -> None:
    size = 70 << 20  # Over the limit of what a Host takes between two commits.
    ended, said = await made(task_of("big", [f"yes | head -c {size}; echo end; exit 3"], tmp_path))
    assert failure(ended) == "build/line_failed"
    assert ended.failure is not None
    assert ended.failure.metadata["output"].endswith("y\nend\n")
    kept, _, rest = said.partition("\n[")
    assert len(kept) == MOST_OUTPUT
    assert rest == f"{size + 4 - MOST_OUTPUT:,} more characters of line 1 are not kept]\n"


async def test_output_that_is_not_text_is_kept_as_text(tmp_path: Path) -> None:
    """Also if a character comes in two pieces."""
    lines = [r"printf '\303'; sleep 0.1; printf '\251\n'", r"printf '\377\000\n'"]
    _, said = await made(task_of("odd", lines, tmp_path))
    assert said == "é\n��\n"


async def test_a_line_is_over_when_its_shell_ends_whatever_it_left_behind(tmp_path: Path) -> None:
    """A process in a session of its own keeps the output open; it ends with its line."""
    daemon = tmp_path / "daemon.py"
    daemon.write_text(
        "import os, time\nos.setsid()\nopen('part', 'w').write(str(os.getpid()))\n"
        "os.rename('part', 'pid')\ntime.sleep(600)\n"
    )
    line = f"{sys.executable} {daemon} & while [ ! -e pid ]; do sleep 0.02; done"
    ended, _ = await made(task_of("daemon", [line, "echo next"], tmp_path))
    assert ended.status is TaskStatus.SUCCESS
    assert gone((tmp_path / "pid").read_text())


async def until_there(path: Path) -> None:
    """Wait for a file that a line makes."""
    for _ in range(3_000):
        if await aside(path.exists):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{path} did not come")


async def test_the_end_of_a_line_leaves_another_run_of_its_target_alone(tmp_path: Path) -> None:
    """A builder that lost a Task ends what it began itself, and not what its successor began."""
    wait = "touch up; while [ ! -e go ]; do sleep 0.02; done"
    successor = asyncio.create_task(run_line(wait, tmp_path, "mark", lambda text: None))
    await until_there(tmp_path / "up")
    assert await run_line("true", tmp_path, "mark", lambda text: None) == 0
    (tmp_path / "go").touch()
    assert await successor == 0


async def test_a_cut_line_is_not_run_again_by_a_builder_that_lost_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It loses the Task while it ends the old processes, and has not heard of it."""
    line = "echo x >> log; while [ ! -e go ]; do sleep 0.02; done"
    task = task_of("cut", [line], tmp_path)
    store = MemoryStore()
    async with Host(Workshop(), runtime_kinds=[KIND], store=store) as first:
        await first.dispatch(task)
        await until_there(tmp_path / "log")
        await first.drain(timeout=0)
    (tmp_path / "go").touch()
    lost = asyncio.Event()

    async with (
        Host(Workshop(), runtime_kinds=[KIND], store=store, claims=False) as second,
        Host(Workshop(), runtime_kinds=[KIND], store=store, claims=False) as other,
    ):

        async def end_and_lose(mark: str) -> None:
            monkeypatch.undo()
            await other.kill(task.id)
            lost.set()

        monkeypatch.setattr(workshop, "end_processes", end_and_lose)
        await second.claim(task.id)
        async with asyncio.timeout(30):
            await lost.wait()
        await second.drain()
    assert (tmp_path / "log").read_text() == "x\n"


async def test_a_recipe_that_changes_its_inputs_fails(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("a")
    digest = inputs_digest(tmp_path, ["in"])
    same = task_of("same", ["cat in"], tmp_path, inputs=["in"], inputs_digest=digest)
    assert (await made(same))[0].status is TaskStatus.SUCCESS
    task = task_of("self", ["echo b >> in"], tmp_path, inputs=["in"], inputs_digest=digest)
    assert failure((await made(task))[0]) == "build/inputs_changed"


async def test_a_folder_that_is_gone_and_an_output_that_is_missing_fail_with_a_code(
    tmp_path: Path,
) -> None:
    ended, _ = await made(task_of("gone", ["true"], tmp_path / "none"))
    assert failure(ended) == "build/cannot_start"
    ended, _ = await made(task_of("liar", ["mkdir out"], tmp_path, outputs=["out"]))
    assert failure(ended) == "build/output_missing"


def test_the_shelf_gives_back_what_it_kept_and_refuses_what_is_damaged(tmp_path: Path) -> None:
    shelf, root = Shelf(tmp_path / "shelf"), tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "run").write_text("#!/bin/sh\n")
    (root / "bin" / "run").chmod(0o755)
    (root / "data").write_bytes(b"\0\1")
    kept = shelf.keep(root, ["bin/run", "data"])
    (root / "bin" / "run").unlink()
    (root / "data").write_bytes(b"other")
    assert changed(root, kept) == ["bin/run", "data"]
    assert shelf.restore(root, kept)
    assert changed(root, kept) == []
    assert (root / "bin" / "run").stat().st_mode & 0o777 == 0o755
    (tmp_path / "shelf" / kept["data"]["sha256"]).write_bytes(b"damage")
    (root / "bin" / "run").unlink()
    assert not shelf.restore(root, kept)
    assert not (root / "bin" / "run").exists()
    assert shelf.drop_all_but({kept["data"]["sha256"]}) == 1
    assert sorted(each.name for each in root.iterdir()) == ["bin", "data"]


def test_hidden_files_are_inputs_only_if_the_pattern_says_so(tmp_path: Path) -> None:
    (tmp_path / ".state").mkdir()
    (tmp_path / ".state" / "file").write_text("1")
    (tmp_path / "seen").write_text("1")
    before = inputs_digest(tmp_path, ["**/*"]), inputs_digest(tmp_path, [".state/*"])
    (tmp_path / ".state" / "file").write_text("2")
    assert inputs_digest(tmp_path, ["**/*"]) == before[0]
    assert inputs_digest(tmp_path, [".state/*"]) != before[1]
    with pytest.raises(MistakeError, match="none"):
        inputs_digest(tmp_path, ["none"])


RUN = "run = ['true']"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"[a]\nneeds = ['b']\n{RUN}", "target 'a' needs 'b', which is not a target"),
        (f"[a]\nneeds = ['b']\n{RUN}\n[b]\nneeds = ['a']\n{RUN}", "in a ring"),
        ("[a]\nrun = 'true'", "`run` must be a list of commands"),
        ("[a]\nrun = [1]", "line 1 of `run` must be a text without NUL, or { once"),
        ("[a]\nrun = ['true', { twice = 'true' }]", "line 2 of `run` must be a text"),
        ("[a]\nrun = [{ once = 1 }]", "line 1 of `run` must be a text"),
        ('[a]\nrun = ["a\\u0000"]', "without NUL"),
        ('[a]\nrun = ["true"]\ninputs = ["a\\u0000"]', "a NUL character"),
        ("[a]\nrun = ['true']\nneeds = 'b'", "`needs` must be a list of texts"),
        ("[a]", "has no `run`"),
        ("[a]\nruns = ['true']", "has 'runs'; use inputs"),
        (f"[a]\n{RUN}\noutputs = ['../x']", "'../x' must be a path inside"),
        (f"[a]\n{RUN}\ninputs = ['/x']", "'/x' must be a path inside"),
        (f"[a]\n{RUN}\ninputs = ['']", "'' must be a path inside"),
        (f"[a]\n{RUN}\ninputs = ['x']\noutputs = ['x']", "as an input and as an output"),
        (f"[a]\n{RUN}\noutputs = ['x']\n[b]\n{RUN}\noutputs = ['./x']", "both make './x'"),
        (f"[a]\n{RUN}\noutputs = ['x']\n[b]\n{RUN}\ninputs = ['x']", "add 'a' to its `needs`"),
        (f"[a]\nrun = ['{'x' * 100_001}']", "100,001 bytes, over the limit of 100,000"),
        (f"['a b']\n{RUN}", "'a b' is not a name"),
        ("a = 1", "must be a table"),
        ("", "has no target"),
        ("[", "is not TOML"),
        (f"a = {'[' * 5_000}", "is not TOML"),
        ("#" * (1 << 20) + "\n", "over the limit of 1,048,576 bytes"),
    ],
    ids=range(24),
)
def test_a_bad_build_file_is_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "builds.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BuildFileError, match=said):
        read_plan(path)

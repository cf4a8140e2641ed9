"""`bench` measures a stranger's runtime or store beside ours, and says what cannot be measured."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel import Task
from agentic_kernel_conformance import (
    Fail,
    Script,
    ScriptedSubstrate,
    ScriptedWork,
    SubstrateWork,
    Work,
    bench,
)
from agentic_kernel_conformance.__main__ import main
from agentic_kernel_conformance.bench_row import Row, table
from agentic_kernel_conformance.comparing import compared
from agentic_kernel_conformance.counted_store import CountedStore
from agentic_kernel_engine import Host, Job, MemoryStore, Record, Store, TaskFailed

from .dict_runtime import DictRuntime
from .dict_work import DictWork

DOCS = Path(__file__).parents[2] / "docs"
ACME = DOCS / "examples" / "acme" / "src"
HERE = __name__


def made(store: Store) -> tuple[Any, Any]:
    """The kit's substrate, as a stranger makes it."""
    work = ScriptedWork()
    return Host(ScriptedSubstrate(work), store), work


async def elsewhere(store: Store) -> tuple[Any, Any]:
    """A runtime that keeps its Tasks in a dict, not in the store."""
    work = DictWork()
    return DictRuntime(work.perform), work


class Lingering(ScriptedWork):
    """A work that knows its turns, and a model that took almost all of the time."""

    def turns(self, task: Task) -> int:
        return 4

    def model_seconds(self, task: Task) -> float:
        return 1e9


def lingering(store: Store) -> tuple[Any, Any]:
    work = Lingering()
    return Host(ScriptedSubstrate(work), store), work


class StepWork(SubstrateWork):
    """The kit's scripts as numbers of steps; a script that fails has none."""

    def task(self, script: Script) -> Task:
        steps = -1 if isinstance(script[0], Fail) else len(script)
        return Task.new(summary="a script", instructions=str(steps), runtime_kind="steps")


class Stepping:
    """A substrate that commits so often at each step of its script."""

    def __init__(self, commits: int) -> None:
        self._commits = commits

    async def execute(self, job: Job) -> None:
        steps = int(job.task.instructions)
        if steps < 0:
            raise TaskFailed("steps/as_told", "as the script says")
        for commit in range(job.state or 0, steps * self._commits):
            await job.checkpoint(commit + 1)
            await asyncio.sleep(0)


class Unaware(Work):
    """A work that knows no turns; `StepWork` makes its Tasks."""

    def succeed(self) -> Task:
        return StepWork().succeed()

    def fail(self) -> Task:
        return StepWork().fail()

    def run_until_stopped(self) -> Task:
        return StepWork().run_until_stopped()

    def pass_safe_points(self) -> Task:
        return StepWork().pass_safe_points()


class Told(Unaware):
    """A work that knows its turns, and no time of a model."""

    def turns(self, task: Task) -> int:
        return 3


def once(store: Store) -> tuple[Any, Any]:
    return Host(Stepping(1), store), StepWork()


def twice(store: Store) -> tuple[Any, Any]:
    return Host(Stepping(2), store), StepWork()


def unaware(store: Store) -> tuple[Any, Any]:
    return Host(Stepping(1), store), Unaware()


def unaware_twice(store: Store) -> tuple[Any, Any]:
    return Host(Stepping(2), store), Unaware()


def told(store: Store) -> tuple[Any, Any]:
    return Host(Stepping(1), store), Told()


def turnless(store: Store) -> tuple[Any, Any]:
    """A runtime whose work says that its Task took no turn."""

    class Turnless(ScriptedWork):
        def turns(self, task: Task) -> int:
            return 0

    work = Turnless()
    return Host(ScriptedSubstrate(work), store), work


def failing(store: Store) -> tuple[Any, Any]:
    """A runtime that fails what should succeed."""

    class Failing(ScriptedWork):
        def succeed(self) -> Task:
            return self.fail()

    work = Failing()
    return Host(ScriptedSubstrate(work), store), work


def workless(store: Store) -> Any:
    return Host(None, store)


def broken(store: Store) -> None:
    raise OverflowError("too many")


def placed(path: str) -> Store:
    return MemoryStore()


async def closed() -> None:
    raise OverflowError("too many")


def unworkable(store: Store) -> Any:
    return Host(None, store), "no work"


class Chatty(MemoryStore):
    """A store that takes one event of a pause away."""

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        kept = [text for text in events if b'"task.paused"' not in text]
        await super().commit(before, after, kept)


no_factory = 3


def row(rows: Sequence[Row], runtime: str) -> Row:
    return next(each for each in rows if each.runtime == runtime)


async def test_a_strangers_runtime_stands_beside_ours_with_the_same_counts() -> None:
    ours, theirs = await bench.bench(f"{HERE}:made", None, rounds=2)
    assert (theirs.runtime, theirs.store) == (f"{HERE}:made", "memory")
    assert (ours.same, theirs.same, theirs.differs) == (5, 5, ())
    assert ours.commits == theirs.commits == 9 / 8
    assert ours.bytes == theirs.bytes
    assert [len(theirs.turns), len(theirs.pauses), len(theirs.kills)] == [2, 2, 2]


async def test_a_runtime_with_a_store_of_its_own_has_times_and_no_counts() -> None:
    theirs = row(await bench.bench(f"{HERE}:elsewhere", None, rounds=1), f"{HERE}:elsewhere")
    assert (theirs.same, theirs.differs) == (5, ())
    assert (theirs.commits, theirs.bytes) == (None, None)
    assert theirs.turns
    assert theirs.pauses
    assert theirs.kills
    assert "| – | – |" in table([theirs.record()])


async def test_a_work_may_say_its_turns_and_the_time_of_its_model() -> None:
    theirs = row(await bench.bench(f"{HERE}:lingering", None, rounds=1), f"{HERE}:lingering")
    assert theirs.commits == 9 / 4
    assert theirs.turns == ()


@pytest.mark.parametrize(
    ("before", "after", "per", "verdict", "fails"),
    [
        ("once", "twice", "turn", "worse", True),
        ("twice", "once", "turn", "better", False),
        ("unaware", "unaware_twice", "Task", "worse", True),
        ("unaware_twice", "unaware", "Task", "better", False),
    ],
)
async def test_more_commits_at_each_step_are_worse_and_less_are_better(
    tmp_path: Path, before: str, after: str, per: str, verdict: str, fails: bool
) -> None:
    files = []
    for name in (before, after):
        theirs = row(await bench.bench(f"{HERE}:{name}", None, rounds=1), f"{HERE}:{name}")
        assert theirs.differs == ()
        files.append(tmp_path / f"{name}.json")
        figures = {"figures": [replace(theirs, runtime="mine").record()]}
        files[-1].write_text(json.dumps(figures))
    found = {each.name: each for each in compared(*files)}
    for count in ("commits", "bytes"):
        each = found[f"mine on memory: {count} per {per}"]
        assert (each.verdict, each.fails) == (verdict, fails)


async def test_each_step_of_the_script_of_a_substrate_is_a_turn() -> None:
    """Six steps, and the commit that ends the Task."""
    theirs = row(await bench.bench(f"{HERE}:twice", None, rounds=1), f"{HERE}:twice")
    assert theirs.commits == 13 / 6
    assert theirs.per == "turn"


async def test_a_work_may_say_its_turns_alone() -> None:
    theirs = row(await bench.bench(f"{HERE}:told", None, rounds=1), f"{HERE}:told")
    assert (theirs.commits, theirs.per) == (7 / 3, "turn")
    assert theirs.turns


async def test_a_work_without_turns_is_measured_by_the_task_and_the_table_says_so() -> None:
    theirs = row(await bench.bench(f"{HERE}:unaware", None, rounds=1), f"{HERE}:unaware")
    assert (theirs.commits, theirs.per) == (7, "Task")
    said = f"- {HERE}:unaware on memory: its Work has no `turns(task)`, so *turns/s*, *commits*"
    assert said in table([theirs.record()])


async def test_a_runtime_that_does_otherwise_is_named_with_the_scenario() -> None:
    rows = await bench.bench(f"{HERE}:failing", None, rounds=1)
    assert row(rows, f"{HERE}:failing").differs == ("succeed",)
    told = table([each.record() for each in rows])
    assert f"{HERE}:failing on memory differs in succeed" in told
    assert (
        "    - succeed: status is failure, and ours success; failed is True, and ours False" in told
    )
    assert "; the failure is scripted/" in told


async def test_a_store_that_loses_an_event_is_found_out() -> None:
    _, theirs = await bench.bench(None, f"{HERE}:Chatty", rounds=1)
    assert (theirs.runtime, theirs.store) == ("ours", f"{HERE}:Chatty")
    assert theirs.differs == ("pause and resume",)
    (reason,) = theirs.reasons
    assert reason.startswith("pause and resume: the Host's events are task.")
    mine, _, ours = reason.partition(", and ours ")
    assert "task.paused" in ours
    assert "task.paused" not in mine


def test_the_command_measures_the_store_of_the_example(tmp_path: Path) -> None:
    """The package of docs/conformance.md, as its author would: from its folder."""
    file = tmp_path / "acme.json"
    command = [sys.executable, "-m", "agentic_kernel_conformance", "bench", "--rounds", "1"]
    command += ["--store", "acme_store:AcmeStore", "--json", str(file)]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, cwd=ACME, capture_output=True, text=True, timeout=100, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("| ours")]
    assert [line.split(" | ")[1] for line in rows] == ["memory", "acme_store:AcmeStore"]
    recorded = json.loads(file.read_text(encoding="utf-8"))
    assert [each["row"] for each in recorded["figures"]] == [
        "ours on memory",
        "ours on acme_store:AcmeStore",
    ]
    assert {"python", "machine", "load"} <= set(recorded)


def test_the_factory_on_the_page_is_measured(tmp_path: Path) -> None:
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "acme_bench.py").write_text(code)
    command = [sys.executable, "-m", "agentic_kernel_conformance", "bench", "--rounds", "1"]
    done = subprocess.run(
        [*command, "--runtime", "acme_bench:make"],
        cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "| acme_bench:make | memory | 5 of 5 |" in done.stdout


HOOKS = """
import asyncio, json, os
from urllib.parse import urlsplit
from agentic_kernel import Task
from agentic_kernel_conformance import Fail, Mark, SubstrateFactory, SubstrateWork
from agentic_kernel_engine import Host, TaskFailed

class Hooks:
    async def execute(self, job):
        urls = json.loads(job.task.instructions)
        for done in range(job.state or 0, len(urls)):
            await self.call(urls[done])
            await job.checkpoint(done + 1)

    async def call(self, url):
        place = urlsplit(url)
        if place.scheme != "http":
            raise TaskFailed("hooks/bad_url", f"{url} has no scheme")
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        head = f"POST {place.path} HTTP/1.1\\r\\nHost: kit\\r\\nContent-Length: 0\\r\\n\\r\\n"
        writer.write(head.encode())
        await reader.readline()
        writer.close()

class Resolving(Hooks):
    def __init__(self):
        self.address = os.environ["CONFORMANCE_MARKS"]

    async def call(self, url):
        await super().call(url.replace("${CONFORMANCE_MARKS}", self.address))

class HookWork(SubstrateWork):
    def task(self, script):
        urls = [
            "${CONFORMANCE_MARKS}/mark/" + step.token if isinstance(step, Mark) else "bad"
            for step in script if isinstance(step, (Mark, Fail))
        ]
        return Task.new(summary="hooks", instructions=json.dumps(urls), runtime_kind="hooks")

FACTORY = "acme_hooks_bench:Resolving"

async def make(store):
    return Host(await SubstrateFactory.of(FACTORY).make(), store), HookWork()

def plain(store):
    return Host(Hooks(), store), HookWork()
"""


@pytest.mark.parametrize(("name", "code"), [("make", 0), ("plain", 1)])
def test_a_substrate_over_http_makes_its_marks_as_under_its_contract(
    tmp_path: Path, name: str, code: int
) -> None:
    (tmp_path / "acme_hooks_bench.py").write_text(HOOKS)
    command = [sys.executable, "-m", "agentic_kernel_conformance", "bench", "--rounds", "1"]
    done = subprocess.run(
        [*command, "--runtime", f"acme_hooks_bench:{name}"],
        cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    if code == 0:
        assert "| acme_hooks_bench:make | memory | 5 of 5 |" in done.stdout
    else:
        assert "let the factory make the substrate that puts the address in" in done.stdout


def test_the_exit_status_says_if_a_trace_differs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--runtime", f"{HERE}:failing", "--rounds", "1"]) == 1
    assert "**4 of 5**" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "nothing to measure; give --runtime module:name or --store module:name"),
        (["--runtime", "acme"], "'acme' names no factory; give module:name"),
        (["--runtime", ":make"], "':make' names no factory"),
        (["--store", "no_such_module:Store"], "No module named 'no_such_module'"),
        (["--store", f"{HERE}:Missing"], "Missing"),
        (["--store", f"{HERE}:no_factory"], "is int, and must be callable"),
        (["--store", "builtins:dict"], "gave dict, which is no Store: it lacks"),
        (["--runtime", f"{HERE}:workless"], "gave Host; return a pair"),
        (["--runtime", f"{HERE}:unworkable"], "str is no Work"),
        (["--runtime", f"{HERE}:turnless"], "turns(task) of Turnless gave 0; return the number"),
        (
            ["--store", f"{HERE}:placed"],
            "called with no argument: missing a required argument: 'path'; name a function that",
        ),
        (["--runtime", f"{HERE}:closed"], "called with one argument, the store: too many"),
        (["--runtime", f"{HERE}:broken"], ":broken raised OverflowError: too many ("),
        (["--store", f"{HERE}:closed"], ":closed raised OverflowError: too many ("),
    ],
)
def test_what_cannot_be_measured_is_named(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *arguments]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert "NotBenchable" not in told


def test_an_error_of_a_factory_is_told_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    main(["bench", "--runtime", f"{HERE}:broken"])
    line = broken.__code__.co_firstlineno + 1
    assert f"({__file__}:{line}); mend the factory" in capsys.readouterr().err


def test_a_module_that_raises_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "acme_raising.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["bench", "--store", "acme_raising:Store"]) == 2
    said = "its import raised ZeroDivisionError: division by zero; mend the module"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("rounds", ["0", "10001", "many"])
def test_the_number_of_rounds_is_bounded(rounds: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "--store", f"{HERE}:Chatty", "--rounds", rounds])
    assert stopped.value.code == 2


async def test_a_pause_that_never_comes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "PATIENCE", 2.0)
    theirs = row(await bench.bench(f"{HERE}:deaf", None, rounds=1), f"{HERE}:deaf")
    assert "pause and resume (no answer for 2 s)" in theirs.differs
    assert theirs.pauses == ()
    assert theirs.kills


async def test_a_task_that_does_not_end_cannot_be_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "PATIENCE", 1.0)
    with pytest.raises(bench.NotBenchable, match="did not reach its status within 1 s"):
        await bench.bench(f"{HERE}:endless", None, rounds=1)


def endless(store: Store) -> tuple[Any, Any]:
    """A runtime whose Tasks with safe points go on for ever."""

    class Endless(ScriptedWork):
        def pass_safe_points(self) -> Task:
            return self.run_until_stopped()

    work = Endless()
    return Host(ScriptedSubstrate(work), store), work


def deaf(store: Store) -> tuple[Any, Any]:
    """A runtime that is asked to pause and goes on."""

    class Deaf(Host):
        async def pause(self, task_id: str, *given: Any, **options: Any) -> Any:
            return await self.get(task_id)

    work = ScriptedWork()
    return Deaf(ScriptedSubstrate(work), store), work


async def test_a_counted_store_counts_what_is_written_and_flushes_apart() -> None:
    store = CountedStore(MemoryStore())
    work = ScriptedWork()
    async with Host(ScriptedSubstrate(work), store) as host:
        task = work.pass_safe_points()
        await host.run(task)
    record = await store.load(task.id)
    assert store.calls["load"] == 1
    assert [each.last for each in store.writes] == [False] * 9 + [True]
    assert not any(each.flush for each in store.writes)
    assert all(each.bytes > 0 for each in store.writes)
    assert record.task.status == "success"


@pytest.mark.parametrize(("size", "code"), [(600.0, 0), (601.0, 1), (None, 2)])
def test_two_recordings_are_compared_by_the_wheel_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], size: float | None, code: int
) -> None:
    """The names of the files do not matter."""
    files = {"before.json": 600.0, "after.json": size}
    for name, written in files.items():
        if written is not None:
            measured = Row("ours", "acme", 5, (), (9.0,), (2.0,), (1.0,), 1.0, written, pace=1.0)
            text = json.dumps({"figures": [measured.record()]})
            (tmp_path / name).write_text(text)
    assert main(["compare", *(str(tmp_path / name) for name in files)]) == code
    told = capsys.readouterr()
    if size is None:
        assert told.err == (
            f"{tmp_path / 'after.json'}: there is no such file or folder; record some with "
            "`agentic-kernel-conformance bench --json FILE`\n"
        )
    else:
        assert f"ours on acme: bytes per turn | 600 | {size:.0f} |" in told.out
        assert ("1 of the counts got worse" in told.out) == (code == 1)

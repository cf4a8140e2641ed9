"""The time that a Task ran, as its last line and `show` tell it."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentic_kernel import Dispatch, Task, TaskStatus, apply
from agentic_kernel_cli.commands import app
from agentic_kernel_cli.durations import duration_in
from agentic_kernel_cli.place import Folder
from agentic_kernel_cli.streaming import TextScreen
from agentic_kernel_engine import Event, Host, Job, Record
from agentic_kernel_file import FileStore

NOW = datetime(2030, 1, 1, tzinfo=UTC)
OWN, OTHER = {"by": "host:1"}, {"by": "other"}


def at(second: float, kind: str, by: dict[str, str] = OWN) -> Event:
    return Event(kind, by, NOW + timedelta(seconds=second))


BEGUN = at(10, "task.dispatched")
STEP = at(13, "step.observed")


@pytest.mark.parametrize(
    ("history", "until", "seconds"),
    [
        ([BEGUN, at(14, "task.completed")], None, 4),
        ([BEGUN, at(14, "task.failed")], 99, 4),
        ([BEGUN, STEP], 15, 5),
        ([BEGUN, STEP], None, 3),
        ([BEGUN, at(12, "task.paused")], 99, 2),
        ([BEGUN, at(12, "task.paused"), at(50, "task.resumed"), at(53, "task.killed")], None, 5),
        ([BEGUN, at(12, "task.paused"), at(90, "task.killed", OTHER)], None, 2),
        ([BEGUN, at(12, "task.released"), at(50, "task.claimed"), STEP], 51, 3),
        # The process died after its step, and another process took the Task over or paused it.
        ([BEGUN, STEP, at(50, "task.claimed", OTHER), at(54, "task.completed")], None, 7),
        ([BEGUN, STEP, at(50, "task.paused", OTHER), at(90, "task.killed", OTHER)], None, 3),
        ([BEGUN, STEP, at(40, "task.decision_posted", OTHER), at(50, "task.claimed")], None, 3),
        # The process died before its first event.
        ([BEGUN], None, None),
        ([BEGUN, at(50, "task.claimed", OTHER), at(54, "task.completed")], None, 4),
        ([BEGUN, at(50, "task.claimed", OTHER), at(50, "task.failed")], None, None),
        ([BEGUN, at(50, "task.paused", OTHER)], 99, None),
        # A resume that no Host took up at once.
        ([BEGUN, at(12, "task.paused"), at(20, "task.resumed"), at(50, "task.claimed")], 51, 3),
        # Clocks that differ, and a moment that a substrate chose.
        ([BEGUN, at(4, "task.paused")], None, 0),
        ([BEGUN, at(9e6, "mine"), at(15, "task.claimed"), at(16, "task.completed")], None, 6),
        # A part of a history, such as `watch --after` reads.
        ([at(50, "task.resumed"), at(53, "task.completed")], None, None),
        ([], 99, None),
    ],
)
def test_pauses_and_the_time_after_a_crash_do_not_count(
    history: list[Event], until: float | None, seconds: float | None
) -> None:
    moment = None if until is None else NOW + timedelta(seconds=until)
    assert duration_in(history).seconds(moment) == seconds


@pytest.mark.parametrize(
    ("history", "until", "told"),
    [
        ([BEGUN, at(14, "task.completed")], None, "4.0 s"),
        ([BEGUN, at(10, "task.failed")], None, "0.0 s"),
        ([BEGUN, STEP], 15, "5.0 s"),
        ([BEGUN, STEP], None, "at least 3.0 s"),
        ([BEGUN], None, None),
        ([BEGUN, at(10.04, "mine")], None, None),
        ([BEGUN], 15, "5.0 s"),
        ([BEGUN, STEP, at(50, "task.claimed"), at(54, "task.completed")], None, "at least 7.0 s"),
        ([BEGUN, at(50, "task.claimed"), at(54, "task.completed")], None, "at least 4.0 s"),
        ([BEGUN, STEP, at(50, "task.paused", OTHER)], 99, "at least 3.0 s"),
        # No process ran it between the release or the resume and the claim.
        ([BEGUN, at(12, "task.released"), at(50, "task.claimed")], 51, "3.0 s"),
        ([BEGUN, at(12, "task.paused"), at(20, "task.resumed")], None, "2.0 s"),
        (
            [BEGUN, at(12, "task.paused"), at(20, "task.resumed"), at(50, "task.claimed")],
            51,
            "3.0 s",
        ),
        ([at(50, "task.resumed"), at(53, "task.completed")], None, None),
    ],
)
def test_the_time_of_a_run_that_died_is_a_least_time(
    history: list[Event], until: float | None, told: str | None
) -> None:
    moment = None if until is None else NOW + timedelta(seconds=until)
    assert duration_in(history).told(moment) == told


class TwoSteps:
    """Pauses after its first step; each step takes two seconds of the test's clock."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    async def execute(self, job: Job) -> str:
        self.watch.seconds += 2
        if job.state is None:
            job.emit({"type": "acme/indeterminate", "pay": 3})
            await job.pause(1, reason="a question")
        return "done"


class Watch:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> datetime:
        return NOW + timedelta(seconds=self.seconds)


def test_show_and_the_last_line_tell_the_same_time_without_the_pause(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    screen = TextScreen(Folder(tmp_path), lambda: pytest.fail("the output is open"))

    async def working() -> None:
        watch, store = Watch(), FileStore(tmp_path)
        async with Host(TwoSteps(watch), store, clock=watch, observer=screen) as host:
            task = Task.new(id="it", summary="", instructions="go", runtime_kind="t", at=NOW)
            await host.dispatch(task)
            await host.wait("it", TaskStatus.PAUSED)
            watch.seconds += 3_600
            await host.resume("it")
            screen.end([await host.wait("it", TaskStatus.SUCCESS)])
        store.close()

    asyncio.run(working())
    assert capsys.readouterr().err.splitlines()[-1] == "success  ran 4.0 s"

    def said(*words: str) -> str:
        return CliRunner().invoke(app, ["--state", str(tmp_path), *words]).stdout

    assert {"ran: 4.0 s", "unknown outcome: pay 3"} <= set(said("show", "it").splitlines())
    shown, *events = map(json.loads, said("--json", "show", "it", "--events").splitlines())
    assert shown["ran_seconds"] == 4.0
    [unknown] = shown["unknown_outcomes"]
    named = {each["id"]: each["data"] for each in events}
    assert unknown == {"step": "pay 3", "data": {"pay": 3}, "event_id": unknown["event_id"]}
    assert named[unknown["event_id"]] == unknown["data"]


def test_a_task_whose_process_died_before_its_first_event_tells_no_time(tmp_path: Path) -> None:
    async def leaving() -> None:
        store = FileStore(tmp_path)
        task = Task.new(id="it", summary="", instructions="go", runtime_kind="t", at=NOW)
        begun = b'{"type": "task.dispatched", "at": 0, "data": {"by": "dead:1"}}'
        await store.insert(Record(apply(task, Dispatch(), NOW), owner="dead:1"), (begun,))
        store.close()

    asyncio.run(leaving())
    shown = CliRunner().invoke(app, ["--state", str(tmp_path), "--json", "show", "it"]).stdout
    assert json.loads(shown)["ran_seconds"] is None
    assert "ran: " not in CliRunner().invoke(app, ["--state", str(tmp_path), "show", "it"]).stdout

"""No text of a Task, a store or an error reaches a terminal or a pipe as it is."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from agentic_kernel import Dispatch, Fail, Failure, Pause, Task, apply
from agentic_kernel_cli import rendering, rows
from agentic_kernel_cli.logs import Lines
from agentic_kernel_cli.text import command_line, visible
from agentic_kernel_engine import Event, EventId, Record

NOW = datetime(2030, 1, 1, tzinfo=UTC)
ODD = "".join(map(chr, (*range(0x20), *range(0x7F, 0xA0), 0x61C, 0x200B, 0x200E, 0x2028, 0x2029)))
ODD += "\u202a\u202e\u2066\u2069\u3164\u115f\u2800\ufe0f\u034f\U000e0041\ufeff"
FORGED = "real\nstatus: success\r\nresult: forged\u2028id: forged\u2029\x85\x1b[1A" + ODD


def hostile() -> Task:
    """A Task with odd text wherever text may be."""
    task = Task.new(
        summary=FORGED,
        instructions=FORGED,
        runtime_kind="local",
        id="it",
        at=NOW,
        metadata={"acme/note": FORGED, "acme/deep": {FORGED: [FORGED]}},
    )
    question = {"kind": "question", "question": FORGED, "digest": FORGED}
    return apply(apply(task, Dispatch(), NOW), Pause(notes={"engine/waiting_for": question}), NOW)


def failed() -> Task:
    task = Task.new(summary=FORGED, instructions="", runtime_kind="local", id="it", at=NOW)
    failure = Failure("c", FORGED, {"file": FORGED, "line": 3})
    return apply(apply(task, Dispatch(), NOW), Fail(failure), NOW)


@pytest.mark.parametrize("task", [hostile(), failed()], ids=["paused", "failed"])
def test_a_pipe_gets_one_visible_line_for_each_fact(
    task: Task, capsys: pytest.CaptureFixture[str]
) -> None:
    rendering.task_details(
        rendering.Paper(),
        task,
        said=FORGED,
        decisions=[
            decision.line
            for decision in rendering.decisions(
                [Event("approval.given", {"by": FORGED, "why": FORGED, "digest": FORGED}, NOW)]
            )
        ],
        way_on=command_line([FORGED]),
    )
    shown = capsys.readouterr().out
    lines = shown.split("\n")[:-1]
    assert [line for line in lines if not visible(line)] == []
    names = [line.partition(": ")[0] for line in lines]
    assert len(set(names)) == len(names), "each fact has one line"
    assert lines[1] == f"status: {task.status}"
    assert names.count("id") == names.count("status") == 1


def test_every_row_and_event_is_one_visible_line(capsys: pytest.CaptureFixture[str]) -> None:
    rows.show(rendering.Paper(), [Record(hostile()), Record(failed())], {}, NOW, {})
    rendering.event_row(Event(f"odd{FORGED}", {"text": FORGED, FORGED: 1}, NOW, EventId(1, 0)))
    rendering.finding_line(rendering.Paper(width=10_000), FORGED, False, FORGED, FORGED, True)
    lines = capsys.readouterr().out.split("\n")[:-1]
    assert len(lines) == 5
    assert [line for line in lines if not visible(line.replace("\t", ""))] == []


def test_json_has_every_character_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    rendering.task_line(hostile())
    line = capsys.readouterr().out
    assert line.endswith("\n")
    assert visible(line[:-1])
    assert line.isascii()


@pytest.fixture(params=["Pacific/Kiritimati", "Etc/GMT+12", "UTC"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("at", "year"),
    [
        (datetime.min, "0001-01-0"),
        (datetime.max, "9999-12-31"),
        (datetime.min.replace(hour=12), "0001-01-0"),
    ],
)
def test_a_moment_at_the_edge_of_the_calendar_is_shown(
    zone: str, at: datetime, year: str, capsys: pytest.CaptureFixture[str]
) -> None:
    at = at.replace(tzinfo=UTC)
    assert rendering.stamp(at).startswith(year), zone
    rendering.event_row(Event("x.y", {}, None))
    task = Task.new(summary="", instructions="", runtime_kind="local", id="it", at=NOW)
    object.__setattr__(task, "created_at", at)
    rows.show(rendering.Paper(), [Record(task)], {}, NOW, {})
    assert year in capsys.readouterr().out


class Odd(Exception):
    def __str__(self) -> str:
        return FORGED


def logged(**more: Any) -> str:
    record = logging.LogRecord("agentic_kernel_x", logging.ERROR, "", 1, "m %s", (FORGED,), None)
    for name, value in more.items():
        setattr(record, name, value)
    return Lines().format(record)


def test_what_is_logged_is_visible_lines_and_only_the_first_is_not_indented() -> None:
    try:
        raise Odd
    except Odd as error:
        told = logged(exc_info=(Odd, error, error.__traceback__))
    for text in (told, logged(exc_text=FORGED), logged(stack_info=FORGED), logged()):
        first, *others = text.split("\n")
        assert first.startswith("error: agentic_kernel_x: m real")
        assert all(line.startswith("  | ") for line in others)
        assert all(visible(line) for line in (first, *others))
    assert "raise Odd" in told


def test_a_failure_names_the_place_in_the_users_code() -> None:
    place = Failure("c", "m", {"file": "/home/me/agent.py", "line": 3})
    assert rendering.failure_text(place) == "c: m  at /home/me/agent.py:3"
    for odd in ({}, {"file": 3, "line": 3}, {"file": "a"}, {"file": "a", "line": True}):
        assert rendering.failure_text(Failure("c", "m", odd)) == "c: m"

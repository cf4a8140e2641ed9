"""The views of a running Task for people and programs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel import Complete, Dispatch, Fail, Failure, Kill, Mutation, Pause, Task, apply
from agentic_kernel_cli import rendering, rows
from agentic_kernel_cli.doubts import doubted
from agentic_kernel_cli.place import Folder, text_of
from agentic_kernel_cli.proposals import proposal
from agentic_kernel_cli.streaming import JsonScreen, TextScreen
from agentic_kernel_engine import Event, EventId, Record
from agentic_kernel_engine.loop import INDETERMINATE

NOW = datetime(2030, 1, 1, tzinfo=UTC)
TURN = Event("run.turn", {}, NOW)
TOLD = Event("task.resumed", {"extra": "In German."}, NOW)
PLACE = Folder(Path("my state"), named=True)


def a_task(*then: Mutation, id: str = "first", summary: str = "") -> Task:
    task = Task.new(summary=summary, instructions="do it", runtime_kind="local", id=id, at=NOW)
    for mutation in (Dispatch(), *then):
        task = apply(task, mutation, NOW)
    return task


def delta(text: str, at: int | None = None, channel: str = "") -> Event:
    data = {"text": text} if at is None else {"text": text, "at": at}
    return Event("run.delta", {**data, "channel": channel} if channel else data, NOW)


def text_screen() -> TextScreen:
    return TextScreen(PLACE, lambda: pytest.fail("the output is open"))


def test_the_answer_alone_is_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    screen = text_screen()
    screen.begin([(a_task(), [])])
    for piece in ("one ", "two"):
        screen.observe("first", delta(piece))
    screen.end([a_task(Complete("one two"))])
    shown = capsys.readouterr()
    assert shown.out == "one two\n"
    assert shown.err.splitlines() == ["task first  do it", "success"]


def test_a_result_that_was_not_streamed_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    screen = text_screen()
    screen.begin([(a_task(), [])])
    screen.end([a_task(Complete({"n": 1}))])
    assert capsys.readouterr().out == '{"n": 1}\n'


CALL = {"type": "tool_call", "tool": "pay", "arguments": {"eur": 3}, "id": "c1"}
PLANNED = Event("plan.made", {"actions": [{**CALL, "tool": "look"}, CALL]}, NOW)
OBSERVED = {
    "observations": [
        {"output": "seen", "tool": "look"},
        {"error": INDETERMINATE, "message": "begun earlier", "tool": "pay"},
    ]
}


@pytest.mark.parametrize(
    ("before", "event", "step"),
    [
        ([PLANNED], Event("step.observed", OBSERVED, NOW), 'pay {"eur": 3}'),
        ([], Event("step.observed", OBSERVED, NOW), "pay"),
        ([], Event("acme-shell/indeterminate", {"step": "touch a"}, NOW), "step touch a"),
        ([], Event("step.indeterminate", {"of": ["\x1b"]}, NOW), r'of ["\u001b"]'),
        ([], Event("acme/indeterminate", {}, NOW), "acme/indeterminate"),
    ],
)
def test_a_step_of_unknown_outcome_is_named_as_it_happens_and_later(
    capsys: pytest.CaptureFixture[str], before: list[Event], event: Event, step: str
) -> None:
    screen = text_screen()
    screen.begin([(a_task(), before)])
    screen.observe("first", event)
    told = [line for line in capsys.readouterr().err.splitlines() if "outcome" in line]
    because = "a run ended in this step, so it may have taken effect"
    assert told == [f"unknown outcome: {step}; {because}"]
    [doubt] = doubted([*before, event])
    rendering.task_details(rendering.Paper(), a_task(), said="", doubts=[doubt.step])
    assert f"unknown outcome: {step}" in capsys.readouterr().out.splitlines()


def test_a_step_of_unknown_outcome_is_complete_for_a_program() -> None:
    long = {**CALL, "arguments": {"text": "x" * 1_000}}
    planned = Event("plan.made", {"actions": [{**CALL, "tool": "look"}, long]}, NOW)
    [doubt] = doubted([planned, Event("step.observed", OBSERVED, NOW, EventId(7, 1))])
    told = doubt.as_json()
    assert told["data"] == long
    assert told["event_id"] == "7.1"
    assert len(told["step"]) <= 400
    [bare] = doubted([Event("step.observed", OBSERVED, NOW)])
    assert bare.as_json() == {"step": "pay", "data": {"tool": "pay"}, "event_id": None}


def test_what_was_kept_comes_before_what_is_new(capsys: pytest.CaptureFixture[str]) -> None:
    screen = text_screen()
    screen.begin([(a_task(), [delta("one ")])])
    screen.observe("first", delta("two"))
    screen.observe("first", Event("run.turn", {}, NOW))
    screen.observe("first", delta("three"))
    screen.end([a_task(Complete("three"))])
    shown = capsys.readouterr()
    assert shown.out == "one two\n\nthree\n"
    assert "4 characters kept" in shown.err


def test_an_answer_that_begins_again_is_shown_again_after_a_blank_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen = text_screen()
    screen.begin([(a_task(), [delta("Hel", 0)])])
    screen.observe("first", delta("lo", 3))
    screen.observe("first", Event("run.delta", {"text": "hm", "at": 0, "channel": "reasoning"}))
    screen.observe("first", delta("Hello", 0))
    screen.observe("first", delta(" world", 5))
    screen.observe("first", delta(" friend", 5))
    screen.end([a_task(Complete(None))])
    assert capsys.readouterr().out == "Hello\n\nHello world\n\nHello friend\n"


def test_text_after_a_further_instruction_is_separate(capsys: pytest.CaptureFixture[str]) -> None:
    """A substrate may continue its text; without an instruction that is one text."""
    screen = text_screen()
    kept = [delta("Hello", 0), Event("task.paused", {}, NOW)]
    screen.begin([(a_task(), kept)])
    later = [Event("task.resumed", {}, NOW), delta(" world", 5), TOLD, delta("Hallo", 11)]
    for event in later:
        screen.observe("first", event)
    screen.end([a_task(Complete(None))])
    assert capsys.readouterr().out == "Hello world\n\nHallo\n"
    assert text_of([*kept, *later]) == "Hello world\n\nHallo"


@pytest.mark.parametrize(
    ("events", "text"),
    [
        ([delta("Hello ", 0), delta("Hello world", 0)], "Hello world"),
        ([delta("Hello", 0), TOLD, delta("Hallo", 0)], "Hallo"),
        ([delta("Hello", 0), TOLD, delta("Hallo", 5), delta("Salut", 0)], "Salut"),
        ([delta("Hello", 0), TOLD, delta("p!", 3), delta(" Hallo", 5)], "Hel\n\np! Hallo"),
        (
            [delta("why", 0, "reasoning"), delta("Hi", 0), TOLD, delta("w", 0, "reasoning")],
            "Hi",
        ),
        ([TOLD, delta("Hello", 0), TURN, TOLD, delta("Ho", 0), TOLD], "Hello\n\nHo"),
        ([delta("Hello ", 0), delta("", 0)], ""),
        ([delta("one", 0), TURN, TURN, delta("two", 0), delta("2", 0)], "one\n\n2"),
        ([delta("one"), TURN], "one"),
        ([delta("of 0"), delta(".1"), delta("; here", 6)], "of 0.1; here"),
    ],
)
def test_the_text_of_a_task_is_that_of_its_last_attempts(events: list[Event], text: str) -> None:
    assert text_of(events) == text


def test_lines_of_several_tasks_do_not_mix(capsys: pytest.CaptureFixture[str]) -> None:
    screen = text_screen()
    screen.begin([(a_task(), []), (a_task(id="second"), [])])
    for task_id, piece in (("first", "a"), ("second", "x"), ("first", "b\nc"), ("second", "y")):
        screen.observe(task_id, delta(piece))
    screen.end([a_task(Complete("")), a_task(Kill(), id="second")])
    shown = capsys.readouterr()
    assert shown.out.splitlines() == ["[1] ab", "[1] c", "[2] xy"]
    assert "[2] cancelled" in shown.err


def test_hostile_text_moves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    screen = text_screen()
    task = a_task(id="a\x1b[2J\nb", summary="s\x07\u202e")
    screen.begin([(task, [])])
    screen.observe(task.id, delta("\x1b[31mred\r\n"))
    screen.observe(task.id, Event("task.resumed", {"extra": "x\x1b]0;t\x07"}, NOW))
    failed = apply(task, Fail(Failure("c\n", "m\x1b[1A")), NOW)
    screen.end([failed])
    shown = capsys.readouterr()
    assert shown.out == "[31mred\n"
    assert [line.isprintable() for line in shown.err.splitlines()] == [True] * 3
    assert "a\\x1b[2J\\nb" in shown.err


@pytest.mark.parametrize(
    ("rests", "verb"), [(a_task(Pause(), id="it"), "resume"), (a_task(id="it"), "recover")]
)
def test_the_way_on_is_a_command_for_this_folder(
    rests: Task, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    screen = text_screen()
    screen.begin([(rests, [])])
    screen.end([rests])
    assert f"agentic-kernel --state 'my state' {verb} it" in capsys.readouterr().err


def test_tasks_whose_ids_differ_by_an_escape_are_shown_and_proposed_apart(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for task_id, shown, word in (
        ("pay\x1b", "pay\\x1b", "$'pay\\x1b'"),
        ("pay\\x1b", "pay\\\\x1b", "'pay\\x1b'"),
    ):
        task = a_task(Pause(), id=task_id)
        way_on = proposal(Folder(Path("here"), named=True), task)
        assert way_on == f"agentic-kernel --state here resume {word}"
        rendering.task_details(rendering.Paper(), task, said="", way_on=way_on)
        details = capsys.readouterr().out.splitlines()
        assert details[0] == f"id: {shown}"
        assert details[-1] == f"go on with: {way_on}"
        rows.show(rendering.Paper(), [Record(task)], {}, NOW, {})
        assert capsys.readouterr().out.startswith(f"{shown}\t")
        screen = text_screen()
        screen.begin([(task, [])])
        screen.end([task])
        told = capsys.readouterr().err
        assert f"task {shown}  " in told
        assert told.endswith(f" resume {word}\n")


@pytest.mark.parametrize(
    ("note", "says", "way_on"),
    [
        (
            {"kind": "approval", "requests": [{"digest": "d" * 64, "action": {"type": "stop"}}]},
            "waits for approval of dddddddddddd  stop {}",
            f"approve it {'d' * 64}",
        ),
        ({"kind": "question", "question": "?"}, "waits for an answer to: ?", "answer it TEXT"),
        (
            {"kind": "question", "question": "?", "digest": "e" * 64},
            "waits for an answer to: ?",
            f"answer it TEXT --digest {'e' * 64}",
        ),
        ({"kind": "schedule", "at": "2999"}, "waits for the moment 2999", "resume it"),
    ],
)
def test_what_a_task_waits_for_is_said_with_the_way_on(
    note: dict[str, Any], says: str, way_on: str, capsys: pytest.CaptureFixture[str]
) -> None:
    screen = text_screen()
    screen.end([a_task(Pause(notes={"engine/waiting_for": note}), id="it")])
    shown = capsys.readouterr().err
    assert says in shown
    assert shown.endswith(f"go on with: agentic-kernel --state 'my state' {way_on}\n")


def test_steps_are_told_and_the_answer_alone_is_on_stdout(
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen = text_screen()
    calls = [{"type": "tool_call", "tool": "t\x1b[2J", "arguments": {"a": 1}}]
    for kind, data in (
        ("run.delta", {"text": '{"tool"', "channel": "arguments"}),
        ("plan.made", {"actions": calls}),
        ("step.observed", {"observations": [{"output": "two\nlines"}]}),
        ("step.observed", {"observations": [{"error": "timeout", "message": "slow"}]}),
        ("plan.made", {"actions": [{"type": "final_answer", "output": "done"}]}),
    ):
        screen.observe("first", Event(kind, data, NOW))
    screen.end([a_task(Complete("done"))])
    shown = capsys.readouterr()
    assert shown.out == "done\n"
    assert shown.err.splitlines()[:-1] == [
        '> t\\x1b[2J {"a": 1}',
        "< two\\nlines",
        "< timeout: slow",
    ]


class Closed:
    """A stdout whose reader is gone."""

    def isatty(self) -> bool:
        return False

    def write(self, text: str) -> int:
        raise BrokenPipeError

    def flush(self) -> None:
        raise BrokenPipeError


def test_a_reader_that_left_is_noticed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    noticed: list[str] = []
    monkeypatch.setattr("sys.stdout", Closed())
    screen = TextScreen(PLACE, lambda: noticed.append("closed"))
    screen.observe("first", delta("one"))
    screen.observe("first", delta("two"))
    assert noticed == ["closed"]


def test_json_is_one_ascii_object_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    screen = JsonScreen(lambda: pytest.fail("the output is open"))
    screen.begin([(a_task(), [delta("kept")])])
    screen.observe("first", delta("é\n"))
    screen.observe("first", Event("task.completed", {"by": "h:1"}, NOW, EventId(3, 0)))
    screen.end([a_task(Complete(None))])
    out = capsys.readouterr().out
    assert out.isascii()
    lines: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines()]
    assert [line["kind"] for line in lines] == ["event", "event", "task"]
    assert [line.get("id") for line in lines] == [None, "3.0", "first"]
    assert lines[0]["data"] == {"text": "é\n"}
    assert lines[2]["status"] == "success"
    assert lines[2]["result"] is None

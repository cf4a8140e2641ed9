"""The requests of a paused Task in words, and the decisions about them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from agentic_kernel import Dispatch, Pause, Task, apply
from agentic_kernel_cli import waiting
from agentic_kernel_engine import Record

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def paused(note: Any = None) -> Task:
    task = Task.new(summary="", instructions="", runtime_kind="x", id="it", at=NOW)
    notes = {} if note is None else {"engine/waiting_for": note}
    return apply(apply(task, Dispatch(), NOW), Pause(notes=notes), NOW)


def approval(*digests: str) -> Task:
    action = {"type": "tool_call", "tool": "rm\x1b[2J", "arguments": {"a": "\u202e"}, "id": "x"}
    request = {"type": "tool_call", "action": action, "reason": "it\ndestroys"}
    return paused(
        {"kind": "approval", "requests": [{"digest": each, **request} for each in digests]}
    )


@pytest.mark.parametrize(
    ("task", "shown"),
    [
        (paused(), []),
        (paused("nonsense"), []),
        (paused({"kind": "question", "question": "a\x1b[2J\nb"}), ["an answer to: a\\x1b[2J\\nb"]),
        (paused({"kind": "schedule", "at": "2999"}), ["the moment 2999"]),
        (
            approval("0123456789abcdef"),
            ['approval of 0123456789ab  rm\\x1b[2J {"a": "\\u202e"}  (it\\ndestroys)'],
        ),
        (paused({"kind": "approval", "requests": ["odd", {}]}), []),
    ],
)
def test_what_it_waits_for_is_said_in_printable_lines(task: Task, shown: list[str]) -> None:
    assert waiting.lines(task) == shown


def test_a_task_that_goes_on_waits_for_nothing() -> None:
    task = paused({"kind": "question", "question": "?"})
    from_then = apply(Task.new(summary="", instructions="", runtime_kind="x"), Dispatch(), NOW)
    assert waiting.kind(task) == "question"
    assert waiting.kind(from_then) is None
    with pytest.raises(waiting.NotAwaited, match="does not wait for an answer: it is running"):
        waiting.check(from_then, "question")


@pytest.mark.parametrize(
    ("task", "wanted", "why"),
    [
        (paused(), "approval", "an approval: it was paused without a request"),
        (approval("a" * 64), "question", "an answer: it waits for an approval"),
        (paused({"kind": "schedule", "at": "x"}), "question", "an answer: it waits for a moment"),
    ],
)
def test_what_nobody_asks_is_not_decided(task: Task, wanted: str, why: str) -> None:
    with pytest.raises(waiting.NotAwaited, match=why):
        waiting.check(task, wanted)


def test_a_digest_chooses_by_its_first_characters() -> None:
    task = approval("aaaaaaaa11", "aaaaaaaa22", "bbbbbbbb33")
    assert [each.digest for each in waiting.chosen(task, [])] == [
        "aaaaaaaa11",
        "aaaaaaaa22",
        "bbbbbbbb33",
    ]
    assert [each.digest for each in waiting.chosen(task, ["bbbbbbbb"])] == ["bbbbbbbb33"]
    assert [each.digest for each in waiting.chosen(task, ["bbbbbbbb", "aaaaaaaa22"])] == [
        "aaaaaaaa22",
        "bbbbbbbb33",
    ]


@pytest.mark.parametrize(
    ("digest", "why"),
    [
        ("aaaaaaaa", "several actions"),
        ("bbbbbbb", "at least 8 characters"),
        ("", "at least 8 characters"),
        ("c" * 64, "no action"),
    ],
)
def test_a_digest_that_chooses_no_single_action_is_refused(digest: str, why: str) -> None:
    with pytest.raises(waiting.NotAwaited, match=why):
        waiting.chosen(approval("aaaaaaaa11", "aaaaaaaa22", "bbbbbbbb33"), [digest])


def test_what_came_in_with_the_task_is_not_taken_for_what_it_waits_for() -> None:
    note = {"kind": "approval", "requests": [{"digest": "d" * 64, "action": {"type": "stop"}}]}
    task = Task.new(
        summary="", instructions="", runtime_kind="x", metadata={"engine/waiting_for": note}
    )
    forged = apply(apply(task, Dispatch(), NOW), Pause(), NOW)
    assert waiting.lines(forged) == []
    with pytest.raises(waiting.NotAwaited, match="paused without a request"):
        waiting.chosen(forged, ["d" * 64])


def a_record(at_hand: Any, shown: dict[str, Any]) -> Record:
    note = {"kind": "approval", "requests": [{"digest": "d" * 64, "action": shown}]}
    return Record(paused(note), 3, json.dumps({"at_hand": at_hand}).encode())


@pytest.mark.parametrize("key", ["tool", "arguments"])
def test_a_request_that_shows_another_action_than_it_means_is_refused(key: str) -> None:
    """A program that commits a Task's state and its note can make them differ."""
    shown = {"type": "tool_call", "tool": "read", "arguments": {"path": "a"}}
    verdict = {"decision": {"verdict": "require_approval"}, "digest": "d" * 64}
    honest = {"plan": {"actions": [shown]}, "verdicts": [verdict]}
    forged = {"plan": {"actions": [{**shown, key: "other"}]}, "verdicts": [verdict]}
    odd: list[Any] = [honest, None, [], {"plan": 1}, {"plan": {"actions": 1}, "verdicts": [{}]}]
    for at_hand in odd:
        record = a_record(at_hand, shown)
        waiting.check_shown(record, waiting.requests(record.task))
    record = a_record(forged, shown)
    with pytest.raises(waiting.NotAwaited, match="shows another action"):
        waiting.check_shown(record, waiting.requests(record.task))

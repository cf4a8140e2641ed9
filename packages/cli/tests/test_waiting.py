"""What a paused Task waits for, in words, and what may be decided about it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from agentic_kernel import Dispatch, Pause, Task, apply
from agentic_kernel_cli import waiting

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
    task = approval("aaaaaa11", "aaaaaa22", "bbbbbb33")
    assert [each.digest for each in waiting.chosen(task, None)] == [
        "aaaaaa11",
        "aaaaaa22",
        "bbbbbb33",
    ]
    assert [each.digest for each in waiting.chosen(task, "bbbbbb")] == ["bbbbbb33"]
    assert [each.digest for each in waiting.chosen(task, "aaaaaa22")] == ["aaaaaa22"]


@pytest.mark.parametrize(
    ("digest", "why"),
    [("aaaaaa", "several actions"), ("bbbbb", "no action"), ("", "no action"), ("c" * 64, "no ac")],
)
def test_a_digest_that_chooses_no_single_action_is_refused(digest: str, why: str) -> None:
    with pytest.raises(waiting.NotAwaited, match=why):
        waiting.chosen(approval("aaaaaa11", "aaaaaa22", "bbbbbb33"), digest)

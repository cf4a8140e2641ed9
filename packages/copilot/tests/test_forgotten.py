"""A session is reminded of the calls that its log lacks, and text that has no pieces is told."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from copilot.session_events import SessionEvent

from agentic_kernel import Task
from agentic_kernel_copilot.forgotten import is_behind, is_stuck, reminders
from agentic_kernel_copilot.reading import SessionReader
from agentic_kernel_copilot.run import SessionRun
from agentic_kernel_copilot.session import Pending
from agentic_kernel_copilot.state import VERSION, Call, State
from agentic_kernel_engine import Event, Host, Job, Limits
from agentic_kernel_engine.loop import INDETERMINATE, SKIPPED, Observation, ToolCall
from agentic_kernel_engine.texts import Texts

ID = "call_1"
"""Some providers give each call of a conversation the same id."""


def logged(type: str, **data: Any) -> SessionEvent:
    """An event of a session's log, as the SDK reads it."""
    return SessionEvent.from_dict(
        {
            "id": str(uuid.uuid4()),
            "timestamp": "2026-11-24T02:42:22.689Z",
            "parentId": None,
            "type": type,
            "data": data,
        }
    )


def asked(path: str) -> SessionEvent:
    """The model asks for the call of a path."""
    wanted = {"toolCallId": ID, "name": "write", "arguments": {"path": path}, "type": "function"}
    return logged("assistant.message", messageId=path, content="", toolRequests=[wanted])


def over(code: str = "") -> SessionEvent:
    """The last call has ended, well or with this code."""
    error = {"error": {"code": code, "message": "cut"}} if code else {"result": {"content": "ok"}}
    return logged("tool.execution_complete", toolCallId=ID, success=not code, **error)


def turn(path: str, error: str = "") -> list[Event]:
    """The record of a turn with the call of a path."""
    call = {"type": "tool_call", "tool": "write", "arguments": {"path": path}, "id": ID}
    observed = {"error": error, "message": "cut"} if error else {"output": "ok"}
    return [
        Event("plan.made", {"actions": [call]}),
        Event("step.observed", {"observations": [{**observed, "call": ID, "tool": "write"}]}),
    ]


def said(text: str) -> SessionEvent:
    return logged("user.message", content=text)


def test_a_call_of_any_turn_that_the_log_lacks_needs_a_reminder() -> None:
    history = [*turn("a"), *turn("b"), *turn("c")]
    found = reminders(history, [], [asked("a"), over()], [])
    assert [each.split(". ")[0] for each in found] == [
        'Before you were interrupted you called write with {"path":"b"}',
        'Before you were interrupted you called write with {"path":"c"}',
    ]
    assert all("It is done, do not repeat it." in each for each in found)
    log = [asked("a"), over(), said("\n\n".join(found))]
    assert reminders(history, [], log, []) == []


def test_each_of_two_equal_calls_counts() -> None:
    history = [*turn("a"), *turn("a")]
    (one,) = reminders(history, [], [asked("a"), over()], [])
    assert reminders(history, [], [asked("a"), over(), said(one)], []) == []
    assert reminders(history, [], [], []) == [one, one]
    assert reminders(history, [], [said(one)], []) == [one]


def test_a_call_that_was_never_begun_is_told_of_only_if_the_log_calls_it_interrupted() -> None:
    history = turn("a", SKIPPED)
    assert reminders(history, [], [], []) == []
    (found,) = reminders(history, [], [asked("a"), over("interrupted")], [])
    assert found.endswith("It came to this: skipped: cut")
    without_end = [asked("a"), logged("abort", reason="user_initiated")]
    assert reminders(turn("a", SKIPPED), [], without_end, []) == [found]
    again = [*without_end, said(found), asked("a"), over()]
    assert reminders([*turn("a", SKIPPED), *turn("a")], [], again, []) == []


def test_a_call_that_ended_after_its_turn_was_aborted_needs_a_reminder() -> None:
    aborted = logged("abort", reason="user_initiated")
    (found,) = reminders(turn("a"), [], [asked("a"), aborted, over()], [])
    assert "It is done, do not repeat it." in found
    assert reminders(turn("a"), [], [asked("a"), over(), aborted], []) == []
    both = [asked("a"), aborted, over(), asked("b"), over()]
    assert reminders([*turn("a"), *turn("b")], [], both, []) == [found]


def test_a_call_whose_outcome_is_unknown_is_told_of_until_the_log_has_the_reminder() -> None:
    log = [asked("a"), over("interrupted")]
    (found,) = reminders(turn("a", INDETERMINATE), [], log, [])
    assert INDETERMINATE in found
    assert reminders(turn("a", INDETERMINATE), [], [*log, said(found)], []) == []


def test_a_call_of_the_turn_at_hand_is_told_of_unless_the_session_waits_for_it() -> None:
    action = ToolCall("write", {"path": "a"}, ID)
    begun, done = Call(action, key="k"), Call(action, observation=Observation("ok"))
    assert reminders([], [Call(action)], [], []) == []
    assert reminders([], [begun], [asked("a")], [ID]) == []
    assert "not known" in reminders([], [begun], [asked("a")], [])[0]
    assert "It is done" in reminders([], [done], [asked("a")], [])[0]


def test_a_session_that_waits_for_a_call_of_an_earlier_turn_is_behind() -> None:
    at_hand = [Call(ToolCall("write", {"path": "b"}, ID), key="k")]
    assert is_behind([asked("a")], at_hand, [ID])
    assert is_behind([asked("a")], [], [ID])
    assert not is_behind([asked("a"), over(), asked("b")], at_hand, [ID])
    assert not is_behind([asked("a")], at_hand, [])


def requested(request: str) -> SessionEvent:
    """The session waits for the outcome of a call."""
    named = {"sessionId": "s", "toolCallId": ID, "toolName": "write"}
    return logged("external_tool.requested", requestId=request, **named)


def answered(request: str) -> SessionEvent:
    return logged("external_tool.completed", requestId=request)


def test_a_session_that_has_an_answer_and_not_the_end_of_its_call_is_stuck() -> None:
    half = [asked("a"), requested("r1"), answered("r1")]
    assert is_stuck(half, [])
    assert not is_stuck([*half, over()], [])
    assert is_stuck([*half, over(), asked("b"), requested("r2"), answered("r2")], [])
    assert not is_stuck([asked("a"), requested("r1")], [ID])
    assert not is_stuck([*half, logged("abort", reason="user_initiated")], [])


class CatchesUp:
    """A substrate that reads a log in which its cursor is not, and keeps what it knows then."""

    def __init__(self, log: Sequence[SessionEvent], waiting: Sequence[Pending]) -> None:
        self._log, self._waiting = log, waiting
        self.requests: list[str] = []
        self.cursor = ""

    async def execute(self, job: Job) -> None:
        state = State(VERSION, "a session", cursor=self.cursor)
        reading = SessionReader(SessionRun(job, state, Limits()))
        reading.catch_up(self._log, self._waiting, [])
        self.requests, self.cursor = list(reading.requests), state.cursor


async def caught_up(made: CatchesUp) -> CatchesUp:
    async with Host(made) as host:
        await host.run(Task.new(summary="", instructions="Read.", runtime_kind="copilot"))
    return made


async def test_a_request_of_the_log_that_the_session_no_longer_waits_for_is_not_answered() -> None:
    log = [asked("a"), requested("r1")]
    waits = await caught_up(CatchesUp(log, [Pending("r1", ID)]))
    assert waits.requests == ["r1"]
    over_with = await caught_up(CatchesUp(log, []))
    assert over_with.requests == []
    ended = await caught_up(CatchesUp([*log, answered("r1")], []))
    assert ended.requests == []


async def test_a_log_that_lost_the_cursor_is_read_from_its_present_end_next_time() -> None:
    made = CatchesUp([asked("a"), over()], [])
    made.cursor = "lost"
    log = (await caught_up(made))._log
    assert made.cursor == str(log[-1].id)


class Reads:
    """A substrate that reads events of a session, and no more."""

    def __init__(self, log: Sequence[SessionEvent]) -> None:
        self._log = log

    async def execute(self, job: Job) -> None:
        run = SessionRun(job, State(VERSION, "a session"), Limits())
        reading = SessionReader(run)
        for event in self._log:
            reading.take(event)


async def text_of(*log: SessionEvent) -> tuple[str, int]:
    """The text that a reader has after these events, and the number of its pieces."""
    async with Host(Reads(log)) as host:
        task = await host.run(Task.new(summary="", instructions="Read.", runtime_kind="copilot"))
        events = (await host.outcome(task.id)).events
    pieces = [each for each in events if each.type == "run.delta" and each.data["text"]]
    return Texts(events).text(), len(pieces)


async def test_the_text_of_an_answer_that_comes_from_the_log_is_told() -> None:
    whole = logged("assistant.message", messageId="m", content="All is well.")
    assert await text_of(whole) == ("All is well.", 1)


async def test_the_text_of_an_answer_that_came_in_pieces_is_told_once() -> None:
    piece = logged("assistant.message_delta", messageId="m", deltaContent="All is well.")
    whole = logged("assistant.message", messageId="m", content="All is well.")
    assert await text_of(piece, whole) == ("All is well.", 1)
    assert await text_of(whole, piece) == ("All is well.", 1)

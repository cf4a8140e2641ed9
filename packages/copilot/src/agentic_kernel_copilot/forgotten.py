"""Forgotten calls: calls on record whose outcome a session does not know.

The CLI writes its log a moment late, so a killed CLI knows less than the Task's history, by a call
or by several turns. The model would make such a call again. So the session is reminded of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import msgspec
from copilot.session_events import (
    AbortData,
    AssistantMessageData,
    ExternalToolCompletedData,
    ExternalToolRequestedData,
    SessionEvent,
    ToolExecutionCompleteData,
    UserMessageData,
)

from agentic_kernel_engine import Event
from agentic_kernel_engine.events import Checked
from agentic_kernel_engine.loop import SKIPPED, Observation, Plan, ToolCall
from agentic_kernel_engine.plans import vocabulary

from .state import Call
from .translation import action_of, call_said, reminder

Made = tuple[ToolCall, Observation | None]
"""A call on record, and its outcome if that is known."""


def reminders(
    events: Iterable[Event | Checked],
    calls: Iterable[Call],
    log: Sequence[SessionEvent],
    waiting: Collection[str],
) -> list[str]:
    """The messages that a session needs about calls that it forgot, or takes for interrupted.

    A call of which the session was reminded before, by a message in its log, needs no other one.

    Args:
        events: The Task's history, and the events of the next commit.
        calls: The calls of the turn at hand.
        log: All durable events of the session.
        waiting: The ids of the calls that the session waits for.
    """
    known = _Known(log)
    missing = [made for made in _settled(events) if known.lacks(*made)]
    for call in calls:
        told = call.action.id in waiting or not (call.key or call.observation is not None)
        if not told and known.lacks(call.action, call.observation):
            missing.append((call.action, call.observation))
    return [reminder(*made) for made in missing if not known.heard(made[0])]


def is_behind(log: Sequence[SessionEvent], calls: Iterable[Call], waiting: Collection[str]) -> bool:
    """True if a session waits for a call of a turn that is over on record.

    The CLI would go on from there, and would make the calls of later turns again.

    Args:
        log: All durable events of the session.
        calls: The calls of the turn at hand.
        waiting: The ids of the calls that the session waits for.
    """
    asked = _Known(log).asked
    at_hand = {_key(call.action) for call in calls}
    return any(id in asked and _key(asked[id]) not in at_hand for id in waiting)


def is_stuck(log: Sequence[SessionEvent], waiting: Collection[str]) -> bool:
    """True if a session has the answer to a call of ours, and not the call's end.

    A CLI that is killed in between leaves this. It would wait for that end for ever after a resume,
    and would keep every message back; an abort frees it.

    Args:
        log: All durable events of the session.
        waiting: The ids of the calls that the session waits for.
    """
    asked: dict[str, str] = {}
    answered: set[str] = set()
    for event in log:
        match event.data:
            case ExternalToolRequestedData(request_id=request, tool_call_id=call):
                asked[request] = call
            case ExternalToolCompletedData(request_id=request) if request in asked:
                answered.add(asked[request])
            case ToolExecutionCompleteData(tool_call_id=call):
                answered.discard(call)
            case AbortData():
                answered.clear()
    return not answered <= set(waiting)


class _Known:
    """The calls whose end is in a session's log, and the reminders in it; each counts once.

    A provider may give one id to several calls, so the id alone does not name a call.
    """

    def __init__(self, log: Sequence[SessionEvent]) -> None:
        self._over: Counter[Any] = Counter()
        self._cut: Counter[Any] = Counter()
        self._ids: set[str] = set()
        self._messages: list[str] = []
        self._used: Counter[str] = Counter()
        self.asked: dict[str, ToolCall] = {}
        """The last call with each id."""
        asked = self.asked
        going: set[str] = set()
        aborted: set[str] = set()
        for event in log:
            data = event.data
            match data:
                case AssistantMessageData():
                    for each in data.tool_requests or []:
                        id = each.tool_call_id
                        if id in aborted | going:
                            self._cut[_key(asked[id])] += 1
                            aborted.discard(id)
                        asked[id] = action_of(id, each.name, each.arguments)
                        going.add(id)
                case AbortData():
                    # Its session takes these calls for interrupted, even if their ends come yet.
                    aborted, going = aborted | going, set()
                case ToolExecutionCompleteData():
                    cut = data.tool_call_id in aborted
                    cut = cut or (data.error is not None and data.error.code == "interrupted")
                    aborted.discard(data.tool_call_id)
                    going.discard(data.tool_call_id)
                    call = asked.get(data.tool_call_id)
                    if call is not None:
                        (self._cut if cut else self._over)[_key(call)] += 1
                    elif not cut:
                        self._ids.add(data.tool_call_id)
                case UserMessageData():
                    self._messages.append(data.content)
        for id in aborted | going:
            self._cut[_key(asked[id])] += 1

    def lacks(self, action: ToolCall, found: Observation | None) -> bool:
        """True if the log does not have this outcome of a call.

        If the call was never begun, only a session that takes it for interrupted lacks that.
        """
        key = _key(action)
        if found is not None and found.error == SKIPPED:
            self._cut[key] -= 1
            return self._cut[key] >= 0
        self._over[key] -= 1
        return self._over[key] < 0 and action.id not in self._ids

    def heard(self, action: ToolCall) -> bool:
        """True if the log has a reminder of this call."""
        said = call_said(action)
        self._used[said] += 1
        return sum(message.count(said) for message in self._messages) >= self._used[said]


def _key(action: ToolCall) -> tuple[str, str, bytes]:
    arguments = msgspec.json.encode(action.arguments, order="deterministic")
    return action.id, action.tool, arguments


def _settled(events: Iterable[Event | Checked]) -> Iterator[Made]:
    """The calls of the turns that are over."""
    plan: Plan | None = None
    for event in events:
        if event.type == vocabulary.PLAN_MADE:
            plan = _of(event.data, Plan)
        elif event.type == vocabulary.STEP_OBSERVED and plan is not None:
            observed = _of(event.data["observations"], tuple[Observation, ...])
            for action, observation in zip(plan.actions, observed, strict=False):
                if isinstance(action, ToolCall):
                    yield action, observation
            plan = None


def _of(given: Any, kind: Any) -> Any:
    """A part of an event, which is in its JSON form, encoded already, or not yet encoded."""
    return msgspec.json.decode(msgspec.json.encode(given), type=kind)

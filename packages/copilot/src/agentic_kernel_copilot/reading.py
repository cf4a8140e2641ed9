"""Reading: what a session has said, event by event, and what that leaves to be done.

Events come as they happen, or from the session's log after a pause, a crash and the loss of the
CLI: they are read by the same code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from copilot.session_events import (
    AbortData,
    AssistantMessageData,
    AssistantMessageDeltaData,
    AssistantMessageStartData,
    AssistantReasoningDeltaData,
    AssistantToolCallDeltaData,
    AssistantTurnEndData,
    AssistantTurnStartData,
    AssistantUsageData,
    ExternalToolRequestedData,
    ModelCallFailureData,
    ModelCallFinishedData,
    ModelCallStartData,
    PermissionRequestedData,
    RawSessionEventData,
    SessionErrorData,
    SessionEvent,
    SessionIdleData,
    ToolExecutionCompleteData,
    UserMessageData,
)

from agentic_kernel_engine import Event, TaskFailed
from agentic_kernel_engine.events import RUN_DELTA, RUN_TURN
from agentic_kernel_engine.loop import LENGTH, Delta, End, FinalAnswer, Plan, StopReason, Usage
from agentic_kernel_engine.providers import Redactor

from . import failures
from .run import SessionRun, ended
from .session import Pending
from .state import Call
from .translation import action_of, added, observation_of, refusal_in, reminder, storable

NOTHING: Final = object()
"""Stands for an answer that is not there yet."""


class Reading:
    """What one entry knows of its session.

    Args:
        entry: The job and its state, into which goes what is to be kept.

    Attributes:
        talking: Whether a turn goes on, or the session waits for answers to go on.
        aborting: Whether the turn was told to end.
        asked: Requests to the provider that are on their way.
        answer: The last answer that is one for good; `NOTHING` while there is none.
        fault: What the last turn went wrong with.
        unsaid: How often in a row the session was idle without an answer, a call or an error.
        losses: How often in a row the CLI was lost without an answer in between.
        requests: What the session waits for, by the CLI's id.
        reminders: What it is to be told of calls that it does not know the end of.
    """

    def __init__(self, entry: SessionRun) -> None:
        self._entry = entry
        self._state = entry.state
        self.talking = False
        self.aborting = False
        self.asked = 0
        self.answer: Any = NOTHING
        self.fault: TaskFailed | None = None
        self.unsaid = 0
        self.losses = 0
        self.requests: dict[str, Pending] = {}
        self.reminders: list[str] = []
        self._failed: ModelCallFailureData | None = None
        """The last request to the provider, if that failed."""
        self._usage = Usage()
        self._answered = False
        """Whether the model has answered, and the CLI has not said yet with what."""
        self._named: dict[str, str] = {}
        """Tools by the id of a call that is on its way."""
        self._unheard: list[ToolExecutionCompleteData] = []
        """What came of calls of this answer that the CLI did not tell of."""
        self._length = 0
        """Of the answer on its way, in characters."""
        self._redactor = Redactor(failures.secrets())
        self._finish = ""
        """Why the model's last answer ended, in the provider's word."""
        self._refusal = ""
        self._said = entry.state.heard >= 0
        """Whether a text was begun, here or by an earlier entry."""
        self._over: set[str] = set()
        self._known: set[Any] = set()

    @property
    def in_flight(self) -> bool:
        """Whether a call was begun that is not over."""
        return any(
            call.begun and call.action.id not in self._over and call.observation is None
            for call in self._state.calls
        )

    @property
    def observed(self) -> bool:
        """Whether the turn at hand has calls, and it is known what came of each of them."""
        calls = self._state.calls
        return bool(calls) and all(call.observation is not None for call in calls)

    @property
    def waits(self) -> bool:
        """Whether a person is still to decide about a call."""
        return any(call.waits for call in self._state.calls)

    def forget(self) -> None:
        """Begin anew with another CLI, or with this one's session as it was left."""
        self.talking = self.aborting = False
        self.asked = 0
        self.requests.clear()
        self._over.clear()
        self._known.clear()

    def catch_up(self, log: Sequence[SessionEvent], waiting: Iterable[Pending]) -> None:
        """Take in what the session's log has beyond the last commit, and what it waits for.

        Raises:
            End: The session came to one.
        """
        state = self._state
        ids = [str(event.id) for event in log]
        at = state.cursor
        first = ids.index(at) + 1 if at in ids else (0 if not at else len(ids))
        for event in log[first:]:
            self.take(event)
        self._known = {event.id for event in log}
        state.offered = None
        logged = set(ids)
        while state.told and state.told[-1][0] not in logged:
            state.told.pop()
        for pending in waiting:
            self._ask(pending)
        self._remind(log)

    def take(self, event: SessionEvent) -> bool:
        """Take in one event; what sub-agents say is not the Task's answer.

        Returns:
            Whether it is new; the log may have had it already.

        Raises:
            End: The model's answer is none.
        """
        if event.id in self._known:
            return False
        data = event.data
        match data:
            case AssistantUsageData():
                self._usage = added(self._usage, data)
                self._finish, self._failed = data.finish_reason or "", None
                self._answered = self._answered or not event.agent_id
            case PermissionRequestedData() if not data.resolved_by_hook:
                asked = data.permission_request
                call = getattr(asked, "tool_call_id", None) or ""
                self._ask(Pending(data.request_id, call, asked))
            case ExternalToolRequestedData():
                self._known_call(data.tool_call_id, data.tool_name, data.arguments)
                self._ask(Pending(data.request_id, data.tool_call_id))
            case ToolExecutionCompleteData():
                self._completed(data)
                if self._answered and not event.agent_id:
                    self._unheard.append(data)
            case SessionIdleData():
                self.talking = self.aborting = False
                self.asked = 0
                if not data.aborted and self.answer is NOTHING:
                    self.unsaid += 1
            case ModelCallStartData():
                self.asked += 1
            case ModelCallFinishedData():
                self.asked = max(self.asked - 1, 0)
            case SessionErrorData():
                self.fault = failures.answered(data, self._failed)
            case _ if event.agent_id:
                pass
            case ModelCallFailureData():
                self._failed = data
                self._length = 0
            case RawSessionEventData():
                self._refusal = refusal_in(data) or self._refusal
            case UserMessageData():
                self.answer, self.fault, self._failed, self._refusal = NOTHING, None, None, ""
                self._over_with()
                if self._state.offered is not None:
                    self._state.told.append((str(event.id), self._state.offered))
                    self._state.offered = None
            case AssistantTurnStartData() | AssistantTurnEndData():
                ends = isinstance(data, AssistantTurnEndData)
                if ends and self._answered and self._state.plan is None:
                    self._misunderstood()
                self._over_with()
                if self._state.calls:
                    self._entry.settle_turn()
            case AssistantMessageStartData():
                self.begin_text()
            case AssistantMessageDeltaData():
                self._emit(data.delta_content)
            case AssistantReasoningDeltaData():
                self._emit(data.delta_content, channel="reasoning")
            case AssistantToolCallDeltaData():
                self._named[data.tool_call_id] = data.tool_name or ""
                self._grow(data.input_delta)
            case AssistantMessageData():
                self._message(data)
            case AbortData():
                self.answer = NOTHING
        if not event.ephemeral:
            self._state.cursor = str(event.id)
        return True

    def call_of(self, request_id: str, pending: Pending) -> Call:
        """The call that a request is about; of one that the model did not ask for, a new one."""
        kind = getattr(pending.request, "kind", "tool")
        return self._known_call(pending.call or request_id, kind, None)

    def begin_text(self) -> None:
        """What is said from now on is a new text: the last one is finished, or given up."""
        self._tell(self._redactor.rest())
        if self._said:
            self._said = False
            self._entry.job.emit(Event(RUN_TURN))

    def _grow(self, text: str) -> None:
        """Count what comes of an answer; one without an end is cut off."""
        self._length += len(text) or 1
        if self._length > LENGTH:
            raise End(
                StopReason.ERROR,
                f"no end after {LENGTH:,} characters",
                code="engine/endless_answer",
            )

    def _emit(self, text: str, channel: str = "") -> None:
        self._grow(text)
        piece = self._redactor.take(Delta(text, channel)) if text else None
        if piece is not None:
            self._tell([piece])

    def _tell(self, pieces: Iterable[Delta]) -> None:
        for piece in pieces:
            self._said = True
            data = {"channel": piece.channel} if piece.channel else {}
            self._entry.job.emit(Event(RUN_DELTA, {"text": storable(piece.text), **data}))

    def _message(self, data: AssistantMessageData) -> None:
        """The model has answered: with calls, or for good."""
        self._tell(self._redactor.rest())
        self.unsaid = self.losses = 0
        text = storable(data.content)
        requests = data.tool_requests or []
        if not requests:
            fault = failures.unfit(self._finish, text, self._refusal)
            if fault is not None:
                self._state.spent.bank(self._usage)
                raise ended(fault)
            self.answer = text
        self._state.calls = [
            Call(action_of(each.tool_call_id, each.name, each.arguments)) for each in requests
        ]
        self._made(text, storable(data.reasoning_text or ""), storable(data.model or ""))

    def _misunderstood(self) -> None:
        """The turn is over, and the CLI did not say what the model had answered.

        It does not where it understands no call of the answer, however often it asks the model
        again. Such a turn counts as any other.
        """
        for data in self._unheard:
            if self._state.call(data.tool_call_id) is None:
                name = self._named.get(data.tool_call_id, "")
                call = Call(action_of(data.tool_call_id, name, None))
                self._state.calls.append(call)
                self._entry.came_to(call, observation_of(call, data))
        self._made("", "", "")

    def _made(self, text: str, reasoning: str, model: str) -> None:
        """Put on record what the model answered with: the calls of the state, or a text."""
        actions: tuple[Any, ...] = tuple(call.action for call in self._state.calls)
        usage, self._usage = self._usage, Usage()
        self._state.plan = Plan(
            actions or (FinalAnswer(text),), text if actions else "", reasoning, usage, None, model
        )
        self._entry.made(self._state.plan)
        self._over_with()

    def _over_with(self) -> None:
        """No answer is on its way any more."""
        self._answered = False
        self._length = 0
        self._named.clear()
        self._unheard.clear()

    def _completed(self, data: ToolExecutionCompleteData) -> None:
        """A call is over, by the CLI's word."""
        call = self._state.call(data.tool_call_id)
        self._over.add(data.tool_call_id)
        if call is None or call.observation is not None:
            return
        found = observation_of(call, data)
        if not call.begun and found.done:
            call.begun = True
            self._state.spent.tool_calls += 1
        self._entry.came_to(call, found)

    def _remind(self, log: Sequence[SessionEvent]) -> None:
        """Note what came of calls that the session has forgotten, or takes for interrupted.

        The CLI writes its log a moment late, so a killed one knows less than is on record here.
        """
        known = {pending.call for pending in self.requests.values()}
        for event in log:
            data = event.data
            over = isinstance(data, ToolExecutionCompleteData) and data
            if over and (over.error is None or over.error.code != "interrupted"):
                known.add(over.tool_call_id)
        self.reminders = [
            reminder(call)
            for call in self._state.calls
            if call.action.id not in known and (call.key or call.observation is not None)
        ]

    def _ask(self, pending: Pending) -> None:
        self.requests.setdefault(pending.request_id, pending)

    def _known_call(self, id: str, name: str, arguments: Any) -> Call:
        call = self._state.call(id)
        if call is None:
            call = Call(action_of(id, name, arguments))
            self._state.calls.append(call)
        return call

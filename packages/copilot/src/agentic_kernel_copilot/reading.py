"""Reading: reads the events of a session, and keeps track of the work that they leave to do.

Events come as they happen, or from the session's log after a pause, a crash or the loss of the
CLI; the same code reads both.
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
    ExternalToolCompletedData,
    ExternalToolRequestedData,
    ModelCallFailureData,
    ModelCallFinishedData,
    ModelCallStartData,
    PermissionCompletedData,
    PermissionRequestedData,
    RawSessionEventData,
    SessionErrorData,
    SessionEvent,
    SessionIdleData,
    ToolExecutionCompleteData,
    UserMessageData,
)

from agentic_kernel_engine import Event, TaskFailed
from agentic_kernel_engine.loop import LENGTH, Delta, End, Plan, Spent, StopReason, failed
from agentic_kernel_engine.providers import Redactor

from . import failures
from .forgotten import is_behind, is_stuck, reminders
from .run import SessionRun
from .session import Pending, permission
from .state import Call
from .translation import action_of, cleaned, observation_of, refusal_in, usage_of

NOTHING: Final = object()
"""Placeholder for an answer that is not there yet."""


class SessionReader:
    """The facts that one run knows about its session.

    Args:
        run: The job and its state; the state receives the facts that must be kept.

    Attributes:
        talking: True while a turn goes on, or while the session waits for answers to go on.
        aborting: True if the turn was told to end.
        behind: True if the session would go on with a turn that is over on record.
        stuck: True if the session would wait for ever for the end of a call.
        asked: The number of requests to the provider that are on their way.
        answer: The last final answer; `NOTHING` while there is none, or if it is refused.
        refused: The reason why the last final answer is refused; "" if it is not.
        fault: The error of the last turn; None if it had none.
        refusals: The number of final answers in a row that were refused.
        unsaid: The times in a row that the session was idle without an answer, a call or an error.
        losses: The times in a row that the CLI was lost without an answer in between.
        requests: The requests that the session waits for, by the CLI's id.
        reminders: Messages for the session about calls whose end it does not know.
    """

    def __init__(self, run: SessionRun) -> None:
        self._run = run
        self._state = run.state
        self.talking = False
        self.aborting = False
        self.behind = self.stuck = False
        self.asked = 0
        self.answer: Any = NOTHING
        self.refused = ""
        self.refusals = 0
        self.fault: TaskFailed | None = None
        self.unsaid = 0
        self.losses = 0
        self.requests: dict[str, Pending] = {}
        self.reminders: list[str] = []
        self._failed: ModelCallFailureData | None = None
        """The last request to the provider, if it failed."""
        self._used = Spent()
        """The usage of the answer on its way."""
        self._answered = False
        """True if the model has answered, and the CLI has not yet passed the answer on."""
        self._named: dict[str, str] = {}
        """Names of tools, by the id of a call that is on its way."""
        self._unheard: list[ToolExecutionCompleteData] = []
        """Outcomes of calls of this answer that the CLI did not announce."""
        self._length = 0
        """The length of the answer on its way, in characters."""
        self._redactor = Redactor(failures.secrets())
        self._spoke = False
        """True if a piece of the answer's text was told."""
        self._whole = ""
        """The id of the last message that was read whole; its pieces may come after it."""
        self._finish = ""
        """The provider's word for the reason why the model's last answer ended."""
        self._refusal = ""
        self._text = run.text
        self._over: set[str] = set()
        self._known: set[Any] = set()

    @property
    def in_flight(self) -> bool:
        """True if a call has begun and is not over."""
        return any(
            call.begun and call.action.id not in self._over and call.observation is None
            for call in self._state.calls
        )

    @property
    def observed(self) -> bool:
        """True if the turn at hand has calls, and the outcome of each of them is known."""
        calls = self._state.calls
        return bool(calls) and all(call.observation is not None for call in calls)

    @property
    def waits(self) -> bool:
        """True if a person still has to decide about a call."""
        return any(call.waits for call in self._state.calls)

    def forget(self) -> None:
        """Start again with another CLI, or with this CLI's session as it was left."""
        self.talking = self.aborting = False
        self.asked = 0
        self.requests.clear()
        self._over.clear()
        self._known.clear()

    def catch_up(
        self,
        log: Sequence[SessionEvent],
        waiting: Iterable[Pending],
        history: Iterable[Event],
    ) -> None:
        """Read the part of the session's log after the last commit, and the session's requests.

        Args:
            log: All durable events of the session.
            waiting: The requests that the session waits for.
            history: The Task's durable events.

        Raises:
            End: The session's events end the run.
        """
        state = self._state
        ids = [str(event.id) for event in log]
        at = state.cursor
        first = ids.index(at) + 1 if at in ids else (0 if not at else len(ids))
        for event in log[first:]:
            self.take(event)
        if at not in ids:
            # The log has lost that event, and does not lose again what is in it now.
            state.cursor = ids[-1] if ids else ""
        self.requests.clear()  # Those in the log may be over: an event of their end may be lost.
        self._known = {event.id for event in log}
        state.offered = None
        logged = set(ids)
        while state.told and state.told[-1][0] not in logged:
            state.told.pop()
        waiting = list(waiting)
        asked = {pending.call for pending in waiting}
        self.behind = is_behind(log, state.calls, asked)
        self.stuck = is_stuck(log, asked)
        for pending in [] if self.behind else waiting:
            self._ask(pending)
        self.reminders = reminders(
            [*history, *self._run.events],
            state.calls,
            log,
            {pending.call for pending in self.requests.values()},
        )

    def take(self, event: SessionEvent) -> bool:
        """Read one event; a text of a sub-agent is not the Task's answer.

        Returns:
            True if the event is new; the log may have shown it already.

        Raises:
            End: The model's answer cannot be used.
        """
        if event.id in self._known:
            return False
        data = event.data
        match data:
            case AssistantUsageData():
                usage = usage_of(data, self._run.price)
                self._used.bank(usage)
                self._state.spent.bank(usage)
                self._finish, self._failed = data.finish_reason or "", None
                self._answered = self._answered or not event.agent_id
            case PermissionRequestedData() if not data.resolved_by_hook:
                self._ask(permission(data.request_id, data.permission_request))
            case ExternalToolRequestedData():
                self._known_call(data.tool_call_id, data.tool_name, data.arguments)
                self._ask(Pending(data.request_id, data.tool_call_id))
            case ExternalToolCompletedData() | PermissionCompletedData():
                self.requests.pop(data.request_id, None)
            case ToolExecutionCompleteData():
                self._completed(data)
                if self._answered and not event.agent_id:
                    self._unheard.append(data)
            case SessionIdleData():
                self.talking = self.aborting = False
                self.asked = 0
                if not data.aborted and self.answer is NOTHING and not self.refused:
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
                self.refused = ""
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
                    self._run.settle_turn()
            case AssistantMessageStartData():
                self.tell_rest()
                self._spoke = False
                self._text.fade()  # A text that was begun was given up: the model is asked again.
                self._text.settle()
            case AssistantMessageDeltaData():
                if data.message_id != self._whole:
                    self._spoke = True
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
        """The call that a request is about; a new one if the model did not ask for it."""
        kind = getattr(pending.request, "kind", "tool")
        return self._known_call(pending.call or request_id, kind, None)

    def tell_rest(self) -> None:
        """Emit the text that was held back, because no more of its message comes."""
        self._tell(self._redactor.rest())

    def _grow(self, text: str) -> None:
        """Count the characters of an answer; end the run if the answer does not end."""
        self._length += len(text) or 1
        if self._length > LENGTH:
            raise End(
                StopReason.ERROR,
                f"the answer has no end after {LENGTH:,} characters; lower the model's limit of "
                "output tokens",
                code="engine/endless_answer",
            )

    def _emit(self, text: str, channel: str = "") -> None:
        self._grow(text)
        piece = self._redactor.take(Delta(text, channel)) if text else None
        if piece is not None:
            self._tell([piece])

    def _tell(self, pieces: Iterable[Delta]) -> None:
        for piece in pieces:
            self._text.tell(cleaned(piece.text), piece.channel)

    def _message(self, data: AssistantMessageData) -> None:
        """Handle the model's answer: calls, or the final text."""
        if not self._spoke:
            self._emit(data.content)  # The log has no pieces.
        self._whole = data.message_id
        self.tell_rest()
        self._text.end()
        self.unsaid = self.losses = 0
        text = cleaned(data.content)
        requests = data.tool_requests or []
        if not requests:
            fault = failures.unfit(self._finish, text, self._refusal)
            if fault is not None:
                raise failed(fault)
            action = self._run.form.action(text)
            self.refused = self._run.form.fault(action)
            self.answer = NOTHING if self.refused else action.output
        self.refusals = self.refusals + 1 if self.refused else 0
        self._state.calls = [
            Call(action_of(each.tool_call_id, each.name, each.arguments)) for each in requests
        ]
        self._made(text, cleaned(data.reasoning_text or ""), cleaned(data.model or ""))

    def _misunderstood(self) -> None:
        """Record a turn whose answer the CLI did not pass on.

        The CLI does not pass an answer on if it understands none of its calls, however often it
        asks the model again. Such a turn counts like any other.
        """
        for data in self._unheard:
            if self._state.call(data.tool_call_id) is None:
                name = self._named.get(data.tool_call_id, "")
                call = Call(action_of(data.tool_call_id, name, None))
                self._state.calls.append(call)
                self._run.came_to(call, observation_of(call, data))
        self._made("", "", "")

    def _made(self, text: str, reasoning: str, model: str) -> None:
        """Record the model's answer: the calls of the state, or a text."""
        actions: tuple[Any, ...] = tuple(call.action for call in self._state.calls)
        self._state.plan = Plan(
            actions or (self._run.form.action(text),),
            text if actions else "",
            reasoning,
            self._used.usage,
            None,
            model,
        )
        self._used = Spent()
        self._run.made(self._state.plan)
        self._over_with()

    def _over_with(self) -> None:
        """Forget the answer that was on its way."""
        self._answered = self._spoke = False
        self._length = 0
        self._named.clear()
        self._unheard.clear()

    def _completed(self, data: ToolExecutionCompleteData) -> None:
        """Handle the CLI's report that a call is over."""
        call = self._state.call(data.tool_call_id)
        self._over.add(data.tool_call_id)
        if call is None or call.observation is not None:
            return
        found = observation_of(call, data)
        if not call.begun and found.done:
            call.begun = True
            self._state.spent.tool_calls += 1
        self._run.came_to(call, found)

    def _ask(self, pending: Pending) -> None:
        self.requests.setdefault(pending.request_id, pending)

    def _known_call(self, id: str, name: str, arguments: Any) -> Call:
        call = self._state.call(id)
        if call is None:
            call = Call(action_of(id, name, arguments))
            self._state.calls.append(call)
        return call

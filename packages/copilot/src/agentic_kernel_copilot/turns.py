"""Turns: a Task's conversation with a session, from entry to answer.

One asyncio task reads everything that happens, from one queue: the session's events, answered
calls, decisions and pauses from outside, the end of the CLI. What the session has said beyond the
last commit is read from its log with the same code, so that going on after a pause, a crash and
the loss of the CLI are one path.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from copilot.session_events import (
    AbortData,
    AssistantMessageData,
    AssistantMessageDeltaData,
    AssistantMessageStartData,
    AssistantReasoningDeltaData,
    AssistantTurnEndData,
    AssistantTurnStartData,
    AssistantUsageData,
    ExternalToolRequestedData,
    PermissionRequestedData,
    SessionErrorData,
    SessionEvent,
    SessionIdleData,
    ToolExecutionCompleteData,
    UserMessageData,
)

from agentic_kernel_engine import Event, TaskFailed
from agentic_kernel_engine.events import RUN_DELTA, RUN_TURN
from agentic_kernel_engine.loop import (
    End,
    FinalAnswer,
    Plan,
    Usage,
)

from . import failures
from .calls import Calls
from .cli import PATIENCE, Cli, CliLost
from .entry import Entry, ended
from .session import Pending, Session, SessionMissing
from .state import Call
from .translation import action_of, added, observation_of, reminder, storable

LOSSES: Final = 3
"""How often in a row the CLI may be lost without a turn in between before the Task fails."""
GO_ON: Final = "You were interrupted. Go on with the task."
"""What a session is told when it is to go on and there is nothing new to tell it."""
QUIET: Final = 0.2
"""Seconds without news after which a turn that waits for a person is left to wait."""
_UNSAID: Final = 3
"""How often in a row a session may be idle without an answer, a call or an error."""
_NOTHING: Final = object()


class Turns:
    """One entry's conversation.

    Args:
        entry: The job and its state.
        calls: What becomes of the calls that the session asks for.
        cli: Where the session is.
        options: Of the session, as the SDK has them.
    """

    def __init__(self, entry: Entry, calls: Calls, cli: Cli, options: Mapping[str, Any]) -> None:
        self._entry = entry
        self._state = entry.state
        self._job = entry.job
        self._calls = calls
        self._cli = cli
        self._options = options
        self._news: asyncio.Queue[Any] = asyncio.Queue()
        self._session: Session | None = None
        self._talking = False
        """Whether a turn goes on, or the session waits for answers to go on."""
        self._aborting = False
        self._parked = False
        """Whether the session is left as it is, for a person to decide."""
        self._deadline: float | None = None
        """When a turn that was aborted has to be over, on the event loop's clock."""
        self._kept = entry.state.step
        self._answer: Any = _NOTHING
        self._error: SessionErrorData | None = None
        self._usage = Usage()
        self._cut = False
        """Whether the model's last answer reached its limit of length."""
        self._said = entry.state.heard >= 0
        """Whether a text was begun, here or by an earlier entry."""
        self._unsaid = 0
        self._losses = 0
        self._reminders: list[str] = []
        """What the session is to be told of calls that it does not know the end of."""
        self._requests: dict[str, Pending] = {}
        self._workers: dict[str, asyncio.Task[None]] = {}
        self._over: set[str] = set()
        self._known: set[Any] = set()

    async def run(self, begun: bool) -> Any:
        """Talk until there is an answer, and return it.

        Args:
            begun: Whether the session may be there already.

        Raises:
            End: The run is over without an answer.
            RunEnded: The Task is paused, or no longer this run's.
            SessionMissing: The CLI does not have the session that was begun.
        """
        try:
            while True:
                try:
                    return await self._converse(begun)
                except CliLost as lost:
                    await self._lose(lost)
                    begun = True
        finally:
            await self._let_go()

    async def _converse(self, begun: bool) -> Any:
        connection = await self._cli.open()
        self._forget()
        wake = self._wake
        connection.losing.add(wake)
        try:
            told = self._news.put_nowait
            self._session = await self._join(connection, begun, told)
            await self._catch_up(self._session, begun)
            while True:
                await self._go_on(self._session)
                if self._answer is not _NOTHING and not self._talking:
                    return self._answer
                await self._hear()
                connection.check()
        finally:
            connection.losing.discard(wake)

    def _forget(self) -> None:
        """Begin anew: of what was not heard yet only an end counts, the rest is in the log.

        Raises:
            End: A call that went on while the CLI was lost ended the run.
        """
        while not self._news.empty():
            heard = self._news.get_nowait()
            if isinstance(heard, End):
                raise heard
        self._talking = self._aborting = False
        self._requests.clear()
        self._over.clear()
        self._known.clear()

    async def _join(
        self, connection: Any, begun: bool, told: Callable[[SessionEvent], None]
    ) -> Session:
        """The session as it was left, or a new one."""
        id = self._state.session
        if begun:
            try:
                return await Session.resume(connection, id, self._options, told)
            except SessionMissing:
                if self._state.step:
                    raise
        return await Session.create(connection, id, self._options, told)

    async def _catch_up(self, session: Session, begun: bool) -> None:
        """Take in what the session's log has beyond the last commit, and what it waits for."""
        if not begun:
            return
        log = await session.log()
        ids = [str(event.id) for event in log]
        at = self._state.cursor
        first = ids.index(at) + 1 if at in ids else (0 if not at else len(ids))
        for event in log[first:]:
            self._take(event)
        self._known = {event.id for event in log}
        self._state.offered = None
        while self._state.told and self._state.told[-1][0] not in ids:
            self._state.told.pop()
        for pending in await session.pending():
            self._ask(pending)
        self._remind(log)
        self._talking = bool(self._requests) or await session.processing()

    def _remind(self, log: Sequence[SessionEvent]) -> None:
        """Note what came of calls that the session has forgotten, or takes for interrupted.

        The CLI writes its log a moment late, so a killed one knows less than is on record here.
        """
        known = {pending.call for pending in self._requests.values()}
        for event in log:
            data = event.data
            over = isinstance(data, ToolExecutionCompleteData) and data
            if over and (over.error is None or over.error.code != "interrupted"):
                known.add(over.tool_call_id)
        self._reminders = [
            reminder(call)
            for call in self._state.calls
            if call.action.id not in known and (call.key or call.observation is not None)
        ]

    async def _go_on(self, session: Session) -> None:
        """Do what is due: pause, wait for people, begin calls, say what is next.

        Raises:
            End: A limit is reached.
            RunEnded: The Task is paused.
        """
        entry = self._entry
        if self._job.inbox:
            entry.heed()
        for id, pending in list(self._requests.items()):
            self._work(session, id, pending)
        busy = bool(self._workers) or self._in_flight
        if self._talking:
            if self._job.stopping and not busy and not self._aborting:
                await self._abort(session)
            elif not busy and self._waits and not await self._hear(QUIET):
                self._parked = True
                await entry.wait_for_people()
            return
        entry.settle_turn()
        if self._error is not None:
            raise ended(failures.answered(self._error))
        if self._job.stopping and self._answer is _NOTHING:
            await entry.checkpoint()
        if self._answer is not _NOTHING and self._state.heard >= len(entry.task.supplements):
            return
        await self._say(session)

    async def _say(self, session: Session) -> None:
        """Tell the session what it has not heard; what is about to be told is on record first."""
        state, task = self._state, self._entry.task
        self._entry.check_time()
        self._entry.check_spent()
        if self._unsaid >= _UNSAID:
            raise ended(
                failures.failure(failures.EMPTY_ANSWER, "the session is idle without an answer")
            )
        texts = list(task.supplements[max(state.heard, 0) :])
        if state.heard < 0:
            texts.insert(0, task.instructions)
        texts += self._reminders
        state.offered = len(task.supplements)
        self._answer = _NOTHING
        self._begin_text()
        await self._entry.checkpoint()
        self._talking = True
        self._reminders = []
        await session.say("\n\n".join(text for text in texts if text.strip()) or GO_ON)

    async def _abort(self, session: Session) -> None:
        """End the turn at a safe point; a turn that will not end loses the CLI."""
        self._aborting = True
        self._deadline = asyncio.get_running_loop().time() + PATIENCE
        await session.abort()
        if not await session.processing() and self._news.empty():
            self._talking = False

    async def _hear(self, patience: float | None = None) -> bool:
        """Wait for the next thing that happens, and take it in.

        Args:
            patience: How long to wait, in seconds; None for as long as it takes.

        Returns:
            Whether anything happened by then.
        """
        self._entry.check_time()
        news = self._job.news()
        news.add_done_callback(self._wake)
        try:
            async with asyncio.timeout(self._wait_at_most(patience)):
                heard = await self._news.get()
        except TimeoutError:
            self._entry.check_time()
            if self._aborting and self._session is not None and patience is None:
                self._session.give_up(f"a turn did not end within {PATIENCE:g} seconds")
            return False
        finally:
            news.remove_done_callback(self._wake)
        while True:
            if isinstance(heard, TaskFailed):
                raise ended(heard)
            if isinstance(heard, BaseException):
                raise heard
            if isinstance(heard, SessionEvent) and heard.id not in self._known:
                self._take(heard)
                await self._keep()
            if self._news.empty():
                return True
            heard = self._news.get_nowait()

    def _wait_at_most(self, patience: float | None) -> float | None:
        bounds = [self._entry.seconds_left, patience]
        if self._aborting and self._deadline is not None:
            bounds.append(max(self._deadline - asyncio.get_running_loop().time(), 0.0))
        return min((bound for bound in bounds if bound is not None), default=None)

    async def _keep(self) -> None:
        """One durable write for each turn that called something, and no turn beyond the limits."""
        if self._state.step > self._kept and self._state.plan is None and not self._aborting:
            self._kept = self._state.step
            await self._entry.commit()
            self._entry.check_spent()

    def _take(self, event: SessionEvent) -> None:
        """Take in one event of the session; what sub-agents say is not the Task's answer."""
        data = event.data
        match data:
            case AssistantUsageData():
                self._usage = added(self._usage, data)
                self._cut = data.finish_reason == "length"
            case PermissionRequestedData() if not data.resolved_by_hook:
                asked = data.permission_request
                call = getattr(asked, "tool_call_id", None) or ""
                self._ask(Pending(data.request_id, call, asked))
            case ExternalToolRequestedData():
                self._known_call(data.tool_call_id, data.tool_name, data.arguments)
                self._ask(Pending(data.request_id, data.tool_call_id))
            case ToolExecutionCompleteData():
                self._completed(data)
            case SessionIdleData():
                self._talking = self._aborting = False
                if not data.aborted and self._answer is _NOTHING:
                    self._unsaid += 1
            case SessionErrorData():
                self._error = data
            case _ if event.agent_id:
                pass
            case UserMessageData():
                self._answer, self._error = _NOTHING, None
                if self._state.offered is not None:
                    self._state.told.append((str(event.id), self._state.offered))
                    self._state.offered = None
            case AssistantTurnStartData() | AssistantTurnEndData():
                if self._state.calls:
                    self._entry.settle_turn()
            case AssistantMessageStartData():
                self._begin_text()
            case AssistantMessageDeltaData():
                self._emit(data.delta_content)
            case AssistantReasoningDeltaData():
                self._emit(data.delta_content, channel="reasoning")
            case AssistantMessageData():
                self._message(data)
            case AbortData():
                self._answer = _NOTHING
        if not event.ephemeral:
            self._state.cursor = str(event.id)

    def _message(self, data: AssistantMessageData) -> None:
        """The model has answered: with calls, or for good."""
        self._unsaid = self._losses = 0
        text = storable(data.content)
        requests = data.tool_requests or []
        usage, self._usage = self._usage, Usage()
        if requests:
            self._state.calls = [
                Call(action_of(each.tool_call_id, each.name, each.arguments)) for each in requests
            ]
            actions: tuple[Any, ...] = tuple(call.action for call in self._state.calls)
        elif self._cut:
            raise ended(failures.cut(text))
        else:
            actions = (FinalAnswer(text),)
            self._answer = text
        self._state.plan = Plan(
            actions, text if requests else "", storable(data.reasoning_text or ""), usage,
            None, data.model or "",
        )  # fmt: skip
        self._entry.made(self._state.plan)

    def _completed(self, data: ToolExecutionCompleteData) -> None:
        """A call is over, by the CLI's word."""
        call = self._state.call(data.tool_call_id)
        self._over.add(data.tool_call_id)
        if call is None:
            return
        spent = self._entry.state.spent
        if call.observation is None:
            call.observation = observation_of(call, data)
            if not call.begun and call.observation.done:
                call.begun = True
                spent.tool_calls += 1
        if call.observation.error and call.observation.done:
            spent.failures += 1

    def _ask(self, pending: Pending) -> None:
        self._requests.setdefault(pending.request_id, pending)

    def _known_call(self, id: str, name: str, arguments: Any) -> Call:
        call = self._state.call(id)
        if call is None:
            call = Call(action_of(id, name, arguments))
            self._state.calls.append(call)
        return call

    def _work(self, session: Session, id: str, pending: Pending) -> None:
        """Begin to answer a request, unless that goes on already or waits for a person."""
        call = self._known_call(pending.call or id, getattr(pending.request, "kind", "tool"), None)
        if id in self._workers or call.waits:
            return
        worker = asyncio.create_task(self._calls.answer(session, pending, call))
        self._workers[id] = worker
        worker.add_done_callback(lambda done: self._worked(id, call, done))

    def _worked(self, id: str, call: Call, worker: asyncio.Task[None]) -> None:
        self._workers.pop(id, None)
        if not call.waits:
            self._requests.pop(id, None)
        fault = None if worker.cancelled() else worker.exception()
        self._news.put_nowait(fault)

    @property
    def _in_flight(self) -> bool:
        """Whether a call was begun that is not over."""
        return any(
            call.begun and call.action.id not in self._over and call.observation is None
            for call in self._state.calls
        )

    @property
    def _waits(self) -> bool:
        return any(call.waits for call in self._state.calls)

    def _begin_text(self) -> None:
        """What is said from now on is a new text: the last one is finished, or given up."""
        if self._said:
            self._said = False
            self._job.emit(Event(RUN_TURN))

    def _emit(self, text: str, **data: Any) -> None:
        if text:
            self._said = True
            self._job.emit(Event(RUN_DELTA, {"text": storable(text), **data}))

    def _wake(self, *_: Any) -> None:
        self._news.put_nowait(None)

    async def _lose(self, lost: CliLost) -> None:
        """The CLI is gone: let what goes on here end, and go on with another one.

        Raises:
            End: It was lost too often.
        """
        self._losses += 1
        if self._losses > LOSSES:
            raise ended(failures.failure(failures.CLI_LOST, str(lost))) from lost
        self._session = None
        if self._workers:
            await asyncio.wait(list(self._workers.values()), timeout=self._entry.seconds_left)

    async def _let_go(self) -> None:
        """End what goes on for this entry; the CLI keeps the session, and what it waits for."""
        workers = list(self._workers.values())
        for worker in workers:
            worker.cancel()
        if workers:
            await asyncio.wait(workers)
        session = self._session
        if session is None or session.lost:
            return
        try:
            if self._talking and not self._parked:
                await session.abort()
            await session.leave()
        except (CliLost, TaskFailed):
            pass

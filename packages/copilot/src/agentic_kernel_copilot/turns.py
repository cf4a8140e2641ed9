"""SessionTurns: a Task's conversation with a session, from the begin of a run to its answer.

One asyncio task reads all news from one queue: the session's events, answered calls, decisions and
pauses from outside, the end of the CLI. The same code reads the part of the session's log after the
last commit. So a run goes on in the same way after a pause, a crash and the loss of the CLI.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from copilot.session_events import SessionEvent

from agentic_kernel_engine import TaskFailed
from agentic_kernel_engine.loop import End, StopReason, failed
from agentic_kernel_engine.providers.failures import TIMEOUT

from . import failures
from .answering import refusal
from .calls import Calls
from .cli import PATIENCE, Cli, CliLost
from .reading import NOTHING, SessionReader
from .run import SessionRun
from .session import Pending, Session, SessionMissing
from .translation import attachments_of

LOSSES: Final = 3
"""The most times in a row that the CLI may be lost without a turn in between."""
GO_ON: Final = "You were interrupted. Go on with the task."
"""The message to a session that must go on if there is no other message for it."""
QUIET: Final = 0.2
"""Seconds without news after which a turn that waits for a person is left to wait."""
UNSAID: Final = 3
"""The number of times in a row that a session is idle without an answer, a call or an error, after
which the Task fails."""

REFUSALS: Final = 5
"""The number of final answers in a row that do not fit their schema, after which the Task fails."""


class SessionTurns:
    """The conversation of one run.

    Args:
        run: The job and its state.
        calls: Answers the calls that the session requests.
        cli: The CLI that keeps the session.
        options: The session's options, in the SDK's form.
        timeout: Seconds that the provider may be silent.
    """

    def __init__(
        self, run: SessionRun, calls: Calls, cli: Cli, options: Mapping[str, Any], timeout: float
    ) -> None:
        self._run = run
        self._state = run.state
        self._job = run.job
        self._calls = calls
        self._cli = cli
        self._options = options
        self._timeout = timeout
        self._read = SessionReader(run)
        self._news: asyncio.Queue[Any] = asyncio.Queue()
        self._session: Session | None = None
        self._parked = False
        """True if the session is left as it is until a person decides."""
        self._deadline: float | None = None
        """The moment at which an aborted turn must be over, by the event loop's clock."""
        self._kept = run.state.step
        self._workers: dict[str, asyncio.Task[bool]] = {}

    async def run(self, begun: bool) -> Any:
        """Talk to the session until there is an answer; return the answer.

        Args:
            begun: True if the session may exist already.

        Raises:
            End: The run ends without an answer.
            RunEnded: The Task is paused, or this run no longer owns it.
            SessionMissing: The CLI does not have the session that was begun.
        """
        try:
            while True:
                try:
                    return await self._converse(begun)
                except CliLost as lost:
                    await self._lose(lost)
                    begun = True
                except End as end:
                    if end.reason is StopReason.TIMEOUT:
                        await self._settle_calls()
                    raise
        finally:
            await self._let_go()

    async def _converse(self, begun: bool) -> Any:
        connection = await self._cli.open()
        self._forget()
        wake = self._wake
        connection.losing.add(wake)
        try:
            told = self._news.put_nowait
            self._session = session = await self._join(connection, begun, told)
            if begun:
                log, waiting = await session.log(), await session.pending()
                self._read.catch_up(log, waiting, await self._run.history())
                self._read.talking = bool(self._read.requests) or await session.processing()
                if self._read.behind or self._read.stuck:
                    self._read.talking = True
                    await self._abort(session)
            while True:
                patience = await self._go_on(session)
                if self._read.answer is not NOTHING and not self._read.talking:
                    return self._read.answer
                if not await self._hear(patience) and patience is not None:
                    self._parked = True
                    await self._run.wait_for_people()
                connection.check()
        finally:
            connection.losing.discard(wake)

    def _forget(self) -> None:
        """Start again; drop the unread news except an end, because the log has the rest.

        Raises:
            End: A call that went on while the CLI was lost has ended the run.
        """
        while not self._news.empty():
            heard = self._news.get_nowait()
            if isinstance(heard, End):
                raise heard
        self._read.forget()

    async def _join(
        self, connection: Any, begun: bool, told: Callable[[SessionEvent], None]
    ) -> Session:
        """The session as it was left, or a new one."""
        id = self._state.session
        if begun:
            try:
                return await Session.resume(connection, id, self._options, told)
            except SessionMissing:
                if self._state.step and not await self._cli.begun(id):
                    raise
        return await Session.create(connection, id, self._options, told)

    async def _go_on(self, session: Session) -> float | None:
        """Do the work that is due: pause, begin calls, send the next message.

        Returns:
            Seconds to wait for news before the Task is left to people; None for no limit.

        Raises:
            End: A limit is reached.
            RunEnded: The Task is paused.
        """
        run, read = self._run, self._read
        if self._job.inbox:
            run.act_on_decisions()
        for id, pending in list(read.requests.items()):
            self._work(session, id, pending)
        busy = bool(self._workers) or read.in_flight
        if read.talking:
            if not busy and read.observed and run.reached() is not None:
                # With the last call's outcome the CLI would ask the model again, beyond the limit.
                run.settle_turn()
                run.check_spent()
            if read.aborting:
                await self._see_end(session)
            elif run.stopping and not busy:
                await self._abort(session)
            elif not busy and read.waits:
                return QUIET
            if read.talking:
                return None
        run.settle_turn()
        if read.fault is not None:
            raise failed(read.fault)
        if run.stopping and read.answer is NOTHING:
            await (run.pause("step") if run.stepped else run.checkpoint())
        if read.answer is NOTHING or self._state.heard < len(run.task.supplements):
            await self._say(session)
        return None

    async def _say(self, session: Session) -> None:
        """Send the session the texts that it has not received; a commit records this first."""
        state, task, read = self._state, self._run.task, self._read
        self._run.check_time()
        self._run.check_spent()
        if read.unsaid >= UNSAID:
            idle = (
                f"the session was idle {read.unsaid} times in a row without an answer; use another "
                "model, or change the instructions"
            )
            raise failed(failures.failure(failures.EMPTY_ANSWER, idle))
        if read.refusals >= REFUSALS:
            raise End(
                StopReason.NO_PROGRESS,
                f"the model's final answer was refused {read.refusals} times in a row: "
                f"{read.refused}; change the instructions, the schema, or the model",
            )
        texts = list(task.supplements[max(state.heard, 0) :])
        attachments = attachments_of(task) if state.heard < 0 else []
        if state.heard < 0:
            texts.insert(0, task.instructions)
        texts += read.reminders
        if state.heard < 0:
            texts.append(self._run.form.told)
        if read.refused:
            texts.append(refusal(read.refused))
        state.offered = len(task.supplements)
        read.answer, read.refused = NOTHING, ""
        read.tell_rest()
        await self._run.checkpoint(progress=False)
        read.talking = True
        read.reminders = []
        said = "\n\n".join(text for text in texts if text.strip()) or GO_ON
        await session.say(said, attachments, self._run.form.sent)

    async def _abort(self, session: Session) -> None:
        """End the turn at a safe point; if the turn does not end, the CLI counts as lost."""
        self._read.aborting = True
        self._deadline = asyncio.get_running_loop().time() + PATIENCE
        await session.abort()
        await self._see_end(session)

    async def _see_end(self, session: Session) -> None:
        """Look for the end of an aborted turn; a turn that had ended before tells no other end."""
        if not await session.processing() and self._news.empty():
            self._read.talking = self._read.aborting = False

    async def _hear(self, patience: float | None) -> bool:
        """Wait for news, and handle all that have come.

        Args:
            patience: Seconds to wait; None for no limit.

        Returns:
            True if news came in time.

        Raises:
            End: The provider is silent for too long, or ``max_seconds`` is reached.
        """
        self._run.check_time()
        began = asyncio.get_running_loop().time()
        news = self._job.news()
        news.add_done_callback(self._wake)
        try:
            async with asyncio.timeout(self._wait_at_most(patience)):
                heard = await self._news.get()
        except TimeoutError:
            self._run.check_time()
            if self._read.aborting and self._session is not None and patience is None:
                self._session.connection.give_up(f"a turn did not end within {PATIENCE:g} seconds")
            elif self._asking and asyncio.get_running_loop().time() - began >= self._timeout:
                silent = (
                    f"the provider said nothing for {self._timeout:g} seconds; check the provider, "
                    "or raise timeout"
                )
                raise failed(failures.failure(TIMEOUT, silent)) from None
            return False
        finally:
            news.remove_done_callback(self._wake)
        while True:
            if isinstance(heard, TaskFailed):
                raise failed(heard)
            if isinstance(heard, BaseException):
                raise heard
            if isinstance(heard, SessionEvent) and self._read.take(heard):
                await self._keep()
            if self._news.empty():
                return True
            heard = self._news.get_nowait()

    @property
    def _asking(self) -> bool:
        """True if the run waits for the provider alone; the CLI would wait for it for ever."""
        return self._read.asked > 0 and not self._read.aborting and not self._workers

    def _wait_at_most(self, patience: float | None) -> float | None:
        bounds = [self._run.seconds_left, patience, self._timeout if self._asking else None]
        if self._read.aborting and self._deadline is not None:
            bounds.append(max(self._deadline - asyncio.get_running_loop().time(), 0.0))
        return min((bound for bound in bounds if bound is not None), default=None)

    async def _keep(self) -> None:
        """Commit once for each turn with calls, and end the run at a limit."""
        state = self._state
        if state.step > self._kept and state.plan is None and not self._read.aborting:
            self._kept = state.step
            await self._run.commit(progress=True)
            self._run.check_spent()

    def _work(self, session: Session, id: str, pending: Pending) -> None:
        """Begin to answer a request, unless that goes on already or has to wait.

        A call waits for a person's decision. Its outcome waits if the CLI, after it received the
        outcome, would ask the model beyond a limit. No call begins after a pause was asked for,
        because the turn ends as soon as the calls that have begun are over.
        """
        call = self._read.call_of(id, pending)
        if call.observation is not None:
            held = self._run.reached() is not None
        else:
            held = not call.begun and (self._run.stopping or self._read.aborting)
        if id in self._workers or call.waits or held:
            return
        worker = asyncio.create_task(self._calls.answer(session, pending, call))
        self._workers[id] = worker
        worker.add_done_callback(lambda done: self._worked(id, done))

    def _worked(self, id: str, worker: asyncio.Task[bool]) -> None:
        self._workers.pop(id, None)
        fault = None if worker.cancelled() else worker.exception()
        if worker.cancelled() or fault is not None or worker.result():
            self._read.requests.pop(id, None)
        self._news.put_nowait(fault)

    def _wake(self, *_: Any) -> None:
        self._news.put_nowait(None)

    async def _lose(self, lost: CliLost) -> None:
        """Wait for the calls that go on after the CLI was lost; the run goes on with another CLI.

        Raises:
            End: The CLI was lost more than `LOSSES` times in a row.
        """
        self._read.losses += 1
        if self._read.losses > LOSSES:
            raise failed(failures.failure(failures.CLI_LOST, str(lost))) from lost
        self._session = None
        if self._workers:
            await asyncio.wait(list(self._workers.values()), timeout=self._run.seconds_left)

    async def _settle_calls(self) -> None:
        """Record the turn whose calls the deadline has cut, once they have ended."""
        if self._workers:
            await asyncio.wait(list(self._workers.values()), timeout=PATIENCE)
        self._run.settle_turn()

    async def _let_go(self) -> None:
        """End the work of this run; the CLI keeps the session with its open requests."""
        workers = list(self._workers.values())
        for worker in workers:
            worker.cancel()
        if workers:
            await asyncio.wait(workers)
        session = self._session
        if session is None or session.connection.lost:
            return
        try:
            if self._read.talking and not self._parked:
                await session.abort()
            await session.leave()
        except (CliLost, TaskFailed):
            pass

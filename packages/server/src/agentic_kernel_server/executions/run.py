"""ExecutionRun: one run of an execution, a mailbox around the pure `step`.

The run takes one request at a time. It stores state and events in one write, and only then answers
and pushes. It lets go of the Task while only people can let it go on, or while there is no agent.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from agentic_kernel import InvalidValue, KernelError, Task
from agentic_kernel_engine import (
    Cleaning,
    Event,
    Job,
    Principal,
    Reading,
    RunEnded,
    StoreError,
    Substrate,
    TaskFailed,
)
from agentic_kernel_engine.errors import HostGone

from ..agents.consumers import Consumer, Key
from ..errors import Refused, unavailable
from ..identity import agent_id, labels_of
from ..mailbox import Letter, Mailbox
from ..outage import outlasting
from ..parts import Parts
from ..ports import Ruling, ToolCall
from . import events as e
from .encoding import input_of
from .following import Following
from .requests import (
    DECISION,
    AgentLost,
    Approve,
    Assign,
    Invoke,
    Reconnected,
    Reply,
    Request,
    Signal,
    Tick,
    answer_before,
    from_decision,
)
from .state import FORM, Past, State, from_plain, plain
from .step import End, Stepped, step
from .taking import take_again
from .vigil import Vigil

NO_AGENT: Final = "server/no_agent"
"""The reason of the pause of an execution that waits for an agent."""
HANDOVER: Final = "server/handover"
"""The reason of the pause by which an execution goes to another process."""
WAITING_FOR: Final = "engine/waiting_for"
TIMEOUT: Final = "server/timeout"
"""The metadata key of an execution's own timeout, in seconds."""
_UNWINDING: Final = 0.5
"""Seconds that a client gets to end its handler of a lost session."""


class Executions(Substrate, Cleaning, Reading):
    """The substrate of executions.

    Args:
        parts: The parts that the server shares.
    """

    reads = frozenset({FORM})

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def execute(self, job: Job) -> Any:
        """Run the execution until it ends, or until it waits for people or for an agent."""
        return await ExecutionRun(self._parts, job).go()

    async def on_killed(self, task: Task, state: Any, events: Sequence[Event]) -> None:
        """Tell the agent that its execution was cancelled."""
        if state is not None:
            told(self._parts, task, from_plain(state), "execution.cancelled", {})


def told(parts: Parts, task: Task, state: State, type: str, data: Mapping[str, Any]) -> None:
    """Push to the consumer of the session, if its stream is here."""
    key = key_of(task, state)
    consumer = None if key is None else parts.agents.find(key)
    if consumer is not None:
        consumer.push(type, {"execution_id": task.id, **data})


def key_of(task: Task, state: State | None) -> Key | None:
    """The consumer that has the execution."""
    if state is None or state.session is None:
        return None
    return Key(state.tenant, agent_id(task.agent_name), state.session.consumer)


class ExecutionRun:
    """One run of an execution.

    Args:
        parts: The parts that the server shares.
        job: The Host's handle on the Task.
    """

    def __init__(self, parts: Parts, job: Job) -> None:
        self._parts = parts
        self._job = job
        self._task = job.task
        self._stored: Any = job.state
        self.tenant = job.terms.tenant
        self.agent_id = agent_id(job.task.agent_name)
        self.box: Mailbox[Request] = Mailbox(job.nudge)
        self.state = self._first() if job.state is None else from_plain(job.state)
        self._past = Past()
        self._following = Following(
            parts, job.task, Principal(job.terms.name, job.terms.tenant), self.box
        )
        self._over: asyncio.Future[None] | None = None
        self.stream: Consumer | None = None
        """The stream whose reader knows of the session."""
        self._leaves = False
        """True if another process takes the execution."""
        self._held = False
        """True if a person pauses the execution."""

    def _first(self) -> State:
        given = self._task.metadata.get(TIMEOUT)
        timeout = given if isinstance(given, (int, float)) else None
        seconds = self._parts.settings.execution_timeout if timeout is None else float(timeout)
        return State(self._task.created_at.timestamp() + seconds, self.tenant)

    @property
    def key(self) -> Key | None:
        """The consumer that has the execution."""
        return key_of(self._task, self.state)

    async def go(self) -> Any:
        """Carry out requests until the execution ends or is let go.

        Raises:
            TaskFailed: The execution failed.
        """
        self._job.tag(FORM)
        runs = self._parts.runs
        runs[self._task.id] = self
        try:
            what = f"execution {self._task.id}"
            end = await outlasting(what, self._enter, self._forget)
            while end is None:
                end = await outlasting(what, self._turn, self._forget)
            return self._ended(end)
        except RunEnded as ended:
            if ended.reason == "paused":
                self._keep_vigil()
            raise
        finally:
            if runs.get(self._task.id) is self:
                del runs[self._task.id]
            self.box.close()
            self._following.stop()

    async def _enter(self) -> End | None:
        if not self._job.fresh:
            self._past = Past(await self._job.history())
        remote = [each for each in self.state.steps.values() if each.remote and not each.approval]
        # Before anything times out: a result that was stored while the execution had no process.
        for ended in await self._following.ended([each.id for each in remote]) if remote else ():
            end = await self._carry_out(Letter(ended))
            if end is not None:
                return end
        for each in remote:
            if each.id in self.state.steps:
                self._following.begin(each)
        self._greet()
        return None

    def _greet(self) -> None:
        """See to it that the agent hears of what it may have missed, or that its grace begins."""
        key = self.key
        agents = self._parts.agents
        if key is None:
            return
        if agents.find(key) is not None:
            vigil = self._parts.vigils.get(self._task.id)
            if vigil is None or not vigil.current:
                # This process has not told the consumer everything.
                self.box.put(Reconnected(key.consumer))
        elif agents.gone(key):
            self.box.put(AgentLost(key.consumer, "the agent did not come back in time"))
        else:
            agents.expect(key)

    @property
    def _waits_for_people(self) -> bool:
        """True if only people can let the execution go on, and its agent is not in its grace."""
        key = self.key
        if key is None or not self.state.waits_for_people:
            return False
        return self._parts.agents.settled(key)

    def _ended(self, end: End) -> Any:
        self._following.abandon()
        if end.code:
            raise TaskFailed(end.code, end.error)
        return end.output

    def _keep_vigil(self) -> None:
        """See to it that the paused execution goes on."""
        if self._job.inbox and not self._leaves and not self._held:
            # A request came while the pause was stored: no other process looks for it.
            self._parts.start(take_again(self._parts, self._task.id))
            return
        key = self.key
        if key is not None and self._parts.agents.find(key) is not None:
            Vigil.begin(self._parts, self._task.id, key, current=True)

    async def _turn(self) -> End | None:
        """Do the next thing; return the end of the execution if it has ended."""
        if self._over is not None:
            await self._over  # It is being killed.
        now = self._parts.now()
        if now >= self._soonest():
            return await self._carry_out(Letter(Tick()))
        if self._job.stopping and not self._parts.draining:
            # A person pauses it: what waits is carried out after a person resumed it.
            await self._hold()
        letter = self.box.take()
        if letter is not None:
            return await self._carry_out(letter)
        entry = next(iter(self._job.inbox), None)
        if entry is not None:
            return await self._take_in(entry)
        if self._job.stopping:
            await self._job.checkpoint(plain(self.state))
        elif self.state.session is None:
            return await self._find_agent()
        elif self._waits_for_people:
            await self._pause(Stepped())
        else:
            await self._rest(now)
        return None

    def _soonest(self) -> float:
        return self.state.next_deadline(self._following.ending)

    async def _rest(self, now: float) -> None:
        news = self._job.news()
        await asyncio.wait({news}, timeout=max(0.0, self._soonest() - now))

    async def _find_agent(self) -> End | None:
        consumer = self._parts.agents.pick(self.tenant, self.agent_id, self.state.former)
        if consumer is None:
            await self._pause(Stepped(), NO_AGENT)
            return None
        if consumer.key.consumer in self.state.former:
            # Its handler of the earlier session may still run, and would take the new one's place.
            consumer.push("execution.cancelled", {"execution_id": self._task.id})
            await asyncio.sleep(_UNWINDING)
        assign = Assign(uuid.uuid4().hex, consumer.key.consumer)
        return await self._carry_out(Letter(assign))

    async def _take_in(self, entry: Mapping[str, Any]) -> End | None:
        """Carry out a decision that another process left."""
        request = _decided(entry)
        if request is None:
            await self._job.commit(plain(self.state), consumed=[entry["id"]])
            return None
        return await self._carry_out(Letter(request, id=str(entry.get("request", ""))), entry["id"])

    async def _carry_out(self, letter: Letter[Request], entry: int | None = None) -> End | None:
        """Carry out one request: step, store, and then answer and push.

        Args:
            entry: The id of the decision that carried the request.
        """
        try:
            answered = self._past.replies.get(letter.id) if letter.id else None
            if answered is not None:
                # It came on the other way, too, because its sender lost this process.
                if entry is not None:
                    await self._job.commit(plain(self.state), consumed=[entry])
                letter.answer(answered)
                return None
            if entry is None and isinstance(letter.request, Approve):
                first = answer_before(self._job.inbox, letter.request)
                if first is not None:
                    letter.answer(first)
                    return None
            done = await self._step(letter.request)
            await self._store(done, letter, entry)
        except asyncio.CancelledError:
            # It may be stored or not: the sender asks again, and a repetition changes nothing.
            letter.give_back()
            raise
        except InvalidValue as wrong:
            await self._refuse(letter, Refused("VALIDATION_ERROR", str(wrong)), entry)
            return None
        except StoreError as fault:
            self._forget()
            if letter.reply is None and entry is None:
                self.box.again(letter)
            letter.answer(Reply.refusal(unavailable(fault)))
            if letter.reply is None or isinstance(fault, HostGone):
                raise
            return None
        return done.end

    async def _refuse(self, letter: Letter[Request], why: Refused, entry: int | None) -> None:
        """Answer that a request holds a value that cannot be stored."""
        self._forget()
        done = Stepped(reply=Reply.refusal(why))
        if entry is not None:
            await self._store(done, letter, entry)
        letter.answer(done.reply)

    def _forget(self) -> None:
        """Go back to the state that is stored, because a write failed."""
        self.state = self._first() if self._stored is None else from_plain(self._stored)

    async def _step(self, request: Request) -> Stepped:
        done = self._stepped(request, None)
        if done.undecided:
            assert isinstance(request, Invoke)
            ruling = await self._parts.decide(self._call(request, repeated=done.repeated))
            done = self._stepped(request, ruling)
        return done

    def _stepped(self, request: Request, ruling: Ruling | None) -> Stepped:
        settings, now = self._parts.settings, self._parts.now()
        return step(
            self.state, self._past, request, now, self._task.id, settings.step_timeout, ruling
        )

    def _call(self, request: Invoke, *, repeated: bool) -> ToolCall:
        now = self._job.now
        since = now - self._task.created_at
        return ToolCall(
            self._task.id, self.agent_id, labels_of(self._task), request.tool, request.arguments,
            request.remote, self._job.terms.name, self.tenant, self.state.made,
            int(since.total_seconds() * 1_000), now, repeated,
        )  # fmt: skip

    async def _store(self, done: Stepped, letter: Letter[Request], entry: int | None) -> None:
        events = [Event(name, data) for name, data in done.events]
        ends = done.kill or done.end is not None
        if letter.id and (events or ends or entry is not None or plain(self.state) != self._stored):
            answer = {
                "request": letter.id,
                "status": done.reply.status,
                "body": dict(done.reply.body),
            }
            events.append(Event(e.REPLIED, answer))
        consumed = () if entry is None else (entry,)
        if ends:
            self._finish(done, letter, events)
            return
        key = self.key
        if done.let_go and key is not None and self._parts.agents.find(key) is None:
            self._leaves = True
            letter.answer(done.reply)
            await self._pause(done, HANDOVER, events, consumed)
            return
        quiet = not len(self.box) and len(self._job.inbox) <= len(consumed)
        if quiet and self._waits_for_people and not self._job.stopping:
            try:
                await self._pause(done, "", events, consumed)
            except RunEnded as ended:
                if ended.reason == "paused":
                    self._landed(done, letter, events)
                raise
        state = plain(self.state)
        if events or consumed or state != self._stored:
            await self._job.commit(state, events, consumed=consumed)
            self._stored = state
        self._landed(done, letter, events)

    def _finish(self, done: Stepped, letter: Letter[Request], events: list[Event]) -> None:
        """Let the Host store the last events with the end, and answer after that."""
        for event in events:
            self._job.emit(event)
        parts, task_id = self._parts, self._task.id
        if done.kill:
            self._over = asyncio.get_running_loop().create_future()
            parts.start(_killed(parts, task_id, letter))
        elif letter.reply is not None:
            parts.start(_answered(parts, task_id, done, letter))

    def _landed(self, done: Stepped, letter: Letter[Request], events: list[Event]) -> None:
        """Answer and push, because the transition is stored."""
        at = datetime.fromtimestamp(self._parts.now(), UTC)
        for event in events:
            self._past.fold(event.type, event.data, at)
        letter.answer(done.reply)
        if isinstance(letter.request, (Assign, Reconnected)):
            self._welcome(letter.request)
        for name, data in done.pushes:
            more = self._assignment() if name == "execution.assigned" else {}
            told(self._parts, self._task, self.state, name, {**data, **more})
        for step_id in done.late:
            self._following.time_out(step_id)
        for step_id in done.spawned:
            made = self.state.steps.get(step_id)
            if made is not None:
                self._following.begin(made)
        for event in events:
            if event.type in _ENDED:
                self._following.end(event.data["step_id"], cancel=event.type != e.STEP_SUCCEEDED)

    def _welcome(self, request: Assign | Reconnected) -> None:
        """Remember the stream that knows of the session, and wait for its first intent.

        A session that is not heard of after its stream was opened again may not know of the
        execution, so it is lost after another grace.
        """
        key, session = self.key, self.state.session
        self.stream = None if key is None else self._parts.agents.find(key)
        if session is not None and not session.heard and isinstance(request, Reconnected):
            grace = self._parts.settings.agent_timeout
            asyncio.get_running_loop().call_later(grace, self._expire, session.id)

    def _expire(self, session_id: str) -> None:
        session = self.state.session
        if session is not None and session.id == session_id and not session.heard:
            why = "the agent did not answer after its stream was lost"
            self.box.put(AgentLost(session.consumer, why))

    def _assignment(self) -> dict[str, Any]:
        return {
            "agent_id": self.agent_id,
            "input": input_of(self._task),
            "labels": labels_of(self._task),
            "history": self._past.history(),
        }

    async def _pause(
        self,
        done: Stepped,
        reason: str = "",
        events: Sequence[Event] = (),
        consumed: Collection[int] = (),
    ) -> None:
        """Let go of the Task: an agent, a person or another process lets it go on."""
        note: dict[str, Any] = self._request() if not reason else {"kind": "agent"}
        self._job.note(WAITING_FOR, note)
        due = self._parts.now() if reason else self._soonest()
        await self._job.pause(
            plain(self.state), list(events), reason or "interrupt", consumed=consumed,
            due=datetime.fromtimestamp(due, UTC),
        )  # fmt: skip

    async def _hold(self) -> None:
        """Let go of the Task until a person resumes it."""
        self._held = True
        note = self._request() if self.state.waits_for_people else None
        await self._job.checkpoint(plain(self.state), if_paused={WAITING_FOR: note})
        self._held = False  # The pause was withdrawn.

    def _request(self) -> dict[str, Any]:
        """The request to people that the paused Task shows."""
        asking = [each for each in self.state.steps.values() if each.approval is not None]
        if asking:
            requests = [
                {
                    "digest": each.id,
                    "type": "tool_call",
                    "action": {"tool": each.tool, "arguments": each.arguments},
                    "reason": each.approval.reason if each.approval is not None else "",
                }
                for each in asking
            ]
            return {"kind": "approval", "requests": requests}
        assert self.state.session is not None
        wanted = self.state.session.waits[0]
        return {
            "kind": "question",
            "question": f"the signal {wanted!r}",
            "digest": f"signal:{wanted}",
        }


_ENDED: Final = frozenset({e.STEP_SUCCEEDED, e.STEP_FAILED, e.STEP_TIMED_OUT, e.STEP_CANCELLED})


def _decided(entry: Mapping[str, Any]) -> Request | None:
    """The request that a decision stands for; None if it stands for none."""
    kind = entry["type"]
    try:
        if kind == DECISION:
            return from_decision(entry)
        if kind == "engine/approval":
            return Approve(
                entry["digest"], entry["granted"], entry.get("why", ""), entry.get("by", "")
            )
        if kind == "engine/answer":
            signal = str(entry.get("digest", "")).removeprefix("signal:")
            return Signal(signal, entry["text"], entry.get("by", "")) if signal else None
    except (ValueError, KeyError):
        return None
    return None


async def _killed(parts: Parts, task_id: str, letter: Letter[Request]) -> None:
    try:
        await parts.executions.kill(task_id)
    except KernelError as fault:
        letter.answer(Reply.refusal(unavailable(fault)))
        raise
    letter.answer(Reply.ok())


async def _answered(parts: Parts, task_id: str, done: Stepped, letter: Letter[Request]) -> None:
    """Answer after the end of the execution is stored."""
    assert done.end is not None
    wanted = "failure" if done.end.code else "success"
    try:
        ended = await parts.executions.wait(task_id)
    except KernelError as fault:
        letter.answer(Reply.refusal(unavailable(fault)))
        return
    if ended.status.value == wanted:
        letter.answer(done.reply)
        return
    why = f"the execution ended as {ended.status.value} before"
    if ended.failure is not None:
        why = f"the execution failed: {ended.failure.message}"
    letter.answer(Reply.refusal(Refused("CONFLICT", why)))

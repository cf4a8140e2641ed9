"""ToolRun: one run of a remote step's Task: it finds a runner, and waits for the result."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, Final

import msgspec

from agentic_kernel import KernelError, TaskStatus
from agentic_kernel_engine import (
    Event,
    Job,
    Reading,
    RunEnded,
    StoreError,
    Substrate,
    TaskFailed,
)
from agentic_kernel_engine.errors import HostGone

from ..agents.consumers import Key
from ..errors import Refused, unavailable
from ..executions.encoding import input_of
from ..executions.events import REPLIED
from ..executions.following import end_of, moved_by
from ..executions.requests import NO_MESSAGE, ChildEnded, ChildMoved, Reply
from ..executions.taking import take_again
from ..identity import shown
from ..mailbox import Letter, Mailbox
from ..outage import outlasting
from ..parts import Parts
from .jobs import (
    ASSIGNED,
    FORM,
    INDETERMINATE,
    RETRIED,
    STARTED,
    TIMED_OUT,
    TOOL_FAILED,
    Attempt,
    Began,
    JobRequest,
    JobState,
    Result,
    RunnerLost,
    from_decision,
)

NO_RUNNER: Final = "server/no_runner"
"""The reason of the pause of a remote step that waits for a runner."""


class ToolCalls(Substrate, Reading):
    """The substrate of remote steps.

    Args:
        parts: The parts that the server shares.
    """

    reads = frozenset({FORM})

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def execute(self, job: Job) -> Any:
        """Run the step until it ends, or until another process has a runner for it."""
        return await ToolRun(self._parts, job).go()


class Ended(Exception):
    """The step has ended.

    Attributes:
        result: Its result.
        code: The code of its failure; empty for success.
        error: The message of its failure.
    """

    def __init__(self, result: Any = None, code: str = "", error: str = "") -> None:
        self.result = result
        self.code = code
        self.error = error
        super().__init__(code, error)


class ToolRun:
    """One run of a remote step's Task.

    Args:
        parts: The parts that the server shares.
        job: The Host's handle on the Task.
    """

    def __init__(self, parts: Parts, job: Job) -> None:
        self._parts = parts
        self._job = job
        self._id = job.task.id
        self._asked: Mapping[str, Any] = input_of(job.task)
        self.tenant = job.terms.tenant
        self.tool_id: str = self._asked["tool_id"]
        self._deadline = float(self._asked["deadline"])
        self.box: Mailbox[JobRequest] = Mailbox(job.nudge)
        self.state = JobState() if job.state is None else msgspec.convert(job.state, JobState)
        self._replies: dict[str, Reply] = {}
        """The answers of this run to requests that other processes sent, by the request's id."""
        self._last: Letter[JobRequest] | None = None
        """The request that ended the step."""

    @property
    def key(self) -> Key | None:
        """The runner that has the attempt."""
        attempt = self.state.attempt
        return None if attempt is None else Key(self.tenant, attempt.runner, attempt.consumer)

    async def go(self) -> Any:
        """Carry out requests until the step has ended or is let go.

        Raises:
            TaskFailed: The step failed.
        """
        self._job.tag(FORM)
        jobs = self._parts.jobs
        jobs[self._id] = self
        key = self.key
        if key is not None:
            assert self.state.attempt is not None
            runners = self._parts.runners
            if runners.find(key) is not None:
                runners.take(key, self.state.attempt.job)
            elif runners.gone(key):
                self.box.put(RunnerLost(key.consumer))
            else:
                runners.expect(key)
        concluding = False
        try:
            while True:
                await outlasting(f"step {self._id}", self._turn)
        except RunEnded as left:
            if left.reason == "paused" and self._job.inbox:
                # A request came while the pause was stored: no other process looks for it.
                self._parts.start(take_again(self._parts, self._id))
            raise
        except Ended as ended:
            concluding = True
            self._parts.start(self._conclude(ended))
            if ended.code:
                raise TaskFailed(ended.code, ended.error) from None
            return ended.result
        finally:
            if jobs.get(self._id) is self:
                del jobs[self._id]
            self.box.close()
            if not concluding:
                self._tell(None)

    async def _turn(self) -> None:
        now = self._parts.now()
        if now >= self._deadline:
            self._leave_runner()
            raise Ended(None, TIMED_OUT, self._why_late())
        if self._job.stopping and not self._parts.draining:
            # A person pauses it: what waits is carried out after a person resumed it.
            await self._job.checkpoint(msgspec.to_builtins(self.state))
        letter = self.box.take()
        if letter is not None:
            await self._carry_out(letter)
            return
        entry = next(iter(self._job.inbox), None)
        if entry is not None:
            await self._take_in(entry)
        elif self._job.stopping:
            await self._job.checkpoint(msgspec.to_builtins(self.state))
        elif self.state.attempt is not None or now < self.state.not_before:
            await self._rest(now)
        else:
            await self._find_runner()

    def _why_late(self) -> str:
        if self.state.attempt is None:
            return (
                f"no runner that offers {self.tool_id!r} took the step before its deadline; start "
                "a runner with this capability, or give the step more time"
            )
        return "the step reached its deadline before its runner answered"

    def _leave_runner(self) -> None:
        """The runner may still work on the job: it is free when it answers, or after a grace."""
        attempt = self.state.attempt
        if attempt is not None:
            grace = self._parts.settings.agent_timeout
            asyncio.get_running_loop().call_later(grace, self._parts.runners.free, attempt.job)

    async def _rest(self, now: float) -> None:
        until = self._deadline
        if self.state.attempt is None:
            until = min(until, self.state.not_before)
        await asyncio.wait({self._job.news()}, timeout=max(0.0, until - now))

    async def _find_runner(self) -> None:
        consumer = self._parts.runners.find_idle(self.tenant, self.tool_id)
        if consumer is None:
            state = msgspec.to_builtins(self.state)
            due = datetime.fromtimestamp(self._parts.now(), UTC)
            await self._job.pause(state, [], NO_RUNNER, due=due)
            return
        key, number = consumer.key, self.state.number
        attempt = Attempt(f"{self._id}.{number}", key.group, key.consumer)
        self._parts.runners.take(key, attempt.job)
        data = {
            "attempt": number,
            "runner_id": key.group,
            "consumer_id": key.consumer,
            "job_id": attempt.job,
        }
        try:
            await self._store(JobState(number, attempt), [Event(ASSIGNED, data)], progress=False)
        except (StoreError, asyncio.CancelledError):
            self._parts.runners.free(attempt.job)
            raise
        consumer.push("job.assigned", self._assignment(attempt))

    def _assignment(self, attempt: Attempt) -> dict[str, Any]:
        return {
            "id": attempt.job,
            "execution_id": self._asked["execution_id"],
            "step_id": self._id,
            "attempt": self.state.number,
            "tool_id": self.tool_id,
            "tool_version": 1,
            "arguments": self._asked["arguments"],
            "deadline": shown(datetime.fromtimestamp(self._deadline, UTC)),
        }

    async def _take_in(self, entry: Mapping[str, Any]) -> None:
        request = from_decision(entry)
        if request is None:
            await self._store(self.state, consumed=[entry["id"]])
            return
        letter: Letter[JobRequest] = Letter(request, id=str(entry.get("request", "")))
        await self._carry_out(letter, entry["id"])

    async def _carry_out(self, letter: Letter[JobRequest], entry: int | None = None) -> None:
        consumed = () if entry is None else (entry,)
        try:
            answered = self._replies.get(letter.id) if letter.id else None
            if answered is not None:
                # It came on the other way, too, because its sender lost this process.
                if consumed:
                    await self._store(self.state, consumed=consumed)
                letter.answer(answered)
                return
            reply = await self._do(letter.request, consumed, letter.id)
        except asyncio.CancelledError:
            letter.give_back()
            raise
        except Ended:
            if letter.id:
                self._job.emit(_replied(letter.id, Reply.ok(accepted=True)))
            self._last = letter
            raise
        except StoreError as fault:
            if letter.reply is None and entry is None:
                self.box.again(letter)
            letter.answer(Reply.refusal(unavailable(fault)))
            if letter.reply is None or isinstance(fault, HostGone):
                raise
        else:
            letter.answer(reply)

    async def _conclude(self, ended: Ended) -> None:
        """Answer the last request, and tell the execution, after the end is stored."""
        letter = self._last
        try:
            task = await self._parts.tools.wait(self._id)
        except KernelError as fault:
            self._tell(None)
            if letter is not None:
                letter.answer(Reply.refusal(unavailable(fault)))
            return
        self._tell(end_of(task))
        if letter is None:
            return
        wanted = TaskStatus.FAILURE if ended.code else TaskStatus.SUCCESS
        if task.status is wanted:
            letter.answer(Reply.ok(accepted=True))
        else:
            why = f"step {self._id!r} ended as {task.status.value} before"
            letter.answer(Reply.refusal(Refused("CONFLICT", why)))

    def _tell(self, news: ChildMoved | ChildEnded | None) -> None:
        """Tell the run of the execution, if it is here."""
        follower = self._parts.followers.get(self._id)
        if follower is not None:
            follower(news)

    async def _do(self, request: JobRequest, consumed: Collection[int], asked: str) -> Reply:
        attempt = self.state.attempt
        reply = Reply.ok(accepted=True)
        told = [_replied(asked, reply)] if asked else []
        if isinstance(request, (Result, Began)):
            why = self._not_theirs(request, attempt)
            if why:
                reply = Reply.refusal(Refused("CONFLICT", why))
                if consumed:
                    told = [_replied(asked, reply)] if asked else []
                    await self._store(self.state, told, consumed=consumed)
                return reply
        if isinstance(request, Result):
            assert attempt is not None
            await self._result(request, attempt, told, consumed)
            return reply
        if isinstance(request, Began):
            if attempt is not None and not attempt.started:
                begun = Attempt(attempt.job, attempt.runner, attempt.consumer, True)
                event = Event(STARTED, {"attempt": self.state.number})
                await self._store(
                    JobState(self.state.number, begun), [event, *told], consumed=consumed
                )
                return reply
        elif isinstance(request, RunnerLost):
            if attempt is not None and attempt.consumer == request.consumer:
                await self._runner_lost(attempt)
        elif attempt is not None and attempt.consumer == request.consumer:
            due = datetime.fromtimestamp(self._parts.now(), UTC)
            state = msgspec.to_builtins(self.state)
            await self._job.pause(state, told, "server/handover", consumed=consumed, due=due)
        if consumed or told:
            await self._store(self.state, told, consumed=consumed)
        return reply

    def _not_theirs(self, report: Result | Began, attempt: Attempt | None) -> str:
        """The reason why a report is not one of the runner that has the attempt; empty if it is."""
        if isinstance(report, Result) and (attempt is None or attempt.job != report.job):
            return f"job {report.job[:200]!r} is not the step's attempt any more"
        if attempt is None:
            return f"step {self._id!r} waits for a runner; no runner has begun it"
        if report.runner and report.runner != attempt.runner:
            return (
                f"step {self._id!r} was given to another runner than {report.runner[:200]!r}; "
                "a runner reports its own jobs only"
            )
        if isinstance(report, Result) and report.consumer not in ("", attempt.consumer):
            return (
                f"step {self._id!r} was given to another consumer than {report.consumer[:200]!r} "
                "of the runner; a consumer reports its own jobs only"
            )
        if report.execution not in ("", self._asked["execution_id"]):
            return f"step {self._id!r} is not one of the execution {report.execution[:200]!r}"
        return ""

    async def _result(
        self, request: Result, attempt: Attempt, told: list[Event], consumed: Collection[int]
    ) -> None:
        """End the step, or begin its next attempt.

        Raises:
            Ended: The step has ended.
        """
        self._parts.runners.free(attempt.job)
        if request.success:
            raise Ended(request.data)
        error = request.error or NO_MESSAGE
        if request.retryable and await self._retry(error, told, consumed):
            return
        raise Ended(None, TOOL_FAILED, error)

    async def _runner_lost(self, attempt: Attempt) -> None:
        error = f"the runner {attempt.runner!r} vanished during attempt {self.state.number}"
        if self._repeatable() and await self._retry(error, [], ()):
            return
        raise Ended(
            None, INDETERMINATE, f"indeterminate: {error}; it is unknown if the tool took effect"
        )

    def _repeatable(self) -> bool:
        patterns = self._parts.settings.safe_to_repeat
        return any(fnmatchcase(self.tool_id, pattern) for pattern in patterns)

    async def _retry(self, error: str, told: Sequence[Event], consumed: Collection[int]) -> bool:
        """Begin the next attempt; return False if there are no more."""
        settings, number = self._parts.settings, self.state.number
        if number >= settings.attempts:
            return False
        delay = min(settings.longest_delay, settings.first_delay * 2 ** (number - 1))
        data = {"attempt": number, "error": error, "delay": delay}
        state = JobState(number + 1, None, self._parts.now() + delay)
        await self._store(state, [Event(RETRIED, data), *told], consumed=consumed)
        return True

    async def _store(
        self,
        state: JobState,
        events: Sequence[Event] = (),
        *,
        consumed: Collection[int] = (),
        progress: bool = True,
    ) -> None:
        plain = msgspec.to_builtins(state)
        await self._job.commit(plain, list(events), consumed=consumed, progress=progress)
        self.state = state
        for event in events:
            if event.type == REPLIED:
                self._replies[event.data["request"]] = Reply(
                    event.data["status"], event.data["body"]
                )
            moved = moved_by(self._id, event.type, event.data)
            if moved is not None:
                self._tell(moved)


def _replied(asked: str, reply: Reply) -> Event:
    """The answer for a process that waits for it."""
    data = {"request": asked, "status": reply.status, "body": dict(reply.body)}
    return Event(REPLIED, data)

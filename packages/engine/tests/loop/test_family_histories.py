"""Random histories of families of Tasks: hosts that die, people who decide, a store that is late.

What must hold in each: no run begins twice for one owner, no effect is begun twice, every Task ends
once and its log tells the same, nobody waits for ever, and nothing is left of it in any host.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import pytest

from agentic_kernel import IllegalTransition, TaskStatus
from agentic_kernel_engine import (
    Event,
    Host,
    HostClosed,
    Job,
    Limits,
    Loop,
    MemoryStore,
    StoreError,
)
from agentic_kernel_engine.host.approvals_transport import InMemoryApprovals, Request
from agentic_kernel_engine.host.history import history
from agentic_kernel_engine.loop.replay import replay
from agentic_kernel_engine.plans.action import (
    Action,
    AskUser,
    Delegate,
    FinalAnswer,
    Schedule,
    Thought,
    ToolCall,
)
from agentic_kernel_engine.plans.decision import ALLOW, Decision, require_approval
from agentic_kernel_engine.plans.lineage import depth
from agentic_kernel_engine.plans.transcript import Turn
from agentic_kernel_engine.seams.planner import Context
from agentic_kernel_engine.tools.tool import Tool, ToolContext, tool
from agentic_kernel_engine.waiting import asked

from ..conftest import Crash
from ..crashing import Line
from ..histories import JitteryStore, play
from ..scripting import new_task


class Walk:
    """One history: the planner and the policy, the hosts, and what was done."""

    def __init__(self, seed: int, crash: Crash) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.store = JitteryStore(self.chance)
        self.root = new_task(id=f"root-{seed}")
        self.crash = crash
        self.deepest = self.chance.choice([0, 1, 1, 2])
        self.begun: Counter[str] = Counter()
        """The number of times that each effect was begun, by its key."""
        self.runs: Counter[tuple[str, str]] = Counter()
        """The number of times that a run was begun, by its Task and owner."""
        self.hosts: list[Host] = []
        self.lines: list[Line] = []
        """Each Host's, to the store."""
        self.seats: dict[Host, InMemoryApprovals] = {}
        """The transport by which people learn of the requests of each Host."""

    async def turns(self, most: int) -> None:
        for _ in range(self.chance.randrange(most)):
            await asyncio.sleep(0)

    def tools(self) -> list[Tool]:
        @tool(effect="write")
        async def write(text: str, context: ToolContext) -> str:
            """Write a text."""
            self.begun[context.key] += 1
            await self.turns(8)
            return "written"

        @tool(effect="none")
        async def look(text: str) -> str:
            """Look at something."""
            await self.turns(4)
            return "seen"

        return [write, look]

    async def plan(self, context: Context) -> Any:
        """Anything; but the same again for the same step of the same kind of Task."""
        await self.turns(4)
        level, step = depth(context.task), context.step
        draw = random.Random(f"{self.seed}/{level}/{context.task.instructions}/{step}")
        waited_for = list(unjoined(context))
        if step >= draw.randrange(3, 7):
            if waited_for and draw.random() < 0.8:
                return Delegate("join", child=waited_for[0])
            return FinalAnswer("done")
        a, b, c = (ToolCall(name, {"text": f"{name} {step}"}) for name in ("write", "look", "look"))
        write_too = ToolCall("write", {"text": f"and {step}"})
        match draw.choices(range(7), (6, 4, 2, 1, 1, 4, 2))[0]:
            case 0:
                return a
            case 1:
                return [a, b, write_too]
            case 2:
                return Thought("hm")
            case 3:
                return AskUser(f"what about {step}?")
            case 4:
                return Schedule(datetime.now(UTC).isoformat())
            case 5 if level < self.deepest:
                return Delegate("spawn", instructions=f"part {step}", summary="part")
            case _ if waited_for:
                verb: Any = draw.choice(["join", "join", "cancel"])
                return Delegate(verb, child=waited_for[0])
        return c

    async def authorize(self, action: Action, context: Context) -> Decision:
        asks = random.Random(f"{self.seed}/{action}").random() < 0.5
        writes = isinstance(action, ToolCall) and action.tool == "write"
        return require_approval("it writes") if asks and writes else ALLOW

    async def execute(self, job: Job) -> Any:
        self.runs[job.task.id, job._run.owner] += 1
        return await self.loop.execute(job)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        limits = Limits(max_non_progress=50, max_repeats=50)
        self.loop = Loop(self, self.tools(), self, limits=limits)
        for _ in range(self.chance.randint(1, 3)):
            seat = InMemoryApprovals()
            self.lines.append(Line(self.store))
            host = Host(
                self, self.lines[-1], approvals=seat, interval=0.002, grace=0, unwind_timeout=0.05,
                max_in_flight=self.chance.choice([None, None, 1, 2]),
            )  # fmt: skip
            self.hosts.append(await host.__aenter__())
            self.seats[host] = seat
        people = [asyncio.create_task(self.person(host)) for host in self.hosts]
        try:
            yield
        finally:
            for person in people:
                person.cancel()
            await asyncio.wait(people)
            for host in self.hosts:
                await host.close()

    def alive(self) -> list[Host]:
        return [host for host, line in zip(self.hosts, self.lines, strict=True) if not line.is_cut]

    async def told(self, verb: Awaitable[Any]) -> bool:
        """True if the verb was answered; a Host that dies meanwhile does not answer."""
        try:
            await verb
        except IllegalTransition:
            return True
        except (StoreError, HostClosed):
            return False
        return True

    async def person(self, host: Host) -> None:
        """Decides about all that a host tells of, through any host."""
        while True:
            request = await self.seats[host].next()
            await self.turns(6)
            while not await self.decided(request):
                await asyncio.sleep(0)

    async def decided(self, request: Request) -> bool:
        through = self.chance.choice(self.alive())
        if request.kind == "question":
            return await self.told(through.answer(request.task_id, "this", by="ann"))
        verb = through.approve if self.chance.random() < 0.8 else through.deny
        return await self.told(verb(request.task_id, request.digest, by="ann"))

    async def caller(self) -> None:
        for _ in range(self.chance.randrange(6)):
            await self.turns(30)
            host = self.chance.choice(self.hosts)
            verbs = ["pause", "resume", "resume"]
            verb = "kill" if self.chance.random() < 0.05 else self.chance.choice(verbs)
            await self.told(getattr(host, verb)(self.root.id))

    async def deaths(self) -> None:
        for host in self.hosts[:-1][: self.chance.randrange(3)]:
            await self.turns(200)
            await self.crash(host)

    async def over(self) -> None:
        """Wait until every Task has ended; who paused one lets it go on."""
        last = self.hosts[-1]
        while True:
            records = await MemoryStore.find(self.store, limit=1000)
            if all(record.task.status.terminal for record in records):
                return
            for record in records:
                paused = record.task.status is TaskStatus.PAUSED and record.due_at is None
                if paused and asked(record.task) is None:
                    with suppress(StoreError, IllegalTransition):
                        await last.resume(record.task.id, at_version=record.version)
            await asyncio.sleep(0.002)

    def left(self, host: Host) -> list[Any]:
        """The things that a Host still holds."""
        runs = host._live
        held = [runs.live, runs.current, runs._arriving, runs.slots._taken, host._news._waiting]
        return [each for each in [*held, self.seats[host].open] if each]

    async def run(self) -> None:
        async with self.open():
            await self.hosts[0].dispatch(self.root)
            callers = (self.caller() for _ in range(self.chance.randrange(3)))
            await asyncio.gather(*callers, self.deaths())
            await self.over()
            for host in self.alive():
                while self.left(host):
                    await asyncio.sleep(0.002)
        async with Host(store=self.store) as control:
            for record in await MemoryStore.find(self.store, limit=1000):
                self.judge(record.task.status, await history(control.store, record.task.id))

    def judge(self, status: TaskStatus, events: list[Event]) -> None:
        assert set(self.runs.values()) <= {1}, "a run began twice"
        assert set(self.begun.values()) <= {1}, "an effect was begun twice"
        kinds = Counter(event.type for event in events)
        assert kinds["task.completed"] + kinds["task.killed"] == 1, kinds
        assert kinds["task.completed"] <= kinds["run.stopped"] <= 1
        told = replay(events)
        assert (told.status, told.steps) == (status.value, kinds["step.observed"])


def unjoined(context: Context) -> Iterator[str]:
    """The children that were neither joined nor cancelled."""
    turns = [turn for turn in context.transcript if isinstance(turn, Turn)]
    done = [
        (a, o) for turn in turns for a, o in zip(turn.plan.actions, turn.observations, strict=True)
    ]
    ended = {a.child for a, _ in done if isinstance(a, Delegate) and a.verb != "spawn"}
    for action, observation in done:
        if isinstance(action, Delegate) and action.verb == "spawn" and not observation.error:
            child = observation.output["child"]
            if child not in ended:
                yield child


@pytest.mark.rule("R13")
async def test_random_families_end_and_do_nothing_twice(crash: Crash) -> None:
    await play(range(60), lambda seed: Walk(seed, crash).run())


@pytest.mark.torture
@pytest.mark.rule("R13")
async def test_five_thousand_random_families_end_and_do_nothing_twice(crash: Crash) -> None:
    await play(range(10_000, 15_000), lambda seed: Walk(seed, crash).run())

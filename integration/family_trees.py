"""Random families under one budget, on real Hosts: whatever breaks, no cap is passed (R18).

    python -m integration.family_trees --trees 10000 --seed 1
    python -m integration.family_trees --trees 1 --seed 4711

Each tree is a Task with children of random depth and width, on one to three Hosts of one store, and
on a Host whose Tasks are called as a tool and may have another store. Meanwhile Hosts crash, Hosts
stall and go on as zombies after others have taken over, Tasks are killed and paused, and limits are
raised and cut. Checked are:

1. At every version of every record, ``spent + reserved + used by settled children + open grants``
   is within the Task's limits, or has not grown since the version before (a cut binds what is
   reserved later).
2. At every version, the cap of a child that has not ended is within the grant that its parent, or
   the Task that adopted it, holds open for it.
3. What the planners and tools of the whole tree really used is never more than the highest limits
   that the root has had, counted where it is used, zombies included.
4. When all Tasks have ended, nothing is left reserved: each grant that an ended Task left open is
   of a child that has ended too, or was never stored. So the accounts add up to one sum, and that
   sum is not less than what was really used. If nothing was killed, crashed or stalled, it is equal
   to what was really used: all that was not used has come back.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import msgspec

from agentic_kernel import KernelError, Task, TaskNotFound, TaskStatus
from agentic_kernel_engine import (
    Cursor,
    Host,
    HostClosed,
    Limits,
    Loop,
    MemoryStore,
    Record,
    StoreError,
    StoreTraits,
    UnknownOutcome,
    Unreadable,
)
from agentic_kernel_engine.loop import (
    Context,
    Delegate,
    FinalAnswer,
    Plan,
    PlannerError,
    Thought,
    ToolCall,
    Turn,
    Usage,
)
from agentic_kernel_engine.plans.accounts import USED, Account, Grant, account_of
from agentic_kernel_engine.plans.budget import (
    NAMES,
    NONE_USED,
    UNLIMITED,
    Amounts,
    granted_to,
    plus,
    shared,
    within,
    worst_case,
)
from agentic_kernel_engine.seams import Forecast, Planner, Tool, tool
from agentic_kernel_engine.terms import decoded

T = TypeVar("T")
PATIENCE: Final = 60.0
"""Seconds that one tree may take."""
AT_ONCE: Final = 12
"""Trees that are played side by side."""
ROUNDING: Final = 1e-6
DEEP: Final = "engine/depth"
OWN: Final = Limits(max_non_progress=1_000, max_repeats=1_000, max_depth=6)
"""The limits of the Loops: the shared ones are set when the root is dispatched."""


class Broken(AssertionError):
    """A rule does not hold."""


class Line:
    """One Host's line to a store: it jitters, it can be cut, and it can be stalled for a while."""

    def __init__(self, store: Watched, chance: random.Random) -> None:
        self.store = store
        self.cut = False
        self.open = asyncio.Event()
        self.open.set()
        self.ambush: Callable[[str], Coroutine[Any, Any, None]] | None = None
        """Stalls the line before the next child is stored; gets the id of the child's parent."""
        self._chance = chance
        self.traits = StoreTraits()

    async def _through(self, call: Callable[[], Coroutine[Any, Any, T]], *, write: bool) -> T:
        for _ in range(self._chance.randrange(3)):
            await asyncio.sleep(0)
        await self.open.wait()
        if self.cut:
            raise StoreError("the line is cut")
        done = await call()
        if self._chance.random() < 0.3:
            await asyncio.sleep(0)
            await self.open.wait()
        if write and (self.cut or self._chance.random() < 0.01):
            raise UnknownOutcome("no answer")
        if self.cut:
            raise StoreError("the line is cut")
        return done

    async def join(self, host: str) -> None:
        await self._through(lambda: self.store.join(host), write=False)

    async def leave(self, host: str) -> None:
        await self._through(lambda: self.store.leave(host), write=False)

    async def alive(self, owner: str) -> bool:
        return await self._through(lambda: self.store.alive(owner), write=False)

    async def insert(self, record: Record, events: Sequence[bytes] = ()) -> None:
        if self.ambush is not None and record.parent is not None:
            ambush, self.ambush = self.ambush, None
            self.open.clear()
            self.ambushes = asyncio.create_task(ambush(record.parent))
        await self._through(lambda: self.store.insert(record, events), write=True)

    async def load(self, task_id: str) -> Record:
        if self.cut:  # A Host reads again and again after any other error.
            raise Unreadable(task_id, 0, why="the line is cut")
        return await self._through(lambda: self.store.load(task_id), write=False)

    async def load_many(self, task_ids: Collection[str]) -> Mapping[str, Record]:
        return await self._through(lambda: self.store.load_many(task_ids), write=False)

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        await self._through(lambda: self.store.commit(before, after, events), write=True)

    async def claim(self, task_id: str, host: str, events: Sequence[bytes] = ()) -> Record | None:
        return await self._through(lambda: self.store.claim(task_id, host, events), write=True)

    async def events(
        self, task_id: str, after: Cursor | None = None, limit: int = 1000
    ) -> Sequence[tuple[Cursor, bytes]]:
        return await self._through(lambda: self.store.events(task_id, after, limit), write=False)

    async def changed(self, versions: Mapping[str, int]) -> Mapping[str, int]:
        return await self._through(lambda: self.store.changed(versions), write=False)

    async def find(self, **options: Any) -> Sequence[Record]:
        return await self._through(lambda: self.store.find(**options), write=False)

    async def unreadable(self, after: str | None = None, limit: int = 100) -> Sequence[Unreadable]:
        return await self._through(lambda: self.store.unreadable(after, limit), write=False)

    async def bury(self, *given: Any, **more: Any) -> Record:
        raise AssertionError("no record is unreadable")

    async def prune(self, ended_before: datetime, limit: int = 1000) -> int:
        raise AssertionError("nothing is pruned")


class Watched(MemoryStore):
    """A MemoryStore that shows every version of every record to the tree."""

    def __init__(self, tree: Tree) -> None:
        super().__init__()
        self._tree = tree

    async def insert(self, record: Record, events: Sequence[bytes] = ()) -> None:
        await super().insert(record, events)
        self._tree.saw(record)

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        await super().commit(before, after, events)
        self._tree.saw(after)

    async def claim(self, task_id: str, host: str, events: Sequence[bytes] = ()) -> Record | None:
        claimed = await super().claim(task_id, host, events)
        if claimed is not None:
            self._tree.saw(claimed)
        return claimed


class Chance(Planner, Forecast):
    """A planner that does anything; what it uses is random, up to its forecast."""

    def __init__(self, tree: Tree, expert: str | None) -> None:
        self._tree = tree
        self._expert = expert

    def worst_case(self, context: Context) -> Usage:
        draw = random.Random(f"{self._tree.seed}/{context.task.id}/{context.step}")
        return Usage(draw.randint(1, 20), draw.randint(1, 10), cost=draw.random() / 10)

    async def plan(self, context: Context) -> Any:
        tree, worst = self._tree, self.worst_case(context)
        tree.calls += 1
        draw = random.Random(f"{tree.seed}/{context.task.id}/{context.step}/{tree.calls}")
        part = draw.choice([0.0, 1.0, draw.random()])
        usage = Usage(
            int(worst.input_tokens * part), int(worst.output_tokens * part), cost=worst.cost * part
        )
        tree.used(Amounts(0, 0, *msgspec.structs.astuple(worst_case(usage))[2:]))
        for _ in range(draw.randrange(6)):
            await asyncio.sleep(0)
        if draw.random() < 0.01:
            raise PlannerError("acme/down", "on purpose")
        tree.used(Amounts(iterations=1))
        return Plan(tuple(self._actions(context, draw)), usage=usage)

    def _actions(self, context: Context, draw: random.Random) -> list[Any]:
        level, open_ = context.task.metadata.get(DEEP, 0), unjoined(context)
        if context.step >= draw.randrange(3, 9):
            if open_ and draw.random() < 0.7:
                return [Delegate("join", child=open_[0])]
            return [FinalAnswer("done")]
        width, deeper = draw.randint(1, 3), level < self._tree.depth
        match draw.randrange(8):
            case 0 | 1 | 2 if deeper:
                return [Delegate("spawn", instructions="part")] * width
            case 3 if deeper and self._expert:
                text = f"part of {context.step}"
                return [ToolCall(self._expert, {"instructions": text})] * width
            case 4 | 5 if open_:
                verb: Any = draw.choice(["join", "join", "join", "cancel"])
                return [Delegate(verb, child=draw.choice(open_))]
            case 6:
                return [ToolCall("write", {"text": str(n)}) for n in range(width)]
        return [Thought("hm")]


def unjoined(context: Context) -> list[str]:
    """The children that were spawned, and neither joined nor cancelled."""
    open_: dict[str, None] = {}
    for turn in context.transcript:
        if isinstance(turn, Turn):
            for action, observation in zip(turn.plan.actions, turn.observations, strict=True):
                if isinstance(action, Delegate) and not observation.error:
                    if action.verb == "spawn":
                        open_[observation.output["child"]] = None
                    else:
                        open_.pop(action.child, None)
    return list(open_)


class Tree:
    """One tree: its Hosts, what happens to them, and what is checked at every version.

    Args:
        seed: Decides about everything but the order in which the event loop does things.
        calm: True if nothing is killed, crashed or stalled.
    """

    def __init__(self, seed: int, *, calm: bool | None = None) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.calm = self.chance.random() < 0.2 if calm is None else calm
        self.depth = self.chance.randint(1, 3)
        self.calls = 0
        self.counts: Counter[str] = Counter()
        self.real = NONE_USED
        self.store = Watched(self)
        self.other = Watched(self) if self.chance.random() < 0.5 else self.store
        self.root = Task.new(summary="", instructions="do", runtime_kind="loop", id=f"root-{seed}")
        self.limits = self._limits()
        self.highest = self.limits
        """The highest limits that the root has had."""
        self.accounts: dict[str, Account] = {}
        self.records: dict[str, Record] = {}
        self.entries: dict[str, tuple[str, Grant]] = {}
        """By child: the Task that holds its grant open, and the grant."""
        self.granted: set[str] = set()
        self.broken: Broken | None = None
        self._ids = 0
        self._began = time.monotonic()

    def _limits(self) -> dict[str, Any]:
        chance = self.chance
        given = {
            "max_iterations": chance.randint(5, 80),
            "max_tool_calls": chance.randint(3, 40),
            "max_input_tokens": chance.randint(50, 1_000),
            "max_output_tokens": chance.randint(30, 500),
            "max_total_tokens": chance.randint(80, 1_500),
            "max_cost": chance.uniform(0.3, 5.0),
        }
        names = chance.sample(sorted(given), chance.randint(1, len(given)))
        return {name: given[name] for name in names}

    # What is seen

    def used(self, amounts: Amounts) -> None:
        """Count what was really used, where it was used."""
        self.real = plus(self.real, amounts)
        self._check(self.real, self._cap(self.highest), "really used, of the root's limits")

    def saw(self, record: Record) -> None:
        """Check one version of one record."""
        task_id = record.task.id
        self.counts["versions"] += 1
        account, earlier = account_of(record), self.accounts.get(task_id)
        before = NONE_USED
        if earlier is not None:
            before = plus(earlier.total, Amounts(tool_calls=earlier.begun))
        cap = self.cap_of(record)
        if not account.ended:
            self._check(account.total, cap, f"of {task_id} at version {record.version}", before)
        self.records[task_id], self.accounts[task_id] = record, account
        for child, grant in account.grants.items():
            self.entries[child] = task_id, grant
            self.granted.add(child)
            self._within(child)
        for child, (holder, _) in list(self.entries.items()):
            if holder == task_id and child not in account.grants:
                del self.entries[child]
        self._within(task_id)

    def cap_of(self, record: Record) -> Amounts:
        """The shared limits of a Task at this version."""
        terms = decoded(record.terms)
        limits = OWN.changed(terms.limits) if terms.limits else OWN
        state = {} if record.state is None else msgspec.json.decode(record.state)
        if state.get("limits"):
            limits = limits.changed(state["limits"])
        granted, _ = granted_to(terms.grant)
        told = state.get("shares", {}).get("granted")
        if told is not None:
            granted = msgspec.convert(told, Amounts)
            granted = None if granted == UNLIMITED else granted
        return shared(limits if granted is None else within(limits, granted), granted)

    def _within(self, child: str) -> None:
        """Check that a child's cap is within its grant, as long as it can spend."""
        if child in self.entries and child in self.records:
            record, (holder, grant) = self.records[child], self.entries[child]
            if not record.task.status.terminal:
                self._check(self.cap_of(record), grant.amounts, f"of {child}, granted by {holder}")

    def _cap(self, limits: Mapping[str, Any]) -> Amounts:
        return Amounts(**{name.removeprefix("max_"): value for name, value in limits.items()})

    def _check(self, total: Amounts, cap: Amounts, what: str, before: Amounts = NONE_USED) -> None:
        for name in NAMES:
            most, now = getattr(cap, name), getattr(total, name)
            if most is None:
                continue
            if now is None or (now > most + ROUNDING and now > getattr(before, name) + ROUNDING):
                self.broken = self.broken or Broken(f"{name}: {now} > {most} {what}")

    # What happens

    def new_id(self) -> str:
        self._ids += 1
        return f"{self.root.id}-{self._ids}"

    def clock(self) -> datetime:
        """A clock that runs fast, so that nobody waits long before a run is tried again."""
        return datetime.now(UTC) + timedelta(seconds=200 * (time.monotonic() - self._began))

    def tools(self) -> list[Tool]:
        @tool(effect="write")
        async def write(text: str) -> str:
            """Write a text."""
            self.used(Amounts(tool_calls=1))
            await asyncio.sleep(0)
            return "written"

        return [write]

    def host(self, store: Watched, kind: str, agents: Sequence[Tool] = ()) -> Host:
        """A Host that takes over what others leave."""
        planner = Chance(self, agents[0].name if agents else None)
        loop = Loop(planner, [*self.tools(), *agents], limits=OWN, ids=self.new_id)
        return Host(
            loop, Line(store, self.chance), runtime_kinds=[kind], interval=0.01, grace=0,
            unwind_timeout=0.5, max_attempts=None, clock=self.clock,
        )  # fmt: skip

    @asynccontextmanager
    async def hosts(self) -> AsyncIterator[tuple[Host, list[Host]]]:
        """The Host of the agent that is a tool, and those of the root's kind."""
        async with AsyncExitStack() as stack:
            expert = self.host(self.other, "expert")
            await stack.enter_async_context(suppressed(expert))
            agents = [expert.as_tool(name="expert", description="")]
            main = [self.host(self.store, "loop", agents) for _ in range(self.chance.randint(2, 4))]
            for host in main:
                await stack.enter_async_context(suppressed(host))
            yield expert, main

    async def turns(self, most: int) -> None:
        for _ in range(self.chance.randrange(most)):
            await asyncio.sleep(0)

    async def crash(self, host: Host) -> None:
        """End a Host as a power cut would."""
        line: Any = host.store
        line.cut = True
        self.counts["crashes"] += 1
        await line.store.leave(host.name)
        with suppress(KernelError):
            await host.drain(timeout=0)

    async def stall(self, host: Host) -> None:
        """Others take over from a Host, which then goes on as a zombie; its line may be cut."""
        line: Any = host.store
        line.open.clear()
        self.counts["zombies"] += 1
        await line.store.leave(host.name)
        await asyncio.sleep(self.chance.random() / 50)
        line.cut = self.chance.random() < 0.3
        line.open.set()

    def ambush(self, host: Host, control: Host) -> None:
        """Stall a Host between a grant and the insert of the child, and end the parent meanwhile.

        The insert lands later, when the family has settled the parent: it is a zombie's.
        """
        line: Any = host.store

        async def wait(parent: str) -> None:
            self.counts["zombie inserts"] += 1
            await line.store.leave(host.name)
            if self.chance.random() < 0.7:
                with suppress(KernelError):
                    await control.kill(parent)
            await asyncio.sleep(self.chance.random() / 10)
            line.open.set()

        line.ambush = wait

    async def retune(self, control: Host) -> None:
        """Raise or cut limits, of the root most often."""
        name = self.chance.choice(sorted(self.limits))
        factor = self.chance.choice([0.3, 0.7, 1.5, 2.5])
        value: Any = self.limits[name] * factor
        value = value if name == "max_cost" else max(int(value), 1)
        target = self.root.id
        if self.chance.random() < 0.2:
            target = self.chance.choice(sorted(self.records) or [target])
        if target == self.root.id:
            self.limits = {**self.limits, name: value}
            self.highest = {**self.highest, name: max(self.highest[name], value)}
        self.counts["raises" if factor > 1 else "cuts"] += 1
        with suppress(KernelError):
            await control.retune(target, {name: value})

    async def chaos(self, expert: Host, main: list[Host]) -> None:
        """What happens while the tree works."""
        mortal, controls = main[1:], [Host(store=self.store, grace=0), Host(store=self.other)]
        async with controls[0], controls[1]:
            for _ in range(self.chance.randrange(8)):
                await self.turns(60)
                control = self.chance.choice(controls)
                what = self.chance.random()
                with suppress(KernelError, asyncio.TimeoutError):
                    if what < 0.5:
                        await self.retune(controls[0])
                    elif what < 0.6:
                        task = self.chance.choice(sorted(self.records) or [self.root.id])
                        await control.pause(task)
                        await self.turns(20)
                        await control.resume(task)
                    elif self.calm:
                        continue
                    elif what < 0.75:
                        task = self.chance.choice(sorted(self.records) or [self.root.id])
                        if task != self.root.id or self.chance.random() < 0.2:
                            self.counts["kills"] += 1
                            await control.kill(task)
                    elif mortal:
                        victim = mortal.pop()
                        if what < 0.83:
                            await self.crash(victim)
                        elif what < 0.9:
                            await self.stall(victim)
                        else:
                            self.ambush(victim, controls[0])

    async def over(self, hosts: Sequence[Host]) -> None:
        """Wait until every Task has ended; let paused ones go on."""
        controls = [Host(store=store, grace=0) for store in {self.store, self.other}]
        async with AsyncExitStack() as stack:
            for control in controls:
                await stack.enter_async_context(control)
            while not await self.quiet(hosts):
                if self.broken is not None:
                    raise self.broken
                for control in controls:
                    for task in await control.find(TaskStatus.PAUSED):
                        with suppress(KernelError):
                            await control.resume(task.id)
                await asyncio.sleep(0.002)

    async def quiet(self, hosts: Sequence[Host]) -> bool:
        """True if all Tasks have ended, and no stalled Host can still store one."""
        for _ in range(2):
            lines: list[Any] = [host.store for host in hosts]
            ended = all(each.task.status.terminal for each in self.records.values())
            if not ended or not all(line.open.is_set() for line in lines):
                return False
            await asyncio.sleep(0.005)
        return True

    async def grow(self) -> Counter[str]:
        """Play the tree, and check it.

        Raises:
            Broken: A rule did not hold.
        """
        async with asyncio.timeout(PATIENCE), self.hosts() as (expert, main):
            await main[-1].dispatch(self.root, limits=self.limits)
            await self.chaos(expert, main)
            await self.over([expert, *main])
        self.judge()
        self.counts["trees"] += 1
        self.counts["tasks"] += len(self.records)
        self.counts["deepest"] = max(
            int(record.task.metadata.get(DEEP, 0)) for record in self.records.values()
        )
        return self.counts

    def judge(self) -> None:
        """Check what is left when all Tasks have ended."""
        if self.broken is not None:
            raise self.broken
        most = self._cap(self.highest)
        booked = self.booked(self.root.id, most)
        self._check(booked, most, "booked at the end, of the root's limits")
        known = [name for name in NAMES if getattr(most, name) is not None]
        limited = Amounts(**{name: getattr(booked, name) for name in known})
        self._check(self.real, limited, "really used, of what is booked")
        if self.forgot_nothing():
            self.counts["all came back"] += 1
            for name in known:
                missing = getattr(booked, name) - getattr(self.real, name)
                if name != "tool_calls" and missing > ROUNDING:
                    self.broken = self.broken or Broken(f"{name}: {missing} has not come back")
        if self.broken is not None:
            raise self.broken

    def forgot_nothing(self) -> bool:
        """True if every run said at its end what it used, and no reservation counts as used.

        A child that was granted and never stored may count with its whole grant, and so may one in
        another store whose parent left it open.
        """
        if not self.calm or self.calls != self.real.iterations or self.granted - set(self.records):
            return False
        if self.other is not self.store:
            return False
        return all(USED in record.task.noted for record in self.records.values())

    def booked(self, task_id: str, cap: Amounts) -> Amounts:
        """What a Task and its family have used, by their accounts; all of them have ended.

        Args:
            cap: Its grant, or the root's limits.
        """
        account = self.accounts[task_id]
        total = plus(account.spent, account.begun_within(cap.tool_calls))
        for child, grant in account.grants.items():
            if child not in self.records:
                continue  # It was never stored: the spawner ended before.
            if not self.records[child].task.status.terminal:
                raise Broken(f"{child} has not ended and holds {grant.amounts}")
            total = plus(total, self.booked(child, grant.amounts))
        return total


@asynccontextmanager
async def suppressed(host: Host) -> AsyncIterator[Host]:
    """Open a Host; one that crashed cannot leave its store."""
    await host.__aenter__()
    try:
        yield host
    finally:
        with suppress(StoreError, HostClosed, TaskNotFound):
            await host.close()


async def play(
    seeds: Sequence[int], tell: Callable[[int, BaseException], None] | None = None
) -> Counter[str]:
    """Play these trees, several side by side; return the counts of all.

    Args:
        tell: Called with the seed and the exception of a broken tree; None to raise the exception.
    """
    counts: Counter[str] = Counter()
    waiting = iter(seeds)

    async def player() -> None:
        for seed in waiting:
            try:
                found = await Tree(seed).grow()
            except (Broken, TimeoutError) as broken:
                counts["broken"] += 1
                if tell is None:
                    broken.add_note(f"seed {seed}")
                    raise
                tell(seed, broken)
            else:
                deepest = max(counts["deepest"], found.pop("deepest"))
                counts.update(found)
                counts["deepest"] = deepest

    log = logging.getLogger("agentic_kernel_engine")
    level = log.level
    log.setLevel(logging.CRITICAL)  # Hosts say that their lines are cut.
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(player())
    finally:
        log.setLevel(level)
    return counts


def main() -> int:
    """Play as many trees as the command line asks for; return 1 if a rule did not hold."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--trees", type=int, default=200, help="how many trees (200)")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first one (0)")
    asked = parser.parse_args()
    began = time.perf_counter()

    def tell(seed: int, broken: BaseException) -> None:
        print(f"seed {seed}: {type(broken).__name__} {broken}", flush=True)

    counts = asyncio.run(play(range(asked.seed, asked.seed + asked.trees), tell))
    seconds = time.perf_counter() - began
    said = ", ".join(f"{name} {number:,}" for name, number in sorted(counts.items()))
    print(f"{said}; {seconds:.1f} s, {counts['trees'] / seconds:.1f} trees a second")
    return int(counts["broken"] > 0)


if __name__ == "__main__":
    sys.exit(main())

"""One budget for a family (R18): children use a part of what their parent has left."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from agentic_kernel import CannotStart, InvalidValue, Task, TaskStatus
from agentic_kernel_engine import Host, Job, Limits, Loop, MemoryStore, Record, StoreError
from agentic_kernel_engine.plans.accounts import MOST_OPEN
from agentic_kernel_engine.plans.action import Action, Delegate, FinalAnswer, Thought, ToolCall
from agentic_kernel_engine.plans.ending import End
from agentic_kernel_engine.plans.plan import Plan, Usage
from agentic_kernel_engine.plans.reasons import StopReason
from agentic_kernel_engine.seams.child_tasks import ChildTasks
from agentic_kernel_engine.seams.delegation import Delegation, DelegationRefused
from agentic_kernel_engine.seams.on_runtime import OnRuntime
from agentic_kernel_engine.seams.planner import Context, Forecast, Planner
from agentic_kernel_engine.tools.call import Invocation
from agentic_kernel_engine.tools.tool import tool

from ..conftest import Acting, Crash, TappedStore, Until
from ..crashing import Line
from ..delegating import as_tool, join, last, spawn
from ..scripting import new_task

pytestmark = pytest.mark.rule("R18")
ONE = Usage(cost=1.0)


class Costly(Planner, Forecast):
    """Every answer costs 1.0; all that was spent is counted, whichever Task spent it.

    Args:
        plan: Returns the actions for a context, by the number of the step.
    """

    def __init__(self, plan: Any) -> None:
        self._plan = plan
        self.spent: list[str] = []
        self.held: dict[str, asyncio.Event] = {}
        """Answers of these Tasks wait."""
        self.asked = asyncio.Event()

    def worst_case(self, context: Context) -> Usage:
        return ONE

    async def plan(self, context: Context) -> Any:
        self.spent.append(context.task.id)
        said = context.task.instructions
        if said in self.held:
            self.asked.set()
            await self.held[said].wait()
        actions = self._plan(context)
        return Plan(tuple(actions) if isinstance(actions, list) else (actions,), usage=ONE)


def host(planner: Costly, store: Any, limits: Limits, *tools: Any, **options: Any) -> Host:
    loop = Loop(planner, tools, limits=limits, delegation=options.pop("delegation", None))
    kinds = options.pop("kinds", ["loop"])
    return Host(loop, store, runtime_kinds=kinds, interval=0.01, grace=0, **options)


async def state(store: MemoryStore, task_id: str) -> dict[str, Any]:
    found = (await store.load(task_id)).state
    assert found is not None
    decoded: dict[str, Any] = json.loads(found)
    return decoded


async def shares(store: MemoryStore, task_id: str) -> dict[str, Any]:
    found: dict[str, Any] = (await state(store, task_id))["shares"]
    return found


def generous(**given: Any) -> Limits:
    return Limits(**{"max_non_progress": 1000, "max_repeats": 1000, "max_depth": 9, **given})


def child(context: Context) -> bool:
    return bool(context.task.metadata.get("engine/depth", 0))


def endless(context: Context) -> Action:
    return Thought(f"{context.step}")


def once(context: Context) -> Any:
    """A parent that spawns one child and joins it; the child thinks once and answers."""
    if child(context):
        return FinalAnswer("part") if context.step else Thought("hm")
    match context.step:
        case 0:
            return spawn("part")
        case 1:
            return join(context)
    return FinalAnswer(last(context)[0].output)


# The findings


async def test_an_agent_as_a_tool_spends_from_its_callers_budget() -> None:
    store = MemoryStore()
    below, above = Costly(endless), Costly(lambda _: ToolCall("expert", {"instructions": "do"}))
    expert = host(below, store, generous(), kinds=["expert"])
    async with expert, host(above, store, generous(max_cost=2.0), as_tool(expert)) as parent:
        task = await parent.run(new_task())
    assert task.failure is not None
    assert task.failure.code == "engine/max_cost"
    assert len(below.spent) + len(above.spent) <= 2


async def test_children_of_the_loop_spend_from_their_parents_budget() -> None:
    def plan(context: Context) -> Any:
        return endless(context) if child(context) else once(context)

    planner, store = Costly(plan), MemoryStore()
    async with host(planner, store, generous(max_cost=7.0)) as parent:
        task = await parent.run(new_task())
        events = (await parent.outcome(task.id)).events
    assert task.status == "success", task.failure
    assert 4 < len(planner.spent) <= 7
    (ended,) = [event for event in events if event.type == "child.ended"]
    assert ended.data["used"]["cost"] == len(planner.spent) - 3
    (spawned,) = [event for event in events if event.type == "child.spawned"]
    assert spawned.data["grant"] == {"cost": 2.5}, "half of what the next call leaves of 6.0"


# Shares


async def test_what_a_child_does_not_use_comes_back() -> None:
    def plan(context: Context) -> Any:
        if child(context):
            return FinalAnswer("part")
        if context.step == 8:
            return FinalAnswer("done")
        return ToolCall("nothing") if context.step % 2 else spawn("part")

    class Joining(Costly):
        async def plan(self, context: Context) -> Any:
            made = await super().plan(context)
            if not child(context) and context.step % 2:
                made = Plan((Delegate("join", child=last(context)[0].output["child"]),), usage=ONE)
            return made

    planner, store = Joining(plan), MemoryStore()
    async with host(planner, store, generous(max_cost=14.0)) as parent:
        task = await parent.run(new_task())
    assert task.status == "success", task.failure
    assert len(planner.spent) == 9 + 4
    noted: Any = task.metadata["engine/used"]
    assert noted["spent"]["cost"] == 13.0
    assert "grants" not in noted


async def test_the_calls_of_a_batch_and_the_caller_get_equal_shares() -> None:
    def plan(context: Context) -> Any:
        if context.step:
            return FinalAnswer([each.output for each in last(context)])
        return [ToolCall("expert", {"instructions": f"part {n}"}) for n in range(3)]

    store, below = MemoryStore(), Costly(lambda _: FinalAnswer("part"))
    expert = host(below, store, generous(), kinds=["expert"])
    limits = generous(max_cost=10.0, max_iterations=42, max_tool_calls=11)
    async with expert, host(Costly(plan), store, limits, as_tool(expert)) as parent:
        task = await parent.run(new_task())
        events = (await parent.outcome(task.id)).events
    assert task.result == ["part"] * 3
    (prepared,) = [event for event in events if event.type == "effects.prepared"]
    grants = list(prepared.data["grants"].values())
    assert grants == [{"iterations": 10, "tool_calls": 2, "cost": 2.0}] * 3


async def test_spawns_of_one_answer_get_equal_shares_and_later_ones_still_something() -> None:
    def plan(context: Context) -> Any:
        if child(context):
            return FinalAnswer("part")
        if context.step < 2:
            return [spawn("part"), spawn("part")]
        return FinalAnswer("done")

    store, planner = MemoryStore(), Costly(plan)
    planner.held["part"] = asyncio.Event()
    async with host(planner, store, generous(max_cost=20.0)) as parent:
        task = await parent.run(new_task())
        events = (await parent.outcome(task.id)).events
        planner.held["part"].set()
    grants = [e.data["grant"]["cost"] for e in events if e.type == "child.spawned"]
    assert grants == [6.0, 6.0, pytest.approx(5 / 3), pytest.approx(5 / 3)]


async def test_neither_grant_nor_return_costs_a_commit(tapped: TappedStore) -> None:
    counts = []
    for limits in (generous(), generous(max_cost=9.0)):
        tapped.calls.clear()
        async with host(Costly(once), tapped, limits) as parent:
            assert (await parent.run(new_task())).status == "success"
        counts.append(tapped.count("commit"))
    assert counts[0] == counts[1]


async def test_a_family_without_shared_limits_stores_nothing_of_budgets() -> None:
    store = MemoryStore()
    async with host(Costly(once), store, generous(max_failures=3)) as parent:
        task = await parent.run(new_task())
    assert task.status == "success"
    for record in await store.find():
        assert record.terms is None
        assert "engine/used" not in record.task.metadata
        kept = await state(store, record.task.id)
        assert "shares" not in kept
        assert kept["version"] == 2


async def test_seconds_are_passed_down_as_the_lower_limit() -> None:
    ticks = iter(range(10_000))

    def plan(context: Context) -> Any:
        return endless(context) if child(context) else once(context)

    loop = Loop(Costly(plan), limits=generous(max_seconds=60), clock=lambda: float(next(ticks)))
    async with Host(loop, interval=0.01, grace=0) as parent:
        task = await parent.run(new_task())
        below = next(each for each in await parent.find() if each.id != task.id)
    assert below.failure is not None
    assert below.failure.code == "engine/timeout"
    (seconds,) = json.loads((await parent.store.load(below.id)).terms or b"").get("grant").values()
    assert 0 < seconds < 60


# Refusals


async def test_a_child_for_which_nothing_is_left_is_refused() -> None:
    def plan(context: Context) -> Any:
        return FinalAnswer(last(context)[0].message) if context.step else spawn("part")

    async with host(Costly(plan), MemoryStore(), generous(max_cost=2.0)) as parent:
        task = await parent.run(new_task())
        tasks = await parent.find()
    assert "nothing of max_cost 2 is left for a child" in str(task.result)
    assert "raise max_cost" in str(task.result)
    assert len(tasks) == 1


async def test_a_task_has_at_most_so_many_open_children() -> None:
    def plan(context: Context) -> Any:
        if child(context):
            return FinalAnswer("part")
        if context.step:
            return FinalAnswer([each.message for each in last(context) if each.error])
        return [spawn("part")] * (MOST_OPEN + 2)

    planner, store = Costly(plan), MemoryStore()
    planner.held["part"] = asyncio.Event()
    async with host(planner, store, generous(max_cost=1000.0)) as parent:
        task = await parent.run(new_task())
        tasks = await parent.find(limit=200)
        planner.held["part"].set()
    assert len(tasks) == MOST_OPEN + 1
    refused: Any = task.result
    assert len(refused) == 2
    assert f"{MOST_OPEN} children have open grants, and {MOST_OPEN} may have" in refused[0]


async def test_a_runtime_that_cannot_meter_is_refused_unless_it_is_declared(
    acting: type[Acting],
) -> None:
    async def work(job: Job) -> Any:
        return "worked"

    def plan(context: Context) -> Any:
        if context.step:
            return FinalAnswer([last(context)[0].output, last(context)[0].message])
        return ToolCall("expert", {"instructions": "do"})

    outcomes = []
    for unmetered in (False, True):
        async with Host(acting(work), runtime_kinds=["expert"]) as expert:
            agent = as_tool(expert, unmetered=unmetered)
            async with host(Costly(plan), MemoryStore(), generous(max_cost=5.0), agent) as parent:
                outcomes.append((await parent.run(new_task())).result)
    (refused, accepted) = outcomes
    assert refused[0] is None
    assert "max_cost" in refused[1]
    assert "unmetered=True" in refused[1]
    assert accepted == ["worked", ""]


async def test_a_delegation_that_does_not_say_that_it_meters_is_refused() -> None:
    class Plain(Delegation):
        """A Delegation as earlier versions knew them."""

        inner = ChildTasks()

        def admit(self, parent: Task, child: Task) -> Task:
            return child

        async def spawn(self, job: Job, child: Task) -> None:
            await self.inner.spawn(job, child)

        async def join(self, job: Job, child: str) -> Task:
            return await self.inner.join(job, child)

        async def tell(self, job: Job, child: str, decisions: Sequence[Any]) -> None: ...
        async def cancel(self, job: Job, child: str) -> None: ...

    def plan(context: Context) -> Any:
        return FinalAnswer(last(context)[0].message) if context.step else spawn("part")

    limits = generous(max_cost=9.0)
    async with host(Costly(plan), MemoryStore(), limits, delegation=Plain()) as parent:
        task = await parent.run(new_task())
    assert "does not say what its Tasks use" in str(task.result)


async def test_metadata_and_callers_cannot_forge_what_was_used_or_granted() -> None:
    async with host(Costly(once), MemoryStore(), generous(max_cost=9.0)) as parent:
        forged = new_task(metadata={"engine/used": {"spent": {"cost": 0.0}}})
        with pytest.raises(CannotStart, match="engine/used"):
            await parent.dispatch(forged)
        task = (await parent.dispatch(new_task())).snapshot
        for verb in (parent.post, parent.decide):
            with pytest.raises(InvalidValue, match="engine/grant"):
                await verb(task.id, {"type": "engine/grant", "grant": {"cost": 99.0}, "seq": 7})
        await parent.wait(task.id)


async def test_verbs_check_a_grant() -> None:
    async with host(Costly(once), MemoryStore(), generous()) as parent:
        task = await parent.run(new_task())
        with pytest.raises(InvalidValue, match=r"bananas.*is not shared"):
            await parent.spawn(new_task(), task.id, grant={"bananas": 1})
        with pytest.raises(InvalidValue, match=r"grant\.cost"):
            await parent.spawn(new_task(), task.id, grant={"cost": -1})
        running = (await parent.dispatch(new_task())).snapshot
        with pytest.raises(InvalidValue, match="seq"):
            await parent.regrant(running.id, {"cost": 1.0}, 0)
        with pytest.raises(InvalidValue, match=r"grant\.iterations"):
            await parent.regrant(running.id, {"iterations": 1.5}, 1)


async def test_a_child_that_is_refused_gives_its_grant_back() -> None:
    class Refuses(ChildTasks):
        async def spawn(self, job: Job, child: Task) -> None:
            raise DelegationRefused("not today")

    def plan(context: Context) -> Action:
        return FinalAnswer(last(context)[0].message) if context.step else spawn("part")

    store = MemoryStore()
    async with host(Costly(plan), store, generous(max_cost=9.0), delegation=Refuses()) as parent:
        root = new_task()
        task = await parent.run(root)
    assert task.result == "not today"
    assert "grants" not in await shares(store, root.id)


# Ends


def held(context: Context) -> Any:
    """A parent that spawns a child, thinks once, and then cancels the child."""
    if child(context):
        return FinalAnswer("part")
    match context.step:
        case 0:
            return spawn("held")
        case 1:
            return Thought("hm")
        case 2:
            turn: Any = context.transcript[1]
            return Delegate("cancel", child=turn.observations[0].output["child"])
    return FinalAnswer("done")


async def test_a_cancelled_child_counts_with_its_reservation() -> None:
    planner, store = Costly(held), MemoryStore()
    planner.held["held"] = asyncio.Event()
    async with host(planner, store, generous(max_cost=20.0)) as parent:
        task = await parent.run(new_task())
    noted: Any = task.metadata["engine/used"]
    assert noted["spent"]["cost"] == 5.0, "4 calls of its own, and the one that was cut"
    assert noted["spent"]["iterations"] == 5


async def test_the_grants_that_a_child_leaves_open_are_adopted() -> None:
    def plan(context: Context) -> Any:
        depth = context.task.metadata.get("engine/depth", 0)
        if depth == 2:
            return FinalAnswer("leaf")
        if depth == 1:
            return FinalAnswer("left it") if context.step else spawn("leaf")
        return once(context)

    planner, store = Costly(plan), MemoryStore()
    planner.held["leaf"] = asyncio.Event()
    async with host(planner, store, generous(max_cost=20.0)) as parent:
        task = await parent.run(new_task())
        leaf = next(t for t in await parent.find() if t.metadata.get("engine/depth") == 2)
        planner.held["leaf"].set()
        await parent.wait(leaf.id)
    noted: Any = task.metadata["engine/used"]
    assert list(noted["grants"]) == [leaf.id]
    assert noted["grants"][leaf.id]["adopted"]
    assert noted["spent"]["cost"] == 5.0


async def test_a_child_that_was_pruned_counts_with_its_whole_grant() -> None:
    class Forgetting(MemoryStore):
        """Forgets the child when somebody asks for its account."""

        lost: str | None = None

        async def load(self, task_id: str) -> Record:
            if task_id == self.lost:
                raise StoreError("gone")
            return await super().load(task_id)

    planner, store = Costly(held), Forgetting()
    planner.held["held"] = asyncio.Event()

    class Losing(ChildTasks):
        async def cancel(self, job: Job, child: str) -> None:
            await super().cancel(job, child)
            store.lost = child

    async with host(planner, store, generous(max_cost=20.0), delegation=Losing()) as parent:
        task = await parent.run(new_task())
    noted: Any = task.metadata["engine/used"]
    ((_, grant),) = noted["grants"].items()
    assert grant["amounts"]["cost"] == 9.0, "a store that does not answer returns nothing"


async def test_before_a_limit_ends_the_run_the_ended_children_are_settled() -> None:
    def plan(context: Context) -> Any:
        if child(context):
            return FinalAnswer("part")
        return spawn("part") if context.step == 0 else endless(context)

    planner, store = Costly(plan), MemoryStore()
    async with host(planner, store, generous(max_cost=9.0)) as parent:
        task = await parent.run(new_task())
    assert task.failure is not None
    assert "max_cost 8: spent 8" in task.failure.message
    assert "children hold or used 1 of max_cost 9" in task.failure.message
    assert len(planner.spent) == 9


async def test_what_a_child_gives_back_while_its_parent_plans_serves_the_next_child() -> None:
    """Two answers as dear as the second one use up all that the first child leaves."""
    below: list[str] = []

    class Dear(Costly):
        def worst_case(self, context: Context) -> Usage:
            dear = context.step == 1 and not child(context)
            return Usage(cost=3.0) if dear else ONE

        async def plan(self, context: Context) -> Any:
            if child(context) or context.step != 1:
                return await super().plan(context)
            below.append(last(context)[0].output["child"])
            self.held["part"].set()
            await parent.wait(below[0])
            return Plan((spawn("part"),), usage=self.worst_case(context))

    def plan(context: Context) -> Any:
        if child(context):
            return FinalAnswer("part")
        return FinalAnswer(last(context)[0].message) if context.step else spawn("part")

    planner = Dear(plan)
    planner.held["part"] = asyncio.Event()
    async with host(planner, MemoryStore(), generous(max_cost=12.0)) as parent:
        task = await parent.run(new_task())
        tasks = await parent.find()
    assert task.result == "", "the second child is refused"
    assert len(tasks) == 3


# Crashes


async def test_between_grant_and_insert_the_same_child_gets_the_same_grant(
    crash: Crash, tapped: TappedStore
) -> None:
    planner = Costly(once)
    dead = host(planner, Line(tapped), generous(max_cost=9.0))

    async def dies() -> None:
        if await tapped.find(kinds=["loop"]):  # The root is stored: this is its child.
            tapped.before_insert = None
            await crash(dead)

    await dead.__aenter__()
    root = new_task()
    await dead.dispatch(root)
    tapped.before_insert = dies
    async with asyncio.timeout(10):
        while await tapped.alive(f"{dead.name}:1"):
            await asyncio.sleep(0.001)
    granted = (await shares(tapped, root.id))["grants"]
    assert len(await tapped.find()) == 1
    async with host(planner, tapped, generous(max_cost=9.0)) as heir:
        await heir.recover()
        task = await heir.wait(root.id)
    assert task.status == "success", task.failure
    (below,) = [record for record in await tapped.find() if record.task.id != root.id]
    assert below.task.id in granted
    assert json.loads(below.terms or b"")["grant"] == granted[below.task.id]["amounts"]


async def test_between_a_childs_end_and_the_settling_commit_it_is_settled_once(
    crash: Crash, tapped: TappedStore
) -> None:
    planner = Costly(once)
    dead = host(planner, Line(tapped), generous(max_cost=9.0))
    root = new_task()

    async def dies(after: Record) -> None:
        kept = {} if after.state is None else json.loads(after.state)
        if after.task.id == root.id and kept.get("shares", {}).get("used"):
            tapped.before_commit = None
            await crash(dead)

    tapped.before_commit = dies
    await dead.__aenter__()
    await dead.dispatch(root)
    async with asyncio.timeout(10):
        while await tapped.alive(f"{dead.name}:1"):
            await asyncio.sleep(0.001)
    assert (await shares(tapped, root.id))["grants"], "the settling commit did not land"
    async with host(planner, tapped, generous(max_cost=9.0)) as heir:
        await heir.recover()
        task = await heir.wait(root.id)
    assert task.status == "success", task.failure
    noted: Any = task.metadata["engine/used"]
    assert noted["spent"]["cost"] == len(planner.spent)
    assert "grants" not in noted


async def test_a_child_that_a_dead_spawner_granted_is_fenced() -> None:
    """Its grant comes back, so the zombie that is about to store it must not be able to."""
    store = MemoryStore()

    def plan(context: Context) -> Any:
        if context.task.metadata.get("engine/depth", 0):
            return spawn("never")
        return once(context) if context.step < 2 else endless(context)

    class Zombie(ChildTasks):
        """Its grandchildren are stored late: after their parent was ended and settled."""

        late: tuple[Job, Task] | None = None

        async def spawn(self, job: Job, child: Task) -> None:
            if child.metadata["engine/depth"] == 2:
                self.late = job, child
                await asyncio.Event().wait()
            await super().spawn(job, child)

    zombie = Zombie()
    planner = Costly(plan)
    async with host(planner, store, generous(max_cost=12.0), delegation=zombie) as parent:
        root = (await parent.dispatch(new_task())).snapshot
        while zombie.late is None:
            await asyncio.sleep(0.001)
        job, never = zombie.late
        await parent.kill(job.task.id)
        task = await parent.wait(root.id)
        fenced = await parent.get(never.id)
        assert fenced.status is TaskStatus.CANCELLED
        assert fenced.summary == "(never begun)"
        with pytest.raises(Exception, match="already stored"):
            await parent.dispatch(never)
    assert task.failure is not None
    assert task.failure.code == "engine/max_cost"
    assert len(planner.spent) == 12, "all of it came back"


async def test_a_run_that_was_let_go_reserves_its_next_call_anew(
    crash: Crash, tapped: TappedStore
) -> None:
    """R17: otherwise a crash in the call after a pause forgets what the call used."""
    planner, root = Costly(endless), new_task(instructions="go")
    dead = host(planner, Line(tapped), generous(max_cost=5.0))
    await dead.__aenter__()
    planner.held["go"] = asyncio.Event()
    await dead.dispatch(root)
    await planner.asked.wait()
    await dead.pause(root.id)
    planner.held["go"].set()
    await dead.wait(root.id, TaskStatus.PAUSED)
    planner.held["go"], planner.asked = asyncio.Event(), asyncio.Event()
    await dead.resume(root.id)
    await planner.asked.wait()  # The second call is under way.
    await crash(dead)
    planner.held.clear()
    async with host(planner, tapped, generous(max_cost=5.0)) as heir:
        await heir.recover()
        task = await heir.wait(root.id)
    assert task.failure is not None
    assert task.failure.code == "engine/max_cost"
    assert len(planner.spent) == 5


# Changes of limits


async def test_a_raise_reaches_a_child_that_its_parent_waits_for(until: Until) -> None:
    def plan(context: Context) -> Any:
        if child(context):
            return FinalAnswer("part") if context.step == 9 else endless(context)
        return once(context)

    planner, store = Costly(plan), MemoryStore()
    planner.held["part"] = asyncio.Event()
    async with host(planner, store, generous()) as parent:
        root = (await parent.dispatch(new_task(), limits={"max_cost": 8.0})).snapshot
        await planner.asked.wait()
        await until(lambda: planner.spent.count(root.id) == 2)
        await parent.retune(root.id, max_cost=40.0)
        below = next(task.id for task in await parent.find() if task.id != root.id)
        async with asyncio.timeout(5):
            while not (await store.load(below)).inbox:
                await asyncio.sleep(0.001)
        planner.held["part"].set()
        task = await parent.wait(root.id)
    assert task.result == {"child": below, "result": "part"}
    assert len(planner.spent) == 13


async def test_a_child_that_is_gone_keeps_no_other_from_hearing_of_its_new_grant() -> None:
    reached, go_on = asyncio.Event(), asyncio.Event()

    class Waiting(Costly):
        async def plan(self, context: Context) -> Any:
            if not child(context) and context.step == 1:
                reached.set()
                await go_on.wait()
            return await super().plan(context)

    def plan(context: Context) -> Any:
        if child(context):
            return FinalAnswer("part")
        return endless(context) if context.step else [spawn("part"), spawn("other")]

    planner, store = Waiting(plan), MemoryStore()
    planner.held = {"part": asyncio.Event(), "other": asyncio.Event()}
    async with host(planner, store, generous()) as parent:
        root = (await parent.dispatch(new_task(), limits={"max_cost": 90.0})).snapshot.id
        await reached.wait()
        gone, left = (await shares(store, root))["grants"]
        await parent.kill(gone)
        assert await store.prune(datetime.now(UTC) + timedelta(days=1)) == 1
        await parent.retune(root, max_cost=30.0)
        go_on.set()
        async with asyncio.timeout(5):
            while not (await store.load(left)).inbox:
                await asyncio.sleep(0.001)
        await parent.kill(root)


async def test_a_cut_reaches_a_child_and_its_grant_follows_the_childs_record(
    until: Until,
) -> None:
    def plan(context: Context) -> Any:
        return endless(context) if child(context) else once(context)

    planner, store = Costly(plan), MemoryStore()
    planner.held["part"] = asyncio.Event()
    async with host(planner, store, generous()) as parent:
        root = (await parent.dispatch(new_task(), limits={"max_cost": 40.0})).snapshot
        await planner.asked.wait()
        await until(lambda: planner.spent.count(root.id) == 2)
        await parent.retune(root.id, max_cost=10.0)
        below = next(task.id for task in await parent.find() if task.id != root.id)
        async with asyncio.timeout(5):
            while not (await store.load(below)).inbox:
                await asyncio.sleep(0.001)
        (grant,) = (await shares(store, root.id))["grants"].values()
        assert grant["amounts"]["cost"] == 19.0, "the cut is told before it is booked"
        assert grant["told"]["cost"] < 9.0
        planner.held["part"].set()
        task = await parent.wait(root.id)
    assert task.status == "success", task.failure
    assert len(planner.spent) <= 10


async def test_an_old_change_of_a_grant_does_nothing() -> None:
    planner, store = Costly(endless), MemoryStore()
    planner.held["do it"] = asyncio.Event()
    async with host(planner, store, generous()) as parent:
        above = (await parent.dispatch(new_task(instructions="x"))).snapshot
        below = new_task()
        await parent.spawn(below, above.id, grant={"cost": 50.0})
        await planner.asked.wait()
        await parent.regrant(below.id, {"cost": 4.0}, 2)
        await parent.regrant(below.id, {"cost": 30.0}, 1)
        planner.held["do it"].set()
        task = await parent.wait(below.id)
        await parent.kill(above.id)
        await parent.regrant(below.id, {"cost": 99.0}, 3)  # It has ended: nothing is done.
    assert task.failure is not None
    assert "max_cost 4: spent 4" in task.failure.message
    assert "the parent granted max_cost 4, so raise it there" in task.failure.message


# Elsewhere


async def test_an_agent_in_another_store_honours_its_grant_and_is_settled() -> None:
    below = Costly(endless)
    expert = host(below, MemoryStore(), generous(), kinds=["expert"])

    def plan(context: Context) -> Any:
        if context.step < 2:
            return ToolCall("expert", {"instructions": f"part {context.step}"})
        return FinalAnswer([each.output["code"] for each in last(context)])

    above, store = Costly(plan), MemoryStore()
    async with expert, host(above, store, generous(max_cost=12.0), as_tool(expert)) as parent:
        task = await parent.run(new_task())
    assert task.result == ["engine/max_cost"]
    assert len(above.spent) + len(below.spent) <= 12
    noted: Any = task.metadata["engine/used"]
    assert noted["spent"]["cost"] == len(above.spent) + len(below.spent)


async def test_a_delegation_to_another_runtime_shares_the_budget_too() -> None:
    below, store = Costly(lambda _: FinalAnswer("part")), MemoryStore()
    async with host(below, MemoryStore(), generous(), kinds=["expert"]) as expert:
        there = OnRuntime(expert, runtime_kind="expert")
        planner, limits = Costly(once), generous(max_cost=9.0)
        async with host(planner, store, limits, delegation=there) as parent:
            task = await parent.run(new_task())
        (record,) = await expert.store.find()
    assert task.status == "success", task.failure
    assert json.loads(record.terms or b"")["grant"] == {"cost": 3.5}
    noted: Any = task.metadata["engine/used"]
    assert noted["spent"]["cost"] == 4.0


async def test_calls_that_are_not_made_give_their_grants_back() -> None:
    def plan(context: Context) -> Any:
        return [ToolCall("expert", {"instructions": f"part {n}"}) for n in range(4)]

    store, below = MemoryStore(), Costly(lambda _: FinalAnswer("part"))
    expert = host(below, store, generous(), kinds=["expert"])
    limits = generous(max_cost=20.0, max_tool_calls=2)
    async with expert, host(Costly(plan), store, limits, as_tool(expert)) as parent:
        task = await parent.run(new_task())
    assert task.failure is not None
    assert task.failure.code == "engine/max_tool_calls"
    noted: Any = task.metadata["engine/used"]
    assert "grants" not in noted
    assert noted["spent"]["cost"] == 1.0 + len(below.spent) == 3.0


async def test_calls_that_time_or_middleware_leaves_out_give_their_grants_back() -> None:
    """No child is born of them, so the caller's account has no open grant and no use of theirs."""

    class Ends:
        """Middleware that ends the run before a call."""

        def __init__(self, calls: int) -> None:
            self.left = calls

        async def before_tool(self, call: Invocation) -> None:
            self.left -= 1
            if self.left < 0:
                raise End(StopReason.STOPPED, "no more")

    class Late(MemoryStore):
        """A store whose commits of prepared effects take long."""

        seconds = 0.0

        async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
            await super().commit(before, after, events)
            if any(b"effects.prepared" in each for each in events):
                self.seconds += 100

    def plan(context: Context) -> Any:
        return [ToolCall("expert", {"instructions": f"part {n}"}) for n in range(4)]

    for made, middleware in ((0, None), (0, Ends(0)), (1, Ends(1))):
        store, below = Late(), Costly(lambda _: FinalAnswer("part"))
        expert = host(below, store, generous(), kinds=["expert"])
        loop = Loop(
            Costly(plan), [as_tool(expert)], parallel_tools=False,
            clock=partial(getattr, store, "seconds"),
            limits=generous(max_cost=20.0, max_seconds=50 if middleware is None else None),
            middleware=[] if middleware is None else [middleware],
        )  # fmt: skip
        async with expert, Host(loop, store, interval=0.01, grace=0) as parent:
            task = await parent.run(new_task())
            assert len(await parent.find()) == 1 + made
        assert task.failure is not None
        assert task.failure.code == f"engine/{'timeout' if middleware is None else 'stopped'}"
        noted: Any = task.metadata["engine/used"]
        assert "grants" not in noted, middleware
        assert noted["spent"]["cost"] == 1.0 + len(below.spent) == 1.0 + made


async def test_a_call_that_is_made_again_keeps_its_one_grant(until: Until) -> None:
    """A retune ends the wait for the agent; meanwhile the agent ends, and the call is repeated."""

    def plan(context: Context) -> Any:
        if context.step:
            return FinalAnswer([each.output for each in last(context)])
        return [ToolCall("expert", {"instructions": "one"}), ToolCall("slow")]

    store, below = MemoryStore(), Costly(lambda _: FinalAnswer("part"))
    below.held["one"] = asyncio.Event()
    go = asyncio.Event()

    @tool(effect="none")
    async def slow() -> str:
        """Take long."""
        await go.wait()
        return "slept"

    expert = host(below, store, generous(), kinds=["expert"])
    above = Costly(plan)
    async with expert, host(above, store, generous(), as_tool(expert), slow) as parent:
        root = (await parent.dispatch(new_task(), limits={"max_cost": 9.0})).snapshot
        await below.asked.wait()
        await parent.retune(root.id, max_cost=4.0)
        await until(lambda: True)
        below.held["one"].set()  # It ends while the other call of the batch is still under way.
        (child,) = [task for task in await parent.find() if task.runtime_kind == "expert"]
        await expert.wait(child.id)
        go.set()
        task = await parent.wait(root.id)
        events = (await parent.outcome(root.id)).events
    assert task.result == ["part", "slept"]
    given = [event.data["grants"] for event in events if "grants" in event.data]
    assert [list(each) for each in given] == [[child.id]]
    noted: Any = task.metadata["engine/used"]
    assert noted["spent"]["cost"] == len(above.spent) + len(below.spent)


@pytest.mark.parametrize("limit", ["max_cost", "max_seconds"])
async def test_grants_of_children_that_have_begun_are_not_kept_in_memory(limit: str) -> None:
    jobs: list[Job] = []

    class Seeing(ChildTasks):
        async def spawn(self, job: Job, child: Task) -> None:
            jobs.append(job)
            assert list(job.grants) == [child.id]
            await super().spawn(job, child)

    planner = Costly(once)
    limits = generous(**{limit: 100})
    async with host(planner, MemoryStore(), limits, delegation=Seeing()) as parent:
        assert (await parent.run(new_task())).status == "success"
    assert not jobs[0].grants


# The form of the state (R23)


@pytest.mark.rule("R23")
async def test_a_state_with_grants_says_so_and_only_then() -> None:
    """An older engine would forget what is reserved, so it must leave the Task alone."""
    for limits, form, version in ((generous(max_cost=9.0), "loop/3", 3), (generous(), "", 2)):
        store, planner = MemoryStore(), Costly(once)
        async with host(planner, store, limits) as here:
            task = await here.run(new_task())
        assert task.result == {"child": task.result["child"], "result": "part"}
        assert (await store.load(task.id)).form == form
        assert (await state(store, task.id))["version"] == version


async def test_a_changed_grant_is_stored_before_the_child_hears_of_it(until: Until) -> None:
    """After a crash between the two, the record of the parent counts what the child may use."""
    store, heard = MemoryStore(), list[tuple[int, int]]()

    class Looking(ChildTasks):
        async def regrant(self, job: Job, child: str, grant: Any, seq: int) -> None:
            kept = (await shares(store, job.task.id))["grants"][child]
            heard.append((seq, kept.get("seq", 0)))
            await super().regrant(job, child, grant, seq)

    def plan(context: Context) -> Any:
        if child(context):
            return FinalAnswer("part") if context.step == 3 else endless(context)
        if not context.step:
            planner.held["root"] = asyncio.Event()
        return once(context)

    planner = Costly(plan)
    planner.held["part"] = asyncio.Event()
    async with host(planner, store, generous(), delegation=Looking()) as parent:
        task = new_task(instructions="root")
        root = (await parent.dispatch(task, limits={"max_cost": 8.0})).snapshot
        await until(lambda: planner.spent.count(root.id) == 2)
        await parent.retune(root.id, max_cost=40.0)
        planner.held["root"].set()
        await until(lambda: heard)
        planner.held["part"].set()
        await parent.wait(root.id)
    assert heard[0][0] == heard[0][1] == 1


async def test_an_agent_that_may_still_run_keeps_its_grant() -> None:
    """The caller cannot reach it any more; so nobody knows what it goes on to use."""
    below, begun, go = Costly(endless), asyncio.Event(), asyncio.Event()
    below.held["do it"] = asyncio.Event()

    class Unreachable(Host):
        async def wait(self, task_id: str, *statuses: TaskStatus) -> Task:
            await below.asked.wait()
            raise StoreError("the line is cut")

    far = Loop(below, (), limits=generous())
    expert = Unreachable(far, MemoryStore(), runtime_kinds=["expert"], interval=0.01, grace=0)

    @tool(effect="none")
    async def later() -> str:
        """Wait."""
        begun.set()
        await go.wait()
        return "later"

    def plan(context: Context) -> Any:
        calls = [ToolCall("expert", {"instructions": "do it"}), ToolCall("later")]
        return calls[context.step] if context.step < 2 else FinalAnswer("done")

    above, store = Costly(plan), MemoryStore()
    agent = as_tool(expert)
    async with expert, host(above, store, generous(), agent, later) as parent:
        root = (await parent.dispatch(new_task(), limits={"max_cost": 20.0})).snapshot
        async with asyncio.timeout(30):
            await begun.wait()
        kept = await shares(store, root.id)
        go.set()
        await parent.wait(root.id)
    assert kept["grants"]
    assert not kept.get("used", {}).get("cost", 0)

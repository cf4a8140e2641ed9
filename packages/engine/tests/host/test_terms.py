"""R19, R23: who a Task acts for is stored with it; a Host leaves what it may not or cannot take."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from agentic_kernel import CannotStart, Dispatch, InvalidValue, Pause, Task, TaskStatus, apply
from agentic_kernel_engine import Host, Job, Limits, Loop, MemoryStore, Principal, Record
from agentic_kernel_engine.errors import StateUnreadable
from agentic_kernel_engine.host.approvals_transport import InMemoryApprovals
from agentic_kernel_engine.plans.action import FinalAnswer, Schedule, ToolCall
from agentic_kernel_engine.principal import NOBODY
from agentic_kernel_engine.seams.planners import ScriptedPlanner
from agentic_kernel_engine.terms import decoded
from agentic_kernel_engine.tools.tool import Tool, ToolContext, tool

from ..conftest import Acting, LookedAt, NewTask, TappedStore, Until

ANN = Principal("ann", "acme", frozenset({"notes"}))
BOB = Principal("bob", "zeta")
PAUSED, RUNNING = TaskStatus.PAUSED, TaskStatus.RUNNING
BRISK: dict[str, Any] = {"interval": 0.01, "grace": 0.0}


class Named:
    """A substrate with a principal of its own, that keeps for whom it was run."""

    def __init__(self, principal: Principal = NOBODY, steps: int = 1) -> None:
        self.principal = principal
        self.seen: list[Principal] = []
        self.steps = steps
        self.go_on = asyncio.Event()

    async def execute(self, job: Job) -> str:
        self.seen.append(job.principal)
        await job.checkpoint((job.state or 0) + 1)
        if job.task.metadata.get("test/waits") and not job.task.supplements:
            await self.go_on.wait()
            await job.checkpoint(0)
        return job.principal.name


def waits(new_task: NewTask, **fields: Any) -> Task:
    return new_task(metadata={"test/waits": True}, **fields)


async def settled(host: Host, store: LookedAt, until: Until, looks: int = 15) -> None:
    """Let the polling of a Host have several looks."""
    seen = store.rounds
    await until(lambda: store.rounds >= seen + 2)


def everyone(*known: Principal) -> Callable[[str, str], Principal | None]:
    return lambda name, tenant: next(
        (each for each in known if (each.name, each.tenant) == (name, tenant)), None
    )


# Who acts


@pytest.mark.rule("R19")
async def test_what_acts_stays_the_same_when_another_host_takes_over(
    new_task: NewTask, until: Until
) -> None:
    store = LookedAt()
    called: list[str] = []

    @tool
    async def act(context: ToolContext) -> str:
        called.append(context.principal.name)
        return "done"

    def host(principal: Principal) -> Host:
        script = ScriptedPlanner(
            ToolCall("act", {}), Schedule("2000-01-01T00:00:00+00:00", ""), ToolCall("act", {}),
            FinalAnswer(1),
        )  # fmt: skip
        return Host(Loop(script, [act], principal=principal), store, **BRISK)

    task = new_task()
    async with host(ANN) as first:
        await first.dispatch(task)
        await first.wait(task.id, PAUSED)
    async with host(BOB) as other:
        await settled(other, store, until)
        assert (await other.get(task.id)).status is PAUSED
        await other.resume(task.id)
        await settled(other, store, until)
        assert (await other.record(task.id)).owner is None
        with pytest.raises(CannotStart, match="does not act for 'ann' of tenant 'acme'"):
            await other.claim(task.id)
    assert called == ["ann"]
    async with host(ANN) as again:
        assert (await again.wait(task.id)).result == 1
    assert called == ["ann", "ann"]


@pytest.mark.rule("R19")
async def test_one_host_serves_many_users_and_each_entry_resolves_anew(
    new_task: NewTask, until: Until
) -> None:
    store, work = LookedAt(), Named()
    allowed = {"ann": frozenset({"a"}), "bob": frozenset({"b"})}

    async def resolve(name: str, tenant: str) -> Principal | None:
        return Principal(name, tenant, allowed[name]) if name in allowed else None

    async with Host(work, store, acts_for=resolve, **BRISK) as host:
        tasks = {name: waits(new_task) for name in allowed}
        for name, task in tasks.items():
            given = Principal(name, "acme", roles=frozenset({"at dispatch"}))
            await host.dispatch(task, principal=given)
            await host.pause(task.id)
        assert [each.roles for each in work.seen] == [{"at dispatch"}] * 2
        work.go_on.set()
        for task in tasks.values():
            await host.wait(task.id, PAUSED)
        allowed["ann"] = frozenset({"more"})
        del allowed["bob"]
        receipts = [await host.resume(task.id, "on") for task in tasks.values()]
        assert [receipt.effect for receipt in receipts] == ["transition"] * 2
        assert (await host.wait(tasks["ann"].id)).result == "ann"
        assert work.seen[-1] == Principal("ann", "acme", frozenset({"more"}))
        await settled(host, store, until)
        left = await host.record(tasks["bob"].id)
        assert (left.task.status, left.owner) == (RUNNING, None)
        allowed["bob"] = frozenset()
        assert (await host.wait(tasks["bob"].id)).result == "bob"


@pytest.mark.rule("R19")
async def test_a_host_without_a_resolver_acts_for_those_of_its_own_dispatches(
    new_task: NewTask,
) -> None:
    work = Named()
    async with Host(work, **BRISK) as host:
        task = waits(new_task)
        await host.dispatch(task, principal=ANN)
        await host.pause(task.id)
        work.go_on.set()
        await host.wait(task.id, PAUSED)
        await host.resume(task.id, "on")
        assert (await host.wait(task.id)).result == "ann"
    assert work.seen == [ANN, ANN]


@pytest.mark.rule("R19")
@pytest.mark.parametrize(
    "resolver",
    [
        lambda name, tenant: None,
        lambda name, tenant: BOB,
        lambda name, tenant: name,
        lambda name: None,
        everyone(BOB),
    ],
    ids=["none", "another", "no principal", "wrong signature", "none of his"],
)
async def test_a_refusal_writes_nothing_and_is_logged_once_a_principal(
    new_task: NewTask, until: Until, resolver: Any, caplog: pytest.LogCaptureFixture
) -> None:
    store = LookedAt()
    tasks = [new_task(id=f"t{index}") for index in range(3)]
    for task in tasks:
        await insert(store, task, b'{"name":"ann","tenant":"acme"}', "acme")
    work = Named()
    with caplog.at_level(logging.WARNING):
        async with Host(work, store, acts_for=resolver, **BRISK) as host:
            assert await host.recover() == []
            await settled(host, store, until)
            assert {(await host.record(task.id)).version for task in tasks} == {1}
    assert work.seen == []
    said = [record.getMessage() for record in caplog.records if "left for another" in record.msg]
    assert sum("does not act for 'ann' of tenant 'acme'" in each for each in said) == 1


@pytest.mark.rule("R19")
async def test_tasks_of_others_do_not_hide_those_of_this_host(
    new_task: NewTask, until: Until
) -> None:
    """More than one page of Tasks that are not for it, some of which are due."""
    store, work = LookedAt(), Named(BOB)
    for index in range(250):
        task = new_task(id=f"a{index:03}")
        await insert(store, task, b'{"name":"ann"}', due=index % 2 == 0)
    mine = [new_task(id="z1"), new_task(id="z2")]
    await insert(store, mine[0], b'{"name":"bob","tenant":"zeta"}', "zeta")
    await insert(store, mine[1], b'{"name":"bob","tenant":"zeta"}', "zeta", due=True)
    async with Host(work, store, **BRISK) as host:
        for task in mine:
            assert (await host.wait(task.id)).result == "bob"
        assert {record.version for record in await store.find(realms=[""], limit=300)} <= {1, 2}
    assert {each.name for each in work.seen} == {"bob"}


@pytest.mark.rule("R19")
async def test_a_host_of_some_realms_takes_only_their_tasks(
    new_task: NewTask, until: Until
) -> None:
    store, work = LookedAt(), Named()
    tasks = {tenant: new_task(id=tenant) for tenant in ("acme", "zeta")}
    for tenant, task in tasks.items():
        await insert(store, task, b'{"name":"x","tenant":"%s"}' % tenant.encode(), tenant)
    async with Host(work, store, realms=["acme"], acts_for=Principal, **BRISK) as host:
        assert (await host.wait("acme")).result == "x"
        await settled(host, store, until)
        assert (await host.record("zeta")).version == 1
        with pytest.raises(CannotStart, match="realm 'zeta' is not one of this Host's: 'acme'"):
            await host.claim("zeta")
        with pytest.raises(CannotStart, match="realm"):
            await host.dispatch(new_task(id="new"), principal=BOB)
        assert await host.get_many(["new"]) == {}


@pytest.mark.rule("R19")
@pytest.mark.parametrize("verb", ["dispatch", "run", "step"])
async def test_a_host_of_some_realms_dispatches_for_its_own_principal_in_one_of_them(
    new_task: NewTask, verb: str
) -> None:
    async with Host(Named(BOB), realms=["acme"], **BRISK) as host:
        with pytest.raises(CannotStart, match="realm 'zeta' is not one of this Host's: 'acme'"):
            await getattr(host, verb)(new_task(id="new"))
        assert await host.get_many(["new"]) == {}
    async with Host(Named(ANN), realms=["acme"], **BRISK) as host:
        assert (await host.run(new_task())).result == "ann"


@pytest.mark.rule("R19")
async def test_a_task_of_an_older_version_acts_for_whom_it_began(
    new_task: NewTask, until: Until
) -> None:
    """It has no terms; its ``run.started`` names the principal."""
    store = LookedAt()
    started = b'{"type":"run.started","at":1,"data":{"principal":{"name":"ann","tenant":"acme"}}}'
    bound, unbound = new_task(id="bound"), new_task(id="unbound")
    await insert(store, bound, None, state=b"1", events=[started])
    await insert(store, unbound, None, state=b"1")
    async with Host(Named(BOB), store, **BRISK) as host:
        await settled(host, store, until)
        assert {(await host.record(each)).version for each in ("bound", "unbound")} == {1}
    async with Host(Named(), store, **BRISK) as host:
        assert (await host.wait("unbound")).result == ""
        await settled(host, store, until)
        assert (await host.record("bound")).version == 1
    async with Host(Named(ANN), store, **BRISK) as host:
        assert (await host.wait("bound")).result == "ann"


@pytest.mark.rule("R19")
async def test_with_a_resolver_a_task_without_a_principal_needs_its_word(
    new_task: NewTask,
) -> None:
    with pytest.raises(CannotStart, match="pass principal= to the dispatch"):
        async with Host(Named(), acts_for=everyone(ANN), **BRISK) as host:
            await host.dispatch(new_task())
    service = Principal("jobs", kind="service")
    async with Host(Named(), acts_for=lambda *who: service, **BRISK) as host:
        assert (await host.run(new_task())).result == "jobs"


@pytest.mark.rule("R19")
@pytest.mark.parametrize("resolver", [everyone(BOB), lambda name: ANN], ids=["no", "faulty"])
async def test_a_host_dispatches_for_nobody_whom_it_could_not_run_again(
    new_task: NewTask, resolver: Any
) -> None:
    async with Host(Named(), acts_for=resolver, **BRISK) as host:
        task = new_task()
        for principal in (ANN, ANN):
            with pytest.raises(CannotStart, match="does not act for 'ann'"):
                await host.dispatch(task, principal=principal)
        assert await host.get_many([task.id]) == {}


async def test_metadata_says_nothing_about_who_acts(new_task: NewTask) -> None:
    forged = {
        "engine/principal": {"name": "ann"}, "engine/tenant": "acme", "engine/terms": {"name": "x"},
        "principal/name": "ann",
    }  # fmt: skip
    async with Host(Named(), **BRISK) as host:
        task = new_task(metadata=forged)
        assert (await host.run(task)).result == ""
        record = await host.record(task.id)
    assert (record.terms, record.realm) == (None, "")


@pytest.mark.parametrize(
    "wrong",
    [{"principal": "ann"}, {"principal": Principal(scopes=frozenset({"x"}))}, {"limits": 5},
     {"limits": {"max_costs": 1}}, {"limits": {"max_cost": -1}}, {"limits": {"max_cost": "1"}}],
    ids=str,
)  # fmt: skip
async def test_wrong_terms_are_refused_without_a_trace(new_task: NewTask, wrong: Any) -> None:
    async with Host(Named(), **BRISK) as host:
        task = new_task()
        for verb in (host.dispatch, host.run):
            with pytest.raises(InvalidValue):
                await verb(task, **wrong)
        assert await host.get_many([task.id]) == {}


@pytest.mark.parametrize(
    ("fields", "path"),
    [({"name": 5}, "principal.name"), ({"tenant": "a\0"}, "principal.tenant"),
     ({"name": "x" * 257}, "principal.name"), ({"kind": "robot"}, "principal.kind"),
     ({"scopes": {1}}, "principal.scopes"), ({"roles": 5}, "principal.roles")],
    ids=lambda each: str(each)[:30],
)  # fmt: skip
def test_a_principal_is_checked(fields: Any, path: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        Principal(**fields)
    assert refused.value.path.startswith(path)


def test_a_principal_is_a_value() -> None:
    assert Principal("ann", scopes=["a", "a"]) == Principal("ann", scopes=frozenset("a"))  # type: ignore[arg-type]
    assert len({Principal("ann"), Principal("ann"), Principal("ann", kind="service")}) == 2


@pytest.mark.rule("R19")
async def test_a_rerun_acts_for_its_caller(new_task: NewTask) -> None:
    work = Named()
    async with Host(work, **BRISK) as host:
        first = new_task()
        await host.run(first, principal=ANN)
        for principal in (None, BOB):
            again = await host.rerun(first.id, principal=principal)
            await host.wait(again.id)
    assert work.seen == [ANN, NOBODY, BOB]


@pytest.mark.rule("R19")
async def test_a_lost_run_whose_principal_is_refused_now_is_let_go(
    new_task: NewTask, until: Until, tapped: TappedStore
) -> None:
    """This Host owns the Task and lives, so no other Host could claim it."""
    store, allowed = LookedAt(), {"ann": True}

    def resolve(name: str, tenant: str) -> Principal | None:
        return ANN if allowed["ann"] else None

    work = Named()
    async with Host(work, store, acts_for=resolve, **BRISK) as host:
        allowed["ann"] = False
        task = apply(new_task(), Dispatch(), datetime.now(UTC))
        await host.recover()  # The Host joins the store, so that it can be an owner.
        record = Record(
            task, owner=f"{host.name}:1", attempts=1, terms=b'{"name":"ann","tenant":"acme"}',
            realm="acme",
        )  # fmt: skip
        await store.insert(record)
        async with asyncio.timeout(5):
            while (await store.load(task.id)).owner is not None:
                await asyncio.sleep(0.01)
    assert work.seen == []


# Limits


@pytest.mark.rule("R19")
async def test_the_limits_of_a_task_replace_those_of_its_loop(new_task: NewTask) -> None:
    class Endless:
        async def plan(self, context: Any) -> Any:
            return ToolCall("note", {"n": context.step})

    done: list[str] = []

    @tool
    async def note(n: int, context: ToolContext) -> int:
        done.append(context.task_id)
        return n

    loop = Loop(Endless(), [note], limits=Limits(max_iterations=3, max_tool_calls=2))
    async with Host(loop, **BRISK) as host:
        for limits, code, calls in (
            (None, "engine/max_tool_calls", 2),
            (Limits(max_tool_calls=1), "engine/max_tool_calls", 1),
            ({"max_tool_calls": None}, "engine/max_iterations", 3),
            ({"max_tool_calls": None, "max_iterations": 5}, "engine/max_iterations", 5),
        ):
            ended = await host.run(new_task(), limits=limits)
            assert ended.failure is not None
            assert ended.failure.code == code
            assert done.count(ended.id) == calls


@pytest.mark.rule("R19")
async def test_the_terms_of_a_task_outlive_its_run(new_task: NewTask) -> None:
    store = MemoryStore()
    async with Host(Named(ANN), store, **BRISK) as host:
        ended = await host.run(new_task(), principal=ANN)
    kept = decoded((await store.load(ended.id)).terms)
    assert (kept.name, kept.tenant) == (ANN.name, ANN.tenant)


@pytest.mark.rule("R19")
async def test_the_limits_of_a_task_hold_where_it_goes_on(new_task: NewTask) -> None:
    store = MemoryStore()

    def loop() -> Loop:
        script = ScriptedPlanner(Schedule("2999-01-01T00:00:00+00:00", ""), FinalAnswer(1))
        return Loop(script)

    task = new_task()
    async with Host(loop(), store, **BRISK) as host:
        await host.dispatch(task, limits=Limits(max_iterations=1))
        await host.wait(task.id, PAUSED)
    async with Host(loop(), store, **BRISK) as host:
        await host.resume(task.id)
        ended = await host.wait(task.id)
    assert ended.failure is not None
    assert ended.failure.code == "engine/max_iterations"


async def test_limits_that_a_substrate_does_not_keep_are_refused(new_task: NewTask) -> None:
    async with Host(Named(), **BRISK) as host:
        task = new_task()
        with pytest.raises(CannotStart, match="does not keep the limit max_cost; it keeps none"):
            await host.dispatch(task, limits=Limits(max_cost=1.0))
        assert await host.get_many([task.id]) == {}


# States that cannot be read here (R23)


class Reader:
    """A substrate that reads some forms, and tags its own states."""

    def __init__(self, tag: str = "", *reads: str) -> None:
        self._tag = tag
        self.reads = reads
        self.entered = 0

    async def execute(self, job: Job) -> Any:
        self.entered += 1
        if isinstance(job.state, dict):
            raise StateUnreadable("written by another substrate")
        if self._tag:
            job.tag(self._tag)
        if job.state is None:
            await job.pause(1)
        return job.state


@pytest.mark.rule("R23")
async def test_a_state_whose_form_is_not_read_here_is_left_unclaimed(
    new_task: NewTask, until: Until
) -> None:
    store = LookedAt()
    writer = Reader("acme/2", "acme/2")
    task = new_task()
    async with Host(writer, store, **BRISK) as host:
        await host.dispatch(task)
        await host.wait(task.id, PAUSED)
        assert (await host.record(task.id)).form == "acme/2"
    async with Host(store=store) as control:
        await control.resume(task.id)
    before = await store.load(task.id)
    for other in (Reader("acme/3", "acme/3"), Acting(Reader().execute), Loop(ScriptedPlanner())):
        async with Host(other, store, **BRISK) as host:
            await settled(host, store, until)
            assert await store.load(task.id) is before
            with pytest.raises(CannotStart, match="'acme/2'"):
                await host.claim(task.id)
    async with Host(writer, store, **BRISK) as host:
        assert (await host.wait(task.id)).result == 1


@pytest.mark.rule("R23")
@pytest.mark.parametrize("loop", [True, False])
async def test_an_unreadable_state_without_a_form_is_released_and_left(
    new_task: NewTask, until: Until, loop: bool, caplog: pytest.LogCaptureFixture
) -> None:
    store, reader = LookedAt(), Reader()
    task = new_task()
    await insert(store, task, None, state=b'{"shell":["ls"]}')
    substrate = Loop(ScriptedPlanner(FinalAnswer(1))) if loop else reader
    async with Host(substrate, store, **BRISK) as host:
        await until(lambda: "cannot read its state" in caplog.text)
        await settled(host, store, until)
        await settled(host, store, until)
        left = await store.load(task.id)
        assert (left.owner, left.attempts, left.task.status) == (None, 0, RUNNING)
        assert left.version == 3  # One claim and one release, and no ping-pong.
        assert caplog.text.count("cannot read its state") == 1

    async def read(job: Job) -> Any:
        return job.state["shell"]

    async with Host(Acting(read), store, **BRISK) as host:
        assert (await host.wait(task.id)).result == ["ls"]


@pytest.mark.parametrize("form", ["", "x" * 65, 5, "a\0"])
async def test_a_form_is_checked(new_task: NewTask, form: Any) -> None:
    async def act(job: Job) -> None:
        job.tag(form)

    async with Host(Acting(act)) as host:
        ended = await host.run(new_task())
    assert ended.failure is not None
    assert ended.failure.metadata["type"] == "InvalidValue"


# Children


@pytest.mark.rule("R19", "R23")
async def test_a_child_is_bound_to_a_parent_whose_state_this_host_does_not_read(
    new_task: NewTask,
) -> None:
    store = MemoryStore()
    parent, child, foreign = new_task(), new_task(), new_task()
    async with (
        Host(Reader("acme/2", "acme/2"), store, acts_for=everyone(ANN), **BRISK) as above,
        Host(
            Reader("acme/child", "acme/child"), store, acts_for=everyone(ANN), claims=False
        ) as below,
        Host(Reader(), store, acts_for=everyone(BOB), claims=False) as elsewhere,
    ):
        await above.dispatch(parent, principal=ANN)
        await above.wait(parent.id, PAUSED)
        assert (await above.record(parent.id)).form == "acme/2"
        await below.spawn(child, parent.id)
        assert decoded((await below.record(child.id)).terms).name == "ann"
        with pytest.raises(CannotStart, match="ann"):
            await elsewhere.spawn(foreign, parent.id)


@pytest.mark.rule("R19")
@pytest.mark.parametrize("elsewhere", [False, True])
async def test_children_act_for_their_parents_principal(new_task: NewTask, elsewhere: bool) -> None:
    store, seen = MemoryStore(), []

    async def child(job: Job) -> str:
        seen.append(job.principal)
        return "done"

    other = MemoryStore() if elsewhere else store
    async with Host(Acting(child), other, runtime_kinds=["child"], **BRISK) as below:
        tools: list[Tool] = [below.as_tool(name="ask", description="Ask.")]
        script = ScriptedPlanner(ToolCall("ask", {"instructions": "do"}), FinalAnswer(1))
        async with Host(Loop(script, tools), store, runtime_kinds=["test"], **BRISK) as host:
            task = new_task()
            await host.run(task, principal=ANN)
        (record,) = await other.find(kinds=["child"])
    assert seen == [ANN]
    assert (decoded(record.terms).name, record.realm) == ("ann", "acme")


async def insert(
    store: MemoryStore,
    task: Task,
    terms: bytes | None,
    realm: str = "",
    *,
    state: bytes | None = None,
    events: Any = (),
    due: bool = False,
) -> None:
    """Store a Task that some Host has left: running without an owner, or paused and due."""
    now = datetime.now(UTC)
    task = apply(task, Dispatch(), now)
    if due:
        task = apply(task, Pause(), now)
    record = Record(task, terms=terms, realm=realm, state=state, due_at=now if due else None)
    await store.insert(record, events)


# A resolver that is slow or broken


@pytest.mark.rule("R19")
async def test_a_cancellation_out_of_a_resolver_is_a_refusal(
    new_task: NewTask, until: Until
) -> None:
    store, asked = LookedAt(), 0

    async def resolve(name: str, tenant: str) -> Principal | None:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise asyncio.CancelledError
        return Principal(name, tenant)

    task = new_task()
    await insert(store, task, b'{"name":"ann"}')
    async with Host(Named(), store, acts_for=resolve, **BRISK) as host:
        async with asyncio.timeout(10):
            assert (await host.wait(task.id)).result == "ann"


@pytest.mark.rule("R8", "R19")
async def test_a_slow_resolver_delays_neither_news_nor_other_users(new_task: NewTask) -> None:
    """Another Host kills a run here while the resolver hangs for somebody else's Tasks."""
    store, never = LookedAt(), asyncio.Event()
    asked: list[str] = []

    async def resolve(name: str, tenant: str) -> Principal | None:
        asked.append(name)
        if name == "ann":
            await never.wait()
        return Principal(name)

    async def forever(job: Job) -> str:
        if not job.task.metadata.get("test/waits"):
            return job.principal.name
        await asyncio.sleep(60)
        return ""

    for index in range(20):
        await insert(store, new_task(id=f"a{index}"), b'{"name":"ann"}')
    mine, other = waits(new_task), new_task(id="z")
    await insert(store, other, b'{"name":"bob"}')
    async with Host(Acting(forever), store, acts_for=resolve, **BRISK) as host:
        await host.dispatch(mine, principal=Principal("bob"))
        async with asyncio.timeout(3):
            assert (await host.wait(other.id)).result == "bob"
        async with Host(store=store, **BRISK) as control:
            await control.kill(mine.id)
        async with asyncio.timeout(3):
            while host._live.live:
                await asyncio.sleep(0.01)
    assert asked.count("ann") == 1


@pytest.mark.rule("R19")
async def test_a_flood_of_refused_tasks_asks_seldom(new_task: NewTask, until: Until) -> None:
    store, asked = LookedAt(), 0

    def resolve(name: str, tenant: str) -> Principal | None:
        nonlocal asked
        asked += name == "ann"
        return Principal(name) if name == "bob" else None

    for index in range(1_000):
        await insert(store, new_task(id=f"a{index:04}"), b'{"name":"ann"}', due=index % 2 == 0)
    mine = new_task(id="z")
    await insert(store, mine, b'{"name":"bob"}')
    async with Host(Named(), store, acts_for=resolve, **BRISK) as host:
        async with asyncio.timeout(10):
            assert (await host.wait(mine.id)).result == "bob"
    assert asked <= 10


@pytest.mark.rule("R19")
async def test_a_principal_that_was_refused_is_not_asked_for_again_at_each_look(
    new_task: NewTask, until: Until
) -> None:
    store, asked = LookedAt(), 0

    def refuse(name: str, tenant: str) -> None:
        nonlocal asked
        asked += 1

    await insert(store, new_task(), b'{"name":"ann"}', due=True)
    host = Host(Named(), store, acts_for=refuse, **BRISK)
    host._live.admission._now = lambda: 0.0
    async with host:
        await until(lambda: asked)
        seen = store.rounds
        await until(lambda: store.rounds >= seen + 5)
    assert asked == 1


@pytest.mark.parametrize("wrong", ["acme/2", 5, [1]], ids=str)
def test_the_names_of_a_substrate_are_checked(wrong: Any) -> None:
    for name in ("reads", "limit_names"):
        substrate = Named()
        setattr(substrate, name, wrong)
        with pytest.raises(InvalidValue, match=name):
            Host(substrate)
    with pytest.raises(InvalidValue, match="realms"):
        Host(Named(), realms=[])


def test_realms_are_read_once_though_the_desk_looks_at_them_too() -> None:
    realms: Any = iter(["acme"])
    Host(Named(), realms=realms, approvals=InMemoryApprovals())

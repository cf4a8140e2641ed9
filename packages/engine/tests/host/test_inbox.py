"""The inbox: decisions typed at every door, read leniently from older stores, and bounded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from agentic_kernel import InvalidValue, TaskStatus
from agentic_kernel_engine import Host, Job
from agentic_kernel_engine.errors import InboxFull
from agentic_kernel_engine.host.inbox import MOST_BYTES, MOST_ENTRIES
from agentic_kernel_engine.loop.state import load
from agentic_kernel_engine.plans.action import FinalAnswer

from ..approving import AskForWrites, paused, write
from ..scripting import Runner, World, new_task

NO_TEXT: list[Any] = [None, 5, 1.5, True, b"x", [], {}, object(), "\ud800", "nul\0", range(10**9)]
NO_FLAG: list[Any] = [None, 0, 1, "yes", "true", [], {}, object()]
NO_LIMITS: list[Any] = [
    None, 5, "x", [], {"no_such": 1}, {"max_iterations": "many"}, {"max_iterations": True},
    {"max_seconds": -1}, {"max_cost": float("nan")}, {5: 1}, {"max_iterations": 10**400},
]  # fmt: skip
APPROVAL = {"type": "engine/approval", "digest": "d", "granted": True, "by": "", "why": ""}
ANSWER = {"type": "engine/answer", "text": "yes"}
RETUNE = {"type": "engine/retune", "limits": {"max_iterations": 5}}
STEP = {"type": "engine/step"}


def _without(decision: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in decision.items() if key != name}


RAW: list[Any] = [
    None, 5, "x", [], object(), {}, {"type": None}, {"type": 5}, {"type": ""}, {"type": {}},
    {"type": "pause"}, {"type": "x" * 600}, {"type": "\ud800"}, {"type": "engine/aproval"},
    {**APPROVAL, "id": 1}, {"type": "acme/x", "id": None}, {"type": "acme/x", 5: 1},
    {"type": "acme/x", "data": {1}}, {"type": "acme/x", "data": float("nan")},
    {"type": "acme/x", "data": "x" * MOST_BYTES}, {"type": "acme/x", "data": range(10**9)},
    *({**APPROVAL, name: bad} for name in ("digest", "by", "why") for bad in NO_TEXT),
    *({**APPROVAL, "granted": bad} for bad in NO_FLAG), {**APPROVAL, "digest": ""},
    *(_without(APPROVAL, name) for name in ("digest", "granted", "type")),
    *({**ANSWER, name: bad} for name in ("text", "digest", "by") for bad in NO_TEXT),
    _without(ANSWER, "text"), *({**RETUNE, "limits": bad} for bad in NO_LIMITS),
    _without(RETUNE, "limits"), *({**RETUNE, "by": bad} for bad in NO_TEXT),
    *({**STEP, "by": bad} for bad in NO_TEXT),
]  # fmt: skip
VERBS: dict[str, Callable[[Host, str, Any], Any]] = {
    "digest": lambda host, id, bad: host.approve(id, bad),
    "digest of deny": lambda host, id, bad: host.deny(id, bad),
    "by": lambda host, id, bad: host.approve(id, "d", by=bad),
    "by of deny": lambda host, id, bad: host.deny(id, "d", by=bad),
    "by of answer": lambda host, id, bad: host.answer(id, "yes", by=bad),
    "by of retune": lambda host, id, bad: host.retune(id, {"max_iterations": 5}, by=bad),
    "why": lambda host, id, bad: host.approve(id, "d", why=bad),
    "why of deny": lambda host, id, bad: host.deny(id, "d", why=bad),
    "text": lambda host, id, bad: host.answer(id, bad),
}


async def test_a_decision_of_a_wrong_type_is_refused_at_every_door(
    runner: Runner, world: World
) -> None:
    """A refused decision leaves no trace, and the Task goes on as if it had never come (M1)."""
    async with runner.host(write("a"), FinalAnswer("done"), policy=AskForWrites()) as host:
        task = new_task()
        await host.dispatch(task)
        (request,) = await paused(host, id=task.id)
        before = await host.record(task.id)
        for bad in RAW:
            for door in (host.post, host.decide):
                with pytest.raises(InvalidValue) as refused:
                    await door(task.id, bad)
                assert refused.value.path.startswith(("decision", "max_", "limits", "no_such")), bad
        for name, verb in VERBS.items():
            for bad in NO_TEXT:
                with pytest.raises(InvalidValue) as refused:
                    await verb(host, task.id, bad)
                assert name.split()[0] in refused.value.path, bad
        for bad in NO_LIMITS[1:]:
            with pytest.raises(InvalidValue):
                await host.retune(task.id, bad)
        versions: list[Any] = ["1", 1.0, True, 0, -1, []]
        for bad in versions:
            with pytest.raises(InvalidValue, match="at_version"):
                await host.answer(task.id, "yes", at_version=bad)
        assert await host.record(task.id) == before
        await host.approve(task.id, request["digest"], by="ann")
        assert (await host.wait(task.id)).result == "done"
    assert world.done == ["write a"]


OLD: list[dict[str, Any]] = [
    {"type": "engine/approval", "granted": "yes", "why": {}},
    {"type": "engine/approval", "digest": "{digest}", "granted": "yes", "by": "ann", "why": "x"},
    {"type": "engine/approval", "digest": "{digest}", "granted": True, "by": 7, "why": ""},
    {"type": "engine/approval", "digest": "{digest}", "granted": True, "by": "ann", "why": {}},
    {"type": "engine/approval", "digest": "{digest}", "granted": 1},
    {"type": "engine/approval", "digest": ["{digest}"], "granted": True},
    {"type": "engine/approval", "digest": "{digest}"},
    {"type": "engine/answer", "text": {"a": 1}},
    {"type": "engine/answer", "digest": {}, "text": "x"},
    {"type": "engine/answer", "by": []},
    {"type": "engine/step", "by": 7},
    {"type": "engine/retune", "limits": [1], "by": {}},
    {"type": "engine/retune", "limits": {"max_iterations": "x"}},
    {"type": "engine/retune"},
]


@pytest.mark.parametrize("old", OLD, ids=map(str, range(len(OLD))))
async def test_a_decision_that_an_earlier_version_let_in_is_ignored_with_an_event(
    runner: Runner, world: World, old: dict[str, Any]
) -> None:
    async with runner.host(write("a"), FinalAnswer("done"), policy=AskForWrites()) as host:
        task = new_task()
        await host.dispatch(task)
        (request,) = await paused(host, id=task.id)
        entry = json.loads(json.dumps(old).replace("{digest}", request["digest"]))
        before = await host.record(task.id)
        await runner.store.commit(
            before, before.changed(version=before.version + 1, inbox=({**entry, "id": 99},))
        )
        await host.resume(task.id)
        await paused(host, id=task.id)
        record = await host.record(task.id)
        assert (record.inbox, world.done) == ((), [])
        await host.approve(task.id, request["digest"], by="ann")
        assert (await host.wait(task.id)).result == "done"
        told = await runner.events(task)
    assert world.done == ["write a"]
    ignored = [event.data for event in told if event.type == "approval.ignored"]
    refused = [event.data for event in told if event.type == "run.retuned"]
    assert [bool(data.get("why", data.get("refused"))) for data in ignored + refused] == [True]
    assert all(isinstance(data["by"], str) for data in ignored + refused)


async def test_a_decision_of_a_type_that_no_run_knows_is_ignored_with_an_event(
    runner: Runner, world: World
) -> None:
    async with runner.host(write("a"), FinalAnswer("done"), policy=AskForWrites()) as host:
        task = new_task()
        await host.dispatch(task)
        (request,) = await paused(host, id=task.id)
        await host.post(task.id, {"type": "acme/nudge", "by": "ann"})
        await host.approve(task.id, request["digest"])
        assert (await host.wait(task.id)).result == "done"
        told = await runner.events(task)
    (ignored,) = [event.data for event in told if event.type == "approval.ignored"]
    assert (ignored["by"], "'acme/nudge'" in ignored["why"]) == ("ann", True)
    assert world.done == ["write a"]


class DecidesAtTheEnd:
    """Middleware that posts decisions when the run can no longer act on them."""

    def __init__(self) -> None:
        self.host: Host | None = None

    async def on_run_end(self, state: Any, end: Any) -> None:
        assert self.host is not None
        (task,) = await self.host.find()
        await self.host.post(task.id, {"type": "acme/nudge", "by": "ann"})
        await self.host.approve(task.id, "none", by="ann")
        await self.host.retune(task.id, max_iterations=3, by="ops")


async def test_a_decision_that_comes_too_late_is_ignored_with_an_event(runner: Runner) -> None:
    late = DecidesAtTheEnd()
    async with runner.host(FinalAnswer("done"), middleware=[late]) as host:
        late.host = host
        assert (await host.run(new_task())).result == "done"
        (task,) = await host.find()
        told = await runner.events(task)
        assert (await host.record(task.id)).inbox == ()
    ignored = [event.data for event in told if event.type == "approval.ignored"]
    assert [data["by"] for data in ignored] == ["ann", "ann", "ops"]
    assert all("ended" in data["why"] for data in ignored)
    assert told[-1].type == "task.completed"


async def test_a_decision_that_waits_in_a_killed_task_is_ignored_with_an_event(
    runner: Runner, world: World
) -> None:
    async with runner.host(write("a"), policy=AskForWrites()) as host:
        task = new_task()
        await host.dispatch(task)
        await paused(host, id=task.id)
        await host.post(task.id, {"type": "acme/nudge", "by": "ann"})
        await host.kill(task.id)
        told = await runner.events(task)
    assert [event.type for event in told][-2:] == ["approval.ignored", "task.killed"]


def test_a_state_that_keeps_such_a_decision_is_still_read() -> None:
    action = {"type": "tool_call", "tool": "write", "arguments": {}}
    verdict = {"decision": {"verdict": "require_approval"}, "digest": "d", "granted": True}
    good = {"type": "engine/approval", "digest": "d", "granted": True, "by": "ann", "why": ""}
    grant = {"type": "engine/grant", "grant": {"cost": 1.0}, "seq": 1}
    negative = {**grant, "grant": {"cost": -1.0}}
    state = load(
        {
            "version": 2,
            "at_hand": {
                "plan": {"actions": [action]},
                "verdicts": [{**verdict, "by": 7, "why": {}}],
                "decided": {"0": [{**good, "by": 7}, good, {}], "1": [negative, grant]},
            },
        }
    )
    assert state.at_hand is not None
    assert state.at_hand.decided == {"0": [good], "1": [grant]}


async def _fill(host: Host, task_id: str, length: int = 0) -> InboxFull:
    for _ in range(MOST_ENTRIES + 1):
        try:
            await host.post(task_id, {"type": "acme/remark", "said": "x" * length})
        except InboxFull as full:
            return full
    raise AssertionError("the inbox has no bound")


@pytest.mark.parametrize("length", [0, 100, 2_000, 100_000])
async def test_an_inbox_is_bounded_and_nobody_is_kept_from_deciding(
    runner: Runner, world: World, length: int
) -> None:
    """Pauses, resumes, kills and what the Task asks for are never refused for a full inbox (M6)."""
    async with runner.host(write("a"), FinalAnswer("done"), policy=AskForWrites()) as host:
        task = new_task()
        await host.dispatch(task)
        (request,) = await paused(host, id=task.id)
        full = await _fill(host, task.id, length)
        before = await host.record(task.id)
        assert full.entries == len(before.inbox) <= MOST_ENTRIES
        assert len(json.dumps(list(before.inbox), separators=(",", ":"))) <= MOST_BYTES
        for word in (f"{full.entries:,}", "256 decisions and 262,144 bytes", "resume", task.id):
            assert word in str(full)
        for door in (host.post, host.decide):
            with pytest.raises(InboxFull):
                await door(task.id, {"type": "acme/remark", "said": "x" * max(length, 1_000)})
        assert await host.record(task.id) == before
        await host.post(task.id, {**APPROVAL, "digest": request["digest"]})
        again = {**APPROVAL, "digest": request["digest"], "why": "x" * max(length, 2_000)}
        with pytest.raises(InboxFull):  # What the Task asks for fits once.
            await host.post(task.id, again)
        assert (await host.resume(task.id)).changed
        assert (await host.wait(task.id)).result == "done"
        assert world.done == ["write a"]


async def test_a_pause_and_a_kill_fit_into_a_full_inbox(runner: Runner) -> None:
    """Of a Task that runs and heeds nothing that it is told."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    class Deaf:
        async def execute(self, job: Job) -> Any:
            begun.set()
            await go_on.wait()
            await job.checkpoint(1)
            await asyncio.Event().wait()

    async with (
        Host(Deaf(), runner.store, interval=0.01) as host,
        Host(store=runner.store) as control,
    ):
        task = new_task()
        await host.dispatch(task)
        await begun.wait()
        full = await _fill(control, task.id)
        assert (await control.pause(task.id)).effect == "requested"
        with pytest.raises(InboxFull):
            await control.post(task.id, {"type": "acme/remark"})
        go_on.set()
        assert (await control.wait(task.id, TaskStatus.PAUSED)).status is TaskStatus.PAUSED
        assert len((await control.record(task.id)).inbox) == full.entries
        assert (await control.kill(task.id)).snapshot.status is TaskStatus.CANCELLED


async def test_the_receipt_says_if_a_decision_was_left(runner: Runner) -> None:
    begun = asyncio.Event()

    class Waiting:
        async def execute(self, job: Job) -> Any:
            begun.set()
            await asyncio.Event().wait()

    remark = {"type": "acme/remark"}
    async with Host(Waiting(), runner.store) as host, Host(store=runner.store) as control:
        task = new_task()
        await host.dispatch(task)
        await begun.wait()
        version = (await control.record(task.id)).version
        left = await control.decide(task.id, remark, at_version=version)
        assert (left.effect, left.changed, left.version) == ("posted", False, version + 1)
        # The version is the one that the next write would have got, and nothing was written.
        moved = await control.decide(task.id, remark, at_version=version)
        assert (moved.effect, moved.version) == ("none", version + 1)
        assert len((await control.record(task.id)).inbox) == 1

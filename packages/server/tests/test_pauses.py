"""A person pauses an execution from outside; it goes on after a person resumed it."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
import rebuno
from msgspec.structs import replace

from agentic_kernel import TaskStatus
from agentic_kernel_engine import Host, MemoryStore
from agentic_kernel_server import Server
from agentic_kernel_server.errors import Refused
from agentic_kernel_server.executions import following, sending
from agentic_kernel_server.executions import requests as r
from agentic_kernel_server.executions import state as stating
from agentic_kernel_server.executions.state import decoded
from agentic_kernel_server.tools import jobs

from .clients import agent, events_of, runner, seen, streams
from .serving import QUICK, serving
from .test_forwarding import HELD, paired
from .test_sessions import square, squares

STILL = replace(QUICK, hold=0.3)
"""A request to a paused execution is answered soon."""


async def intend(url: str, server: Server, id: str, **intent: Any) -> httpx.Response:
    """An intent of the session that has the execution."""
    state = decoded((await server.parts.store.load(id)).state)
    assert state is not None
    assert state.session is not None
    async with httpx.AsyncClient(base_url=url) as web:
        body = {"execution_id": id, "session_id": state.session.id, "intent": intent}
        return await web.post("/v0/agents/intent", json=body)


async def idle() -> Any:
    await asyncio.Event().wait()


@pytest.mark.parametrize("forwards", [True, False])
async def test_an_intent_does_not_let_a_paused_execution_go_on(forwards: bool) -> None:
    store = MemoryStore()
    settings = replace(STILL, forwards=forwards)
    async with (
        serving(store, settings) as (url, server),
        serving(store, settings) as (other, _),
        Host(store=store) as person,
        rebuno.Client(url) as client,
        agent(url, "swe", idle, endless=True),
    ):
        made = await client.create("swe", {})
        await seen(client, made.id, "execution.started")
        await person.pause(made.id)
        await person.wait(made.id, TaskStatus.PAUSED)
        for way in (url, other):
            refused = await intend(way, server, made.id, type="invoke_tool", tool_id="t")
            assert refused.status_code == 503, refused.text
            assert "paused by a person" in refused.json()["error"]
        assert (await person.get(made.id)).status is TaskStatus.PAUSED
        (await streams(server, 1))[0].cut()  # Its agent comes back, which is no reason either.
        while not (len(server.parts.agents) and server.parts.vigils):
            await asyncio.sleep(0.005)
        assert (await person.get(made.id)).status is TaskStatus.PAUSED
        assert (await person.resume(made.id)).changed
        taken = await intend(url, server, made.id, type="invoke_tool", tool_id="t")
        await seen(client, made.id, "step.created")
    assert taken.json()["accepted"], taken.text


async def test_an_intent_that_waits_is_carried_out_after_the_resume() -> None:
    store = MemoryStore()
    async with (
        serving(store) as (url, server),
        Host(store=store) as person,
        rebuno.Client(url) as client,
        agent(url, "swe", idle, endless=True),
    ):
        made = await client.create("swe", {})
        await seen(client, made.id, "execution.started")
        await person.pause(made.id)
        await person.wait(made.id, TaskStatus.PAUSED)
        waiting = asyncio.ensure_future(intend(url, server, made.id, type="complete", output=5))
        await client.send_signal(made.id, "go", 1)  # It is durable, and waits as well.
        assert (await person.get(made.id)).status is TaskStatus.PAUSED
        await person.resume(made.id)
        assert (await waiting).json() == {"accepted": True}
        done = await client.get(made.id)
    assert (done.status, done.output) == ("completed", 5)


async def test_a_signal_to_a_paused_execution_comes_after_the_resume() -> None:
    async def handler() -> Any:
        return await rebuno.execution.wait_signal("go")

    store = MemoryStore()
    async with (
        serving(store) as (url, _),
        Host(store=store) as person,
        rebuno.Client(url) as client,
        agent(url, "swe", handler),
    ):
        made = await client.create("swe", {})
        await seen(client, made.id, "execution.started")
        await person.pause(made.id)
        await person.wait(made.id, TaskStatus.PAUSED)
        await client.send_signal(made.id, "go", {"n": 1})
        assert (await person.get(made.id)).status is TaskStatus.PAUSED
        await person.resume(made.id)
        done = [event async for event in client.events(made.id)][-1]
    assert done.payload == {"output": {"n": 1}}


async def test_of_two_answers_to_an_approval_that_wait_the_first_decides() -> None:
    store = MemoryStore()
    async with (
        serving(store) as (url, server),
        Host(store=store) as person,
        rebuno.Client(url) as client,
        agent(url, "swe", idle, endless=True),
        httpx.AsyncClient(base_url=url) as web,
    ):
        made = await client.create("swe", {})
        await seen(client, made.id, "execution.started")
        await intend(url, server, made.id, type="invoke_tool", tool_id="t")
        asks = await intend(url, server, made.id, type="invoke_tool", tool_id="danger")
        await person.pause(made.id)
        await person.wait(made.id, TaskStatus.PAUSED)
        codes = []
        for approved in (False, True, False):
            payload = {"step_id": asks.json()["step_id"], "approved": approved}
            body = {"signal_type": "step.approve", "payload": payload}
            codes.append(
                (await web.post(f"/v0/executions/{made.id}/signal", json=body)).status_code
            )
        await person.resume(made.id)
        told = await seen(client, made.id, "approval.resolved")
    assert codes == [200, 409, 200]
    assert told[-1].payload["approved"] is False


async def test_a_paused_execution_can_be_cancelled() -> None:
    store = MemoryStore()
    async with (
        serving(store) as (url, _),
        Host(store=store) as person,
        rebuno.Client(url) as client,
        agent(url, "swe", idle, endless=True),
    ):
        made = await client.create("swe", {})
        await seen(client, made.id, "execution.started")
        await person.pause(made.id)
        await person.wait(made.id, TaskStatus.PAUSED)
        assert (await client.cancel(made.id)).status == "cancelled"


async def test_the_result_of_a_remote_step_waits_for_the_end_of_the_pause() -> None:
    go = asyncio.Event()

    async def handler() -> Any:
        return await square(7)

    store = MemoryStore()
    calls: list[int] = []
    async with (
        serving(store) as (url, _),
        Host(store=store) as person,
        rebuno.Client(url) as client,
        runner(url, "r", squares(calls, go)),
        agent(url, "swe", handler),
    ):
        made = await client.create("swe", {})
        await seen(client, made.id, "step.started")
        await person.pause(made.id)
        await person.wait(made.id, TaskStatus.PAUSED)
        go.set()
        (step,) = await store.find(kinds=["tool"])
        await person.wait(step.task.id)
        assert (await person.get(made.id)).status is TaskStatus.PAUSED
        await person.resume(made.id)
        done = [event async for event in client.events(made.id)][-1]
    assert done.payload == {"output": 49}
    assert calls == [7]


async def test_the_deadline_of_a_paused_remote_step_takes_effect_at_its_resume(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stating, "LATE", 0.0)
    monkeypatch.setattr(following, "_AGAIN", 0.02)

    async def handler() -> Any:
        return await square(7)

    store = MemoryStore()
    async with (
        serving(store, replace(STILL, step_timeout=0.5)) as (url, server),
        Host(store=store) as person,
        rebuno.Client(url) as client,
        runner(url, "r", squares([], asyncio.Event())),
        agent(url, "swe", handler),
    ):
        made = await client.create("swe", {})
        step = (await seen(client, made.id, "step.started"))[-1].step_id
        await person.pause(step)
        await person.wait(step, TaskStatus.PAUSED)
        while not server.parts.runs[made.id]._following.ending:
            await asyncio.sleep(0.01)  # Until its time is over for the execution.
        await asyncio.sleep(0.1)
        assert (await person.get(step)).status is TaskStatus.PAUSED
        assert (await client.get(made.id)).status == "blocked"
        await person.resume(step)
        told = await events_of(client, made.id)
    assert "step.timed_out" in [event.type for event in told]


PAUSED = "task.pause_requested"


def impatient(server: Server) -> None:
    """The requests that follow wait for a moment only."""
    server.parts.settings = replace(server.parts.settings, hold=0.05)


def pausing(monkeypatch: pytest.MonkeyPatch, person: Host, *, lands: bool) -> None:
    """A person pauses a Task just after a request has read its record, once.

    Args:
        lands: True if the request goes on after the pause has taken effect.
    """
    read = sending.load

    async def load(*which: Any) -> Any:
        monkeypatch.setattr(sending, "load", read)
        record = await read(*which)
        assert record.task.status is TaskStatus.RUNNING
        await person.pause(record.task.id)
        if lands:
            await person.wait(record.task.id, TaskStatus.PAUSED)
        return record

    monkeypatch.setattr(sending, "load", load)


THROUGH_THE_STORE = replace(HELD, forwards=False)
REQUESTS: dict[str, Any] = {
    "a call": lambda session, step: r.Invoke(session, "t", key="k"),
    "a wait": lambda session, step: r.Wait(session, "go"),
    "a result": lambda session, step: r.StepResult(session, step, True, 1),
    "an end": lambda session, step: r.Complete(session, 5),
    "a failure": lambda session, step: r.Fail(session, "no"),
    "a signal": lambda session, step: r.Signal("go", 1, id="s"),
    "an approval": lambda session, step: r.Approve(step, True),
}


QUICKLY = ("a call", "a signal")


@pytest.mark.parametrize("lands", [True, False], ids=["paused", "asked to pause"])
@pytest.mark.parametrize(
    "what",
    [
        pytest.param(each, marks=() if each in QUICKLY else pytest.mark.torture)
        for each in sorted(REQUESTS)
    ],
)
async def test_a_pause_just_after_a_request_has_read_the_record_stays(
    what: str, lands: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with paired(THROUGH_THE_STORE) as pair, Host(store=pair.store) as person:
        step = (await pair.intent("invoke_tool", tool_id="t")).json()["step_id"]
        if what == "an approval":
            step = (await pair.intent("invoke_tool", tool_id="danger")).json()["step_id"]
        impatient(pair.second)
        pausing(monkeypatch, person, lands=lands)
        request = REQUESTS[what](pair.session, step)
        waits = not isinstance(request, r.Signal | r.Approve)
        sent = sending.send(pair.second.parts, pair.id, "", request, waits=waits)
        if waits:
            with pytest.raises(Refused, match="paused by a person"):
                await sent
        else:
            await sent
        await person.wait(pair.id, TaskStatus.PAUSED)
        types = await pair.types()
        assert not {"task.pause_withdrawn", "task.resumed"} & set(types[types.index(PAUSED) :])
        stored = (await pair.store.load(pair.id)).inbox
        assert len(stored) == (0 if waits else 1)  # A request that was refused is not left.


@pytest.mark.parametrize(
    "report",
    [True, pytest.param(False, marks=pytest.mark.torture)],
    ids=["a result", "a start"],
)
async def test_a_pause_just_after_a_report_has_read_the_step_stays(
    report: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = asyncio.Event()

    async def handler() -> Any:
        return await square(7)

    store = MemoryStore()
    async with (
        serving(store, THROUGH_THE_STORE) as (url, _),
        serving(store, THROUGH_THE_STORE) as (_, second),
        Host(store=store) as person,
        rebuno.Client(url) as client,
        runner(url, "r", squares([], go)),
        agent(url, "swe", handler),
    ):
        made = await client.create("swe", {})
        step = (await seen(client, made.id, "step.started"))[-1].step_id
        impatient(second)
        pausing(monkeypatch, person, lands=True)
        said = jobs.Result(f"{step}.1", True, 49, runner="r") if report else jobs.Began("r")
        with pytest.raises(Refused, match="paused by a person"):
            await sending.send_job(second.parts, step, "", said)
        assert (await person.get(step)).status is TaskStatus.PAUSED
        await person.resume(step)
        go.set()
        done = [event async for event in client.events(made.id)][-1]
    assert done.payload == {"output": 49}


async def test_a_cancel_takes_effect_though_a_pause_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    async with paired(THROUGH_THE_STORE) as pair, Host(store=pair.store) as person:
        pausing(monkeypatch, person, lands=False)
        reply = await sending.send(pair.second.parts, pair.id, "", r.Cancel())
        assert reply.status == 200
        assert (await person.get(pair.id)).status is TaskStatus.CANCELLED


async def test_a_signal_is_heard_though_the_pause_ends_just_after_it_was_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with paired(THROUGH_THE_STORE) as pair, Host(store=pair.store) as person:
        assert (await pair.intent("wait", signal_type="go")).json() == {"accepted": True}
        await person.wait(pair.id, TaskStatus.PAUSED)
        read = sending.load

        async def load(*which: Any) -> Any:
            monkeypatch.setattr(sending, "load", read)
            record = await read(*which)
            await pair.store.commit(record, record.changed(version=record.version + 1), [])
            return record.changed(due_at=None)  # As it was while a person paused it.

        monkeypatch.setattr(sending, "load", load)
        await sending.send(pair.second.parts, pair.id, "", r.Signal("go", 1, id="s"), waits=False)
        while "signal.received" not in await pair.types():
            await asyncio.sleep(0.005)


@pytest.mark.torture
async def test_many_requests_at_once_for_one_execution_are_all_left() -> None:
    async with paired(THROUGH_THE_STORE) as pair:
        parts = pair.second.parts
        calls = [r.Invoke(pair.session, "t", key=f"{n}") for n in range(60)]
        replies = await asyncio.gather(*(sending.send(parts, pair.id, "", each) for each in calls))
        assert [each.status for each in replies] == [200] * len(calls)
        assert (await pair.types()).count("step.created") == len(calls)

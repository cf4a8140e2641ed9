"""A request for a Task of another process goes straight to its owner, and is carried out once."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx
import msgspec
import pytest
from msgspec.structs import replace

from agentic_kernel_engine import MemoryStore
from agentic_kernel_server import Server, Silent
from agentic_kernel_server.agents.consumers import Consumer, Key
from agentic_kernel_server.executions import requests as r
from agentic_kernel_server.executions.state import Session, decoded
from agentic_kernel_server.forwarding import Lost, forwarder, frames
from agentic_kernel_server.forwarding.addresses import KIND
from agentic_kernel_server.forwarding.frames import Asked, Broken, Hello, Proof
from agentic_kernel_server.forwarding.link import Address, Link
from agentic_kernel_server.tools import jobs

from .serving import QUICK, serving

KEY = Key("", "swe", "c")
HELD = replace(QUICK, agent_timeout=30.0)


class Counting(Silent):
    """A measure that keeps the number of forwarded requests."""

    def __init__(self) -> None:
        self.forwarded = 0

    def count(self, name: str, by: int = 1, **labels: str) -> None:
        self.forwarded += by if name == "requests_forwarded" else 0


class Pair:
    """Two servers on one store, with an execution whose agent has its stream at the first."""

    def __init__(self, first: Server, second: Server, url: str, measure: Counting) -> None:
        self.store = first.parts.store
        self.first = first
        self.second = second
        self.measure = measure
        self.elsewhere = httpx.AsyncClient(base_url=url, timeout=20.0)
        self.consumer: Consumer = first.parts.agents.open(KEY)
        self.id = ""
        self.session = ""

    async def begin(self) -> None:
        """Create an execution; it runs at the first server when this returns."""
        made = await self.elsewhere.post("/v0/executions", json={"agent_id": "swe", "input": 1})
        self.id = made.json()["id"]
        while b"execution.assigned" not in b"".join(self.consumer.unsent()):
            await asyncio.sleep(0.001)
        self.session = (await self.state_session()).id

    async def state_session(self) -> Session:
        """The session that is stored."""
        state = decoded((await self.store.load(self.id)).state)
        assert state is not None
        assert state.session is not None
        return state.session

    async def intent(self, kind: str, **fields: Any) -> httpx.Response:
        """An intent that reaches the second server."""
        body = {"execution_id": self.id, "session_id": self.session}
        intent = {"type": kind, **fields}
        return await self.elsewhere.post("/v0/agents/intent", json={**body, "intent": intent})

    async def types(self) -> list[str]:
        """The types of the stored events."""
        found = await self.store.events(self.id)
        return [msgspec.json.decode(text)["type"] for _, text in found]

    def address(self) -> Address:
        """The internal port of the first server."""
        door = self.first.parts.forwarder._door
        return Address(door.port, door.secret)

    def asked(self, request: Any, tenant: str = "", kind: frames.Kind = "execution") -> Asked:
        """A request as another process forwards it."""
        body = msgspec.Raw(msgspec.json.encode(request))
        return Asked(0, kind, self.id, tenant, uuid.uuid4().hex, 20.0, body)


@asynccontextmanager
async def paired(settings: Any = HELD) -> AsyncIterator[Pair]:
    store, measure = MemoryStore(), Counting()
    async with (
        serving(store, settings) as (_, first),
        serving(store, settings, measure=measure) as (two, second),
    ):
        pair = Pair(first, second, two, measure)
        async with pair.elsewhere:
            await pair.begin()
            yield pair


@asynccontextmanager
async def linked(pair: Pair) -> AsyncIterator[Link]:
    link = await Link.to(pair.address())
    try:
        yield link
    finally:
        await link.close()


async def test_every_request_of_an_agent_reaches_its_owner_directly() -> None:
    async with paired() as pair:
        called = await pair.intent("invoke_tool", tool_id="calc.add", arguments={"n": 1})
        step = called.json()["step_id"]
        body = {"execution_id": pair.id, "session_id": pair.session, "step_id": step}
        result = {**body, "success": True, "data": 2}
        told = await pair.elsewhere.post("/v0/agents/step-result", json=result)
        ended = await pair.intent("complete", output=3)
        record = await pair.store.load(pair.id)
        forwarded, types = pair.measure.forwarded, await pair.types()
    assert [called.status_code, told.status_code, ended.status_code] == [200, 200, 200]
    assert (record.task.status.value, record.task.result) == ("success", 3)
    assert forwarded == 3
    assert types.count("server.replied") == 3


async def test_without_forwarding_the_same_requests_go_through_the_store() -> None:
    async with paired(replace(HELD, forwards=False)) as pair:
        called = await pair.intent("invoke_tool", tool_id="calc.add", arguments={"n": 1})
        records = await pair.store.find(kinds={KIND})
        forwarded = pair.measure.forwarded
    assert called.json()["accepted"] is True
    assert forwarded == 0
    assert records == []


async def test_a_refusal_of_the_owner_is_the_answer_and_nothing_is_stored() -> None:
    async with paired() as pair:
        before = (await pair.store.load(pair.id)).version
        pair.session = "another"
        refused = await pair.intent("complete")
        after = (await pair.store.load(pair.id)).version
    assert (refused.status_code, refused.json()["code"]) == (401, "UNAUTHORIZED")
    assert before == after


REQUESTS: dict[str, tuple[Callable[[str], Any], str]] = {
    "invoke": (lambda s: r.Invoke(s, "calc.add", {"n": 1}), "step.created"),
    "wait": (lambda s: r.Wait(s, "more"), "signal.awaited"),
    "signal": (lambda s: r.Signal("more", 1), "signal.received"),
    "denied": (lambda s: r.Invoke(s, "no.way"), "intent.denied"),
}


@pytest.mark.parametrize("name", REQUESTS)
async def test_a_request_that_comes_on_both_ways_is_carried_out_once(name: str) -> None:
    make, event = REQUESTS[name]
    async with paired() as pair, linked(pair) as link:
        asked = pair.asked(make(pair.session))
        said = await link.send(asked)
        # Its sender lost the owner, and leaves it in the store under the same id.
        decision = r.to_decision(make(pair.session), asked.id)
        await pair.second.parts.control.decide(pair.id, decision)
        while (await pair.store.load(pair.id)).inbox:
            await asyncio.sleep(0.001)
        again = await link.send(asked)
        types = await pair.types()
    assert said.status == 200
    # An execution that waits for a signal has let go of its process.
    assert again.status == 0 or (again.status, again.body) == (said.status, said.body)
    assert types.count(event) == 1


async def test_a_wait_that_comes_again_does_not_take_the_next_signal() -> None:
    async with paired() as pair, linked(pair) as link:
        asked = pair.asked(r.Wait(pair.session, "more"))
        await link.send(asked)
        await pair.elsewhere.post(
            f"/v0/executions/{pair.id}/signal", json={"signal_type": "more", "payload": 1}
        )
        while (await pair.state_session()).waits:
            await asyncio.sleep(0.001)
        wait = r.to_decision(r.Wait(pair.session, "more"), asked.id)
        await pair.second.parts.control.decide(pair.id, wait)
        while (await pair.store.load(pair.id)).inbox:
            await asyncio.sleep(0.001)
        session = await pair.state_session()
    assert session.waits == []
    assert session.taken == {"more": 1}


@pytest.mark.parametrize("answered", [True, False], ids=["after its commit", "before it"])
async def test_an_owner_that_is_lost_in_the_middle_is_asked_through_the_store(
    answered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with paired() as pair:
        door = pair.first.parts.forwarder._door
        reply = door._reply

        async def cut(asked: Asked) -> Any:
            if answered:
                await reply(asked)
            for each in door._open:
                each.cancel()
            return await asyncio.Event().wait()

        monkeypatch.setattr(door, "_reply", cut)
        called = await pair.intent("invoke_tool", tool_id="calc.add", idempotency_key="k")
        types = await pair.types()
    assert called.json()["accepted"] is True
    assert types.count("step.created") == 1


async def test_an_end_whose_answer_is_lost_is_answered_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with paired() as pair:
        door = pair.first.parts.forwarder._door
        reply = door._reply

        async def cut(asked: Asked) -> Any:
            await reply(asked)
            for each in door._open:
                each.cancel()
            return await asyncio.Event().wait()

        monkeypatch.setattr(door, "_reply", cut)
        ended = await pair.intent("complete", output=3)
    assert (ended.status_code, ended.json()) == (200, {"accepted": True})


async def test_an_owner_that_does_not_have_the_run_any_more_forwards_nothing() -> None:
    async with paired() as pair, linked(pair) as link:
        unknown = pair.asked(r.Cancel())
        unknown.task = "nothing"
        elsewhere = await link.send(unknown)
        foreign = await link.send(pair.asked(r.Cancel(), tenant="red"))
        job = await link.send(pair.asked(jobs.Began("r"), kind="tool"))
        damaged = await link.send(pair.asked({"kind": "of a later version"}))
        record = await pair.store.load(pair.id)
    assert [each.status for each in (elsewhere, foreign, job, damaged)] == [0, 0, 0, 0]
    assert record.task.status.value == "running"


async def test_a_run_that_left_meanwhile_is_found_through_the_store() -> None:
    async with paired() as pair:
        await pair.intent("invoke_tool", tool_id="calc.add")
        pair.first.parts.agents.close(pair.consumer)
        pair.second.parts.agents.open(KEY)  # It comes back to the second server.
        while pair.id not in pair.second.parts.runs:
            await asyncio.sleep(0.001)
        after = await pair.intent("wait", signal_type="more")
    assert after.json() == {"accepted": True}


async def test_a_caller_that_does_not_know_the_secret_is_cut() -> None:
    async with paired() as pair:
        with pytest.raises(Broken):
            await Link.to(Address(pair.address().port, b"another"))
        reader, writer = await asyncio.open_connection("127.0.0.1", pair.address().port)
        writer.write(frames.encoded(Hello(frames.VERSION, "n")))
        given = await frames.received(reader, Proof)
        # The listener's own proof, sent back to it, proves nothing.
        writer.write(frames.encoded(Proof(given.proof, given.nonce)))
        writer.write(frames.encoded(pair.asked(r.Cancel())))
        rest = b""
        with suppress(ConnectionError):
            rest = await reader.read()
        writer.close()
        record = await pair.store.load(pair.id)
    assert rest == b""
    assert record.task.status.value == "running"


@pytest.mark.parametrize(
    "said",
    [
        b"\xff\xff\xff\xff" + b"x" * 100,
        b"\x00\x00\x00\x02{}",
        b"\x00\x00\x00\x03[1]",
        b"GET / HTTP/1.1\r\n\r\n",
        frames.encoded(Hello(frames.VERSION + 1, "n")),
    ],
    ids=["huge", "no list", "too short", "HTTP", "another version"],
)
async def test_what_is_no_proof_cuts_the_connection(said: bytes) -> None:
    async with paired() as pair:
        reader, writer = await asyncio.open_connection("127.0.0.1", pair.address().port)
        writer.write(said)
        rest = b""
        with suppress(ConnectionError):
            rest = await reader.read()
        writer.close()
        answered = await pair.intent("wait", signal_type="more")
    assert rest == b""
    assert answered.status_code == 200


async def test_a_silent_connection_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "SECONDS", 0.01)
    async with paired() as pair:
        reader, writer = await asyncio.open_connection("127.0.0.1", pair.address().port)
        with suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()


async def test_another_program_at_the_address_learns_nothing() -> None:
    heard = bytearray()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hello = await frames.received(reader, Hello)
        heard.extend(hello.nonce.encode())
        writer.write(frames.encoded(Proof("0" * 64, "n")))
        with suppress(ConnectionError):
            heard.extend(await reader.read())
        writer.close()

    async with serving(MemoryStore()) as (_, server):
        other = await asyncio.start_server(listen, "127.0.0.1", 0)
        port = other.sockets[0].getsockname()[1]
        ways = server.parts.forwarder
        ways._addresses._known["h"] = Address(port, b"secret")
        cancel = r.Cancel("somebody")
        reply = await ways.ask("h:1", "execution", "t", "", "id", cancel, 1e12, 1)
        forgotten = "h" not in ways._addresses._known
        other.close()
    assert reply is None
    assert len(heard) == 32
    assert forgotten


async def test_an_owner_that_does_not_live_any_more_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def silent(asked: Asked) -> Any:
        return await asyncio.Event().wait()

    monkeypatch.setattr(forwarder, "_LOOK", 0.001)
    async with paired() as pair:
        # Its connection is open, as that of a process that is stopped.
        monkeypatch.setattr(pair.first.parts.forwarder._door, "_reply", silent)
        second = pair.second.parts.forwarder
        second._addresses._known["gone"] = pair.address()
        wait = r.Wait(pair.session, "more")
        with pytest.raises(Lost):
            await second.ask("gone:1", "execution", pair.id, "", "id", wait, 1e12, 1)

"""Tenants, scopes and approvers over the wire: the credential decides, and others see nothing."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import rebuno

from agentic_kernel_engine import MemoryStore
from agentic_kernel_engine.terms import decoded
from agentic_kernel_server.observing.logs import JsonLines
from agentic_kernel_server.routes import ROUTES
from agentic_kernel_server.serving.composition import Composition

from .clients import agent, runner
from .fronts import Crowd, fronted

RULES = """version: 1
rules:
  - name: pay
    priority: 1
    effect: require_approval
    match: {capability: pay}
    approval: {approvers: [ann]}
  - {name: all, priority: 2, effect: allow, match: {capability: "*"}}
"""
SCOPES = ("client", "agent", "runner", "approver", "metrics", "admin")


class House:
    """A server with keys of two tenants."""

    def __init__(self, url: str, parts: Composition, crowd: Crowd) -> None:
        self.url = url
        self.parts = parts
        self.crowd = crowd

    def client(self, name: str) -> httpx.AsyncClient:
        """A client with the key of a person, or without one."""
        text = self.crowd.texts.get(name)
        headers = {"authorization": f"Bearer {text}"} if text else {}
        return httpx.AsyncClient(base_url=self.url, headers=headers)


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    crowd = Crowd(tmp_path)
    for scope in SCOPES:
        crowd.key(scope, scope)
    crowd.key("ann", "client", "approver")
    crowd.key("bob", "client", "approver")
    crowd.key("eve", "admin", tenant="blue")
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES)
    async with fronted(MemoryStore(), keys=crowd.file.path, policy=rules) as (url, parts):
        yield House(url, parts, crowd)


async def created(house: House, name: str = "ann", **more: Any) -> str:
    async with house.client(name) as client:
        answer = await client.post("/v0/executions", json={"agent_id": "swe", **more})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])


async def test_an_execution_of_another_tenant_does_not_exist(house: House) -> None:
    id = await created(house)
    async with house.client("eve") as eve, house.client("ann") as ann:
        for end in ("", "/events", "/stream"):
            there = f"/v0/executions/{id}{end}"
            theirs = await eve.get(there)
            absent = await eve.get(there.replace(id, "00000000-0000-0000-0000-000000000000"))
            assert (theirs.status_code, absent.status_code) == (404, 404)
            said = theirs.text.replace(id, "")
            assert said == absent.text.replace("00000000-0000-0000-0000-000000000000", "")
        for there, body in (("cancel", None), ("signal", {"signal_type": "x"})):
            answer = await eve.post(f"/v0/executions/{id}/{there}", json=body)
            assert answer.status_code == 404
        assert (await eve.get("/v0/executions")).json()["executions"] == []
        assert len((await ann.get("/v0/executions")).json()["executions"]) == 1
        assert (await ann.get(f"/v0/executions/{id}")).json()["status"] == "pending"


async def test_one_idempotency_key_of_two_tenants_is_two_executions(house: House) -> None:
    first = await created(house, idempotency_key="k")
    assert await created(house, idempotency_key="k") == first
    assert await created(house, "eve", idempotency_key="k") != first


async def test_tools_of_a_runner_of_another_tenant_are_not_listed(house: House) -> None:
    async with house.client("runner") as red, house.client("eve") as eve:
        tools = {"tools": [{"id": "search", "description": "", "input_schema": {}}]}
        assert (await red.post("/v0/runners/r/tools", json=tools)).status_code == 200
        assert (await eve.get("/v0/tools")).json() == []


@pytest.mark.parametrize("call", ROUTES, ids=[f"{each.method} {each.path}" for each in ROUTES])
async def test_each_call_needs_a_key_with_its_scope(house: House, call: Any) -> None:
    path = call.path.replace("{id}", "x").replace("{step_id}", "x")
    for name in ("nobody", *SCOPES):
        async with (
            house.client(name) as client,
            client.stream(
                call.method, path, params={"agent_id": "a", "runner_id": "r", "consumer_id": "c"}
            ) as answer,
        ):
            status = answer.status_code
        if name == "nobody":
            assert status == 401
        elif call.scope and name not in (call.scope, "admin") and not signal(call):
            assert status == 403, name
        else:
            assert status not in (401, 403), name


def signal(call: Any) -> bool:
    """The scope of a signal depends on its type, so that the call itself asks for none."""
    return bool(call.path.endswith("/signal"))


async def test_a_remote_tool_runs_for_the_person_who_made_the_execution(house: House) -> None:
    @rebuno.tool("sum.add", remote=True)
    async def add(a: int, b: int) -> Any: ...

    @rebuno.tool("sum.add")
    def really(a: int, b: int) -> int:
        """The sum."""
        return a + b

    async def adding(n: int) -> Any:
        return await add(a=n, b=1)

    keys = house.crowd.texts
    async with (
        rebuno.Client(house.url, api_key=keys["ann"]) as client,
        runner(house.url, "r1", really, api_key=keys["runner"]),
        agent(house.url, "swe", adding, api_key=keys["agent"]),
    ):
        ended = await client.run_until_complete("swe", {"n": 2})
    assert (ended.status, ended.output) == ("completed", 3)
    store = house.parts.server.parts.store
    for kind in ("execution", "tool"):
        (record,) = await store.find(kinds=[kind])
        assert record.realm == "red"
        assert decoded(record.terms).name == "ann", kind


@rebuno.tool("pay")
def pay(amount: int) -> int:
    """A tool of the agent that the rules let run after an approval only."""
    return amount


async def paying() -> int:
    paid: int = await pay(5)
    return paid


async def test_only_an_approver_of_the_rule_approves(house: House) -> None:
    async with (
        agent(house.url, "swe", paying, api_key=house.crowd.texts["agent"]),
        house.client("ann") as ann,
    ):
        there = f"/v0/executions/{await created(house)}"
        body = {
            "signal_type": "step.approve",
            "payload": {"step_id": await awaiting(ann, there), "approved": True},
        }
        for name, status in (("client", 403), ("agent", 403), ("eve", 404), ("bob", 403)):
            async with house.client(name) as other:
                answer = await other.post(f"{there}/signal", json=body)
                assert answer.status_code == status, (name, answer.text)
        assert (await ann.get(there)).json()["status"] == "blocked"
        assert (await ann.post(f"{there}/signal", json=body)).status_code == 200
        again = await ann.post(f"{there}/signal", json=body)
        assert again.status_code == 409
        assert "it got one, needed none, or has ended" in again.json()["error"]
        async with ann.stream("GET", f"{there}/stream") as stream:
            lines = [line async for line in stream.aiter_lines()]
        assert "event: execution.completed" in lines
        assert (await ann.get(there)).json()["output"] == 5


async def awaiting(client: httpx.AsyncClient, there: str) -> str:
    """The step that waits for an approval."""
    async with client.stream("GET", f"{there}/stream") as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data:"):
                event = json.loads(line.removeprefix("data:"))
                if event["payload"].get("pending_approval"):
                    return str(event["step_id"])
    raise AssertionError("the stream ended before an approval was asked for")


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """The log of everything, as the command writes it."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield text
    root.removeHandler(handler)
    root.setLevel(before)


async def test_no_key_is_in_a_log_an_event_or_an_answer(house: House, log: io.StringIO) -> None:
    id = await created(house)
    secret = house.crowd.texts["ann"]
    async with house.client("ann") as ann:
        answers = [
            await ann.get(f"/v0/executions/{id}?key={secret}"),
            await ann.get(f"/v0/executions/{secret}"),
            await ann.get(f"/v0/executions/{id}/events"),
            await ann.get(f"/v0/{secret}"),
            await ann.post("/v0/executions", content=f'{{"{secret}'.encode()),
            await ann.get("/v0/executions", headers={"authorization": f"Bearer {secret}x"}),
        ]
    logging.getLogger("other").warning("headers %s", {"authorization": f"Bearer {secret}"})
    written = log.getvalue()
    assert len(written.splitlines()) >= len(answers)
    assert secret.split("_", 2)[2] not in written
    assert secret not in "".join(each.text for each in answers if "/events" in str(each.url))
    for line in written.splitlines():
        assert json.loads(line)["message"]


async def test_the_figures_need_the_scope_metrics(house: House) -> None:
    await created(house)
    text = ""
    answers = (("nobody", 401), ("client", 403), ("runner", 403), ("metrics", 200), ("admin", 200))
    for name, status in answers:
        async with house.client(name) as client:
            answer = await client.get("/metrics")
            assert answer.status_code == status
            text = answer.text
    assert 'requests_total{method="POST",route="/v0/executions",status="201"} 1.0' in text
    assert "live_executions" in text


async def test_health_and_the_document_need_no_key(house: House) -> None:
    async with house.client("nobody") as client:
        for path in ("/v0/health", "/v0/ready", "/v0/openapi.json"):
            assert (await client.get(path)).status_code == 200


async def test_no_answer_lets_a_page_of_another_site_read_it(house: House) -> None:
    async with house.client("ann") as ann:
        origin = {"origin": "http://evil.example", "access-control-request-method": "POST"}
        for answer in (
            await ann.get("/v0/executions", headers=origin),
            await ann.options("/v0/executions", headers=origin),
        ):
            assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_a_stopping_server_is_not_ready_and_still_answers(house: House) -> None:
    house.parts.server.stop()
    async with house.client("ann") as ann:
        answer = await ann.get("/v0/ready")
        assert (answer.status_code, answer.json()["code"]) == (503, "SERVICE_UNAVAILABLE")
        assert (await ann.get("/v0/executions")).status_code == 200


async def test_a_revoked_key_opens_no_stream_and_its_open_one_ends(house: House) -> None:
    key = house.crowd.texts["agent"]
    revocable = house.parts.revocable
    assert revocable is not None
    path = "/v0/agents/stream?agent_id=a&consumer_id="
    async with house.client("agent") as client, house.client("admin") as other:
        async with client.stream("GET", f"{path}c") as stream, other.stream("GET", f"{path}d"):
            assert stream.status_code == 200
            assert revocable.look() == 0
            house.crowd.file.revoke(key.split("_")[1])
            assert revocable.look() == 1
            with pytest.raises(httpx.RemoteProtocolError):
                await stream.aread()
        assert (await client.get(f"{path}c")).status_code == 401
    assert revocable.look() == 0

"""The calls of the wire, one by one, and what clients of it trip over."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from agentic_kernel_engine import MemoryStore
from agentic_kernel_server import Server
from agentic_kernel_server.identity import LAST_SEQUENCE

from .serving import QUICK, serving


class Wire:
    """A raw client, with what it has read from its streams."""

    def __init__(self, http: httpx.AsyncClient, server: Server, stack: AsyncExitStack) -> None:
        self.http = http
        self.server = server
        self.stack = stack
        self.streams: list[AsyncIterator[Any]] = []
        """Held, because a stream that nothing reads any more is closed, and its agent is lost."""

    async def post(self, path: str, body: Any = None, code: int = 200) -> Any:
        """The JSON of the answer, which has this status."""
        answer = await self.http.post(path, json=body)
        assert answer.status_code == code, (answer.status_code, answer.text)
        return answer.json()

    async def get(self, path: str, code: int = 200, **query: Any) -> Any:
        """The JSON of the answer, which has this status."""
        answer = await self.http.get(path, params=query)
        assert answer.status_code == code, (answer.status_code, answer.text)
        return answer.json()

    async def create(self, agent: str = "swe", **body: Any) -> str:
        """The id of a new execution."""
        made = await self.post("/v0/executions", {"agent_id": agent, **body}, 201)
        return str(made["id"])

    async def stream(self, path: str, headers: Any = None, **query: Any) -> AsyncIterator[Any]:
        """The events of a stream that is open, each a dict with ``event``, ``id`` and ``data``."""
        opened = self.http.stream("GET", path, params=query, headers=headers, timeout=None)
        response = await self.stack.enter_async_context(opened)
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        self.streams.append(_events(response))
        return self.streams[-1]

    async def agent(self, agent: str = "swe", consumer: str = "c") -> AsyncIterator[Any]:
        """The stream of an agent."""
        return await self.stream("/v0/agents/stream", agent_id=agent, consumer_id=consumer)

    async def intent(self, assigned: Any, code: int = 200, **intent: Any) -> Any:
        """Submit an intent for the execution that was assigned."""
        body = {
            "execution_id": assigned["execution_id"],
            "session_id": assigned["session_id"],
            "intent": intent,
        }
        return await self.post("/v0/agents/intent", body, code)


async def _events(response: httpx.Response) -> AsyncIterator[Any]:
    found: dict[str, Any] = {}
    async for line in response.aiter_lines():
        assert line.isascii()
        if not line and found:
            yield {**found, "data": json.loads(found["data"])}
            found = {}
        elif line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            found[name] = value


async def following(events: AsyncIterator[Any], kind: str) -> Any:
    """The data of the next event of a type."""
    async for event in events:
        if event["event"] == kind:
            return event["data"]
    raise AssertionError(f"the stream ended before {kind}")


@pytest.fixture
async def wire() -> AsyncIterator[Wire]:
    async with AsyncExitStack() as stack:
        url, server = await stack.enter_async_context(serving(MemoryStore()))
        http = await stack.enter_async_context(httpx.AsyncClient(base_url=url, timeout=10))
        yield Wire(http, server, stack)


def nulls(value: Any, at: str = "") -> list[str]:
    """The places of every null."""
    if isinstance(value, dict):
        return [each for key, inner in value.items() for each in nulls(inner, key)]
    if isinstance(value, list):
        return [each for inner in value for each in nulls(inner, at)]
    return [at] if value is None else []


async def test_an_idempotency_key_creates_one_execution(wire: Wire) -> None:
    body = {"agent_id": "swe", "input": {"a": 1}, "idempotency_key": "k"}
    one = await wire.post("/v0/executions", body, 201)
    two = await wire.post("/v0/executions", body, 201)
    assert one["id"] == two["id"]
    other = await wire.post("/v0/executions", {**body, "input": 2}, 409)
    assert other["code"] == "CONFLICT"
    assert other["details"] == {"execution_id": one["id"]}


async def test_a_list_is_newest_first_and_goes_on_at_its_cursor(wire: Wire) -> None:
    ids = [await wire.create(f"agent {n % 2}", labels={"n%:": str(n)}) for n in range(5)]
    seen, cursor = [], ""
    while True:
        page = await wire.get("/v0/executions", limit=2, cursor=cursor)
        seen += [each["id"] for each in page["executions"]]
        cursor = page["next_cursor"]
        if not cursor:
            break
    assert seen == ids[::-1]
    found = await wire.get("/v0/executions", agent_id="agent 1")
    assert [each["id"] for each in found["executions"]] == [ids[3], ids[1]]
    assert (await wire.get("/v0/executions", status="running"))["executions"] == []
    assert (await wire.get("/v0/executions", 400, limit=201))["code"] == "VALIDATION_ERROR"


@pytest.mark.parametrize("name", ["swe", "a/b", "ünï ✓", "agent/%2F", "a" * 128, "%"])
async def test_any_printable_text_is_an_agent(wire: Wire, name: str) -> None:
    id = await wire.create(name, labels={name: name})
    shown = await wire.get(f"/v0/executions/{id}")
    assert (shown["agent_id"], shown["labels"]) == (name, {name: name})
    assigned = await following(await wire.agent(name), "execution.assigned")
    assert assigned["execution_id"] == id
    assert assigned["agent_id"] == name


async def test_no_null_but_where_the_wire_has_them(wire: Wire) -> None:
    id = await wire.create()
    agent = await wire.agent()
    assigned = await following(agent, "execution.assigned")
    done = await wire.intent(assigned, type="invoke_tool", tool_id="t")
    result = {**IDS(assigned), "step_id": done["step_id"], "success": True}
    answers = [assigned, done, await wire.post("/v0/agents/step-result", result)]
    answers.append(await wire.intent(assigned, type="complete"))
    answers.append(await wire.get(f"/v0/executions/{id}"))
    answers.append(await wire.get(f"/v0/executions/{id}/events"))
    answers.append(await wire.get("/v0/executions"))
    assert set(nulls(answers)) <= {"input", "output", "payload", "arguments", "result"}


def IDS(assigned: Any) -> dict[str, str]:  # noqa: N802
    return {key: assigned[key] for key in ("execution_id", "session_id")}


async def test_a_repeated_end_is_answered_like_the_first(wire: Wire) -> None:
    await wire.create()
    agent = await wire.agent()
    assigned = await following(agent, "execution.assigned")
    first = await wire.intent(assigned, type="complete", output=1)
    assert await wire.intent(assigned, type="complete", output=1) == first == {"accepted": True}
    late = await wire.intent(assigned, 409, type="invoke_tool", tool_id="t")
    assert late["code"] == "CONFLICT"
    await wire.create()
    assigned = await following(agent, "execution.assigned")
    assert (await wire.intent(assigned, type="fail"))["accepted"]
    assert (await wire.intent(assigned, type="fail"))["accepted"]
    shown = await wire.get(f"/v0/executions/{assigned['execution_id']}")
    assert shown["status"] == "failed"
    assert "without a message" in shown["error"]


async def test_a_wrong_session_is_told_so_and_changes_nothing(wire: Wire) -> None:
    id = await wire.create()
    assigned = await following(await wire.agent(), "execution.assigned")
    wrong = {**assigned, "session_id": "another"}
    told = await wire.intent(wrong, 401, type="complete")
    assert told["code"] == "UNAUTHORIZED"
    assert "session expired" in told["error"]
    assert (await wire.get(f"/v0/executions/{id}"))["status"] == "running"


async def test_complete_is_refused_while_a_step_is_open(wire: Wire) -> None:
    await wire.create()
    assigned = await following(await wire.agent(), "execution.assigned")
    step = await wire.intent(assigned, type="invoke_tool", tool_id="t", arguments={"a": 1})
    assert (await wire.get(f"/v0/executions/{assigned['execution_id']}"))["status"] == "blocked"
    refused = await wire.intent(assigned, 409, type="complete")
    assert step["step_id"] in refused["error"]


async def test_an_awaited_signal_hinders_no_other_intent(wire: Wire) -> None:
    id = await wire.create()
    agent = await wire.agent()
    assigned = await following(agent, "execution.assigned")
    wait: Any = {"type": "wait", "signal_type": "go"}
    assert await wire.intent(assigned, **wait) == await wire.intent(assigned, **wait)
    step = await wire.intent(assigned, type="invoke_tool", tool_id="t")
    assert step["accepted"]
    body = {**IDS(assigned), "step_id": step["step_id"], "success": True}
    await wire.post("/v0/agents/step-result", body)
    assert (await wire.intent(assigned, type="complete", output=2))["accepted"]
    assert (await wire.get(f"/v0/executions/{id}"))["output"] == 2


async def test_a_stream_resumes_after_any_event_without_gap_or_duplicate(wire: Wire) -> None:
    id = await wire.create()
    assigned = await following(await wire.agent(), "execution.assigned")
    live = await wire.stream(f"/v0/executions/{id}/stream")
    head = [await anext(live), await anext(live)]
    for n in range(3):
        step = await wire.intent(assigned, type="invoke_tool", tool_id=f"t{n}\u2028")
        body = {**IDS(assigned), "step_id": step["step_id"], "success": True, "data": "\x85"}
        await wire.post("/v0/agents/step-result", body)
    await wire.intent(assigned, type="complete")
    told = head + [event async for event in live]
    ids = [int(event["id"]) for event in told]
    assert ids == sorted(set(ids))
    assert told[-1]["event"] == "execution.completed"
    assert [event["data"]["sequence"] for event in told] == ids
    for index, last in enumerate(ids):
        resumed = await wire.stream(
            f"/v0/executions/{id}/stream", headers={"Last-Event-ID": str(last)}
        )
        assert [int(event["id"]) async for event in resumed] == ids[index + 1 :]
    page = await wire.get(f"/v0/executions/{id}/events", limit=4)
    assert [each["sequence"] for each in page["events"]] == ids[:4]
    assert page["latest_sequence"] >= ids[-1]
    rest = await wire.get(f"/v0/executions/{id}/events", after_sequence=ids[3])
    assert [each["sequence"] for each in rest["events"]] == ids[4:]
    assert rest["latest_sequence"] == ids[-1]
    assert rest["events"][-2]["payload"] == {"result": "\x85"}


async def test_an_idle_stream_beats_and_a_stopping_server_cuts_it(wire: Wire) -> None:
    settings = replace(QUICK, heartbeat=0.01)
    async with (
        serving(MemoryStore(), settings) as (url, server),
        httpx.AsyncClient(base_url=url) as http,
    ):
        query = {"agent_id": "swe", "consumer_id": "c"}
        async with http.stream("GET", "/v0/agents/stream", params=query) as response:
            lines = response.aiter_lines()
            beats = [await anext(lines) for _ in range(6)]
            assert beats == [": beat", ""] * 3
            await server.drain(timeout=1.0)
            with pytest.raises(httpx.RemoteProtocolError):
                async for _ in lines:
                    pass


async def test_a_newer_stream_of_a_consumer_cuts_the_older(wire: Wire) -> None:
    first = await wire.agent()
    second = await wire.agent()
    with pytest.raises(httpx.RemoteProtocolError):
        await anext(first)
    await wire.create()
    assert await following(second, "execution.assigned")


async def test_executions_go_round_the_consumers_of_an_agent(wire: Wire) -> None:
    streams = [await wire.agent(consumer=f"c{n}") for n in range(3)]
    while wire.server.counts()["agent_streams"] < 3:
        await asyncio.sleep(0.005)
    ids = [await wire.create() for _ in range(6)]
    got = [
        [(await following(each, "execution.assigned"))["execution_id"] for _ in range(2)]
        for each in streams
    ]
    assert sorted(id for each in got for id in each) == sorted(ids)


async def test_a_late_result_is_refused_and_frees_the_runner(wire: Wire) -> None:
    quick = replace(QUICK, step_timeout=0.2)
    async with AsyncExitStack() as stack:
        url, server = await stack.enter_async_context(serving(MemoryStore(), quick))
        http = await stack.enter_async_context(httpx.AsyncClient(base_url=url, timeout=10))
        there = Wire(http, server, stack)
        query = {"runner_id": "r", "consumer_id": "c", "capabilities": "compute.*"}
        runner = await there.stream("/v0/runners/stream", **query)
        await there.create()
        agent = await there.agent()
        assigned = await following(agent, "execution.assigned")
        call: Any = {"type": "invoke_tool", "tool_id": "compute.x", "remote": True}
        await there.intent(assigned, **call, arguments={"n": 1})
        job = await following(runner, "job.assigned")
        assert (await following(agent, "tool.result"))["status"] == "failed"
        result = {"job_id": job["id"], "success": True}
        result |= {key: job[key] for key in ("execution_id", "step_id")}
        refused = await there.post("/v0/runners/r/results", result, 409)
        assert refused["code"] == "CONFLICT"
        await there.intent(assigned, **call, arguments={"n": 2})
        assert (await following(runner, "job.assigned"))["arguments"] == {"n": 2}


async def test_a_step_that_no_runner_offers_says_so_at_its_deadline(wire: Wire) -> None:
    quick = replace(QUICK, step_timeout=0.2)
    async with AsyncExitStack() as stack:
        url, server = await stack.enter_async_context(serving(MemoryStore(), quick))
        http = await stack.enter_async_context(httpx.AsyncClient(base_url=url, timeout=10))
        there = Wire(http, server, stack)
        await there.create()
        agent = await there.agent()
        assigned = await following(agent, "execution.assigned")
        await there.intent(assigned, type="invoke_tool", tool_id="compute.x", remote=True)
        told = await following(agent, "tool.result")
        assert "no runner that offers 'compute.x'" in told["error"]


async def test_what_a_runner_publishes_is_listed_by_its_prefix_until_it_is_withdrawn(
    wire: Wire,
) -> None:
    tools = [{"id": id, "description": id.upper()} for id in ("a", "a.b", "a_c", "ab")]
    await wire.post("/v0/runners/r/tools", {"tools": [{"id": "old"}]})
    assert await wire.post("/v0/runners/r/tools", {"tools": tools}) == {"published": 4}
    listed = await wire.get("/v0/tools", prefix="a")
    assert [each["id"] for each in listed] == ["a", "a.b", "a_c"]
    assert listed[0]["runner_id"] == "r"
    assert listed[0]["input_schema"] == {}
    assert len(await wire.get("/v0/tools")) == 4
    answer = await wire.http.delete("/v0/runners/r")
    assert answer.json() == {"accepted": True}
    assert await wire.get("/v0/tools") == []
    assert (await wire.http.delete("/v0/runners/r")).status_code == 404


async def test_a_runner_changes_what_it_offers(wire: Wire) -> None:
    query = {"runner_id": "r", "consumer_id": "c"}
    runner = await wire.stream("/v0/runners/stream", **query)
    while not wire.server.counts()["runner_streams"]:
        await asyncio.sleep(0.005)
    await wire.create()
    assigned = await following(await wire.agent(), "execution.assigned")
    await wire.intent(assigned, type="invoke_tool", tool_id="late.tool", remote=True)
    while (await wire.http.post("/v0/runners/r/capabilities", json={"tools": ["late.*"]})).is_error:
        await asyncio.sleep(0.005)
    assert (await following(runner, "job.assigned"))["tool_id"] == "late.tool"


async def test_an_execution_without_an_agent_ends_at_its_deadline(wire: Wire) -> None:
    id = await wire.create(timeout=0.05)
    live = await wire.stream(f"/v0/executions/{id}/stream")
    told = await following(live, "execution.failed")
    assert told["payload"]["code"] == "server/execution_timeout"
    assert "while no agent had it; start an agent" in told["payload"]["error"]


async def test_an_empty_body_cancels(wire: Wire) -> None:
    id = await wire.create()
    headers = {"content-type": "application/json"}
    answer = await wire.http.post(f"/v0/executions/{id}/cancel", content=b"", headers=headers)
    assert answer.json()["status"] == "cancelled"
    refused = await wire.post(f"/v0/executions/{id}/signal", {"signal_type": "go"}, 409)
    assert refused == {
        "error": "the execution has ended: cancelled",
        "code": "CONFLICT",
        "details": {},
    }


async def test_an_end_that_differs_from_the_first_is_a_conflict(wire: Wire) -> None:
    for first, other in (
        (
            {"type": "complete", "output": {"a": 1, "b": 2}},
            {"type": "complete", "output": {"a": 2}},
        ),
        ({"type": "fail", "error": "one"}, {"type": "fail", "error": "two"}),
    ):
        await wire.create()
        agent = await wire.agent()
        assigned = await following(agent, "execution.assigned")
        await wire.intent(assigned, **first)
        await wire.intent(assigned, **first)
        said = await wire.intent(assigned, 409, **other)
        assert "with another end" in said["error"]


async def test_a_local_result_that_differs_from_the_first_is_a_conflict(wire: Wire) -> None:
    await wire.create()
    agent = await wire.agent()
    assigned = await following(agent, "execution.assigned")
    begun = await wire.intent(assigned, type="invoke_tool", tool_id="t", arguments={})
    report = {**IDS(assigned), "step_id": begun["step_id"], "success": True, "data": {"a": 1}}
    await wire.post("/v0/agents/step-result", report)
    await wire.post("/v0/agents/step-result", report)
    said = await wire.post("/v0/agents/step-result", {**report, "data": {"a": 2}}, 409)
    assert "another one than before" in said["error"]


async def test_a_runners_report_may_be_repeated_but_not_changed(wire: Wire) -> None:
    query = {"runner_id": "r", "consumer_id": "c", "capabilities": "compute.*"}
    runner = await wire.stream("/v0/runners/stream", **query)
    await wire.create()
    agent = await wire.agent()
    assigned = await following(agent, "execution.assigned")
    call: Any = {"type": "invoke_tool", "tool_id": "compute.x", "remote": True}
    reports: list[dict[str, Any]] = [{"success": True, "data": {"n": 1}}, {"success": False}]
    for number, report in enumerate(reports):
        await wire.intent(assigned, **call, arguments={"n": number})
        job = await following(runner, "job.assigned")
        body: Any = {"job_id": job["id"], "execution_id": job["execution_id"], **report}
        body["step_id"] = job["step_id"]
        await wire.post("/v0/runners/r/results", body)
        await wire.post("/v0/runners/r/results", body)
        await wire.post("/v0/runners/r/results", {**body, "success": not body["success"]}, 409)
        await wire.post("/v0/runners/r/results", {**body, "data": 2, "error": "other"}, 409)


async def test_an_idempotency_key_with_another_timeout_is_a_conflict(wire: Wire) -> None:
    body = {"agent_id": "swe", "idempotency_key": "k", "timeout": 50}
    await wire.post("/v0/executions", body, 201)
    await wire.post("/v0/executions", body, 201)
    await wire.post("/v0/executions", {**body, "timeout": 60}, 409)


async def test_the_latest_sequence_is_not_beyond_the_last_event(wire: Wire) -> None:
    id = await wire.create()
    last = (await wire.get(f"/v0/executions/{id}/events"))["latest_sequence"]
    page = await wire.get(f"/v0/executions/{id}/events", after_sequence=LAST_SEQUENCE)
    assert page["events"] == []
    assert last <= page["latest_sequence"] < LAST_SEQUENCE


async def test_a_head_request_opens_no_stream(wire: Wire) -> None:
    query = {"agent_id": "swe", "consumer_id": "c"}
    answer = await wire.http.head("/v0/agents/stream", params=query)
    assert answer.status_code == 404
    assert wire.server.counts()["agent_streams"] == 0


@pytest.mark.parametrize("name", ["team/r", ".", ".."])
async def test_a_runner_whose_id_fits_no_path_is_refused(wire: Wire, name: str) -> None:
    query = {"runner_id": name, "consumer_id": "c"}
    assert "runner_id" in (await wire.get("/v0/runners/stream", 400, **query))["error"]


async def test_an_approval_that_was_denied_is_a_conflict_like_one_that_was_granted(
    wire: Wire,
) -> None:
    id = await wire.create()
    agent = await wire.agent()
    assigned = await following(agent, "execution.assigned")
    path = f"/v0/executions/{id}/signal"
    for approved in (True, False):
        asked = await wire.intent(assigned, type="invoke_tool", tool_id=f"danger.{approved}")
        payload = {"step_id": asked["step_id"], "approved": approved}
        await wire.post(path, {"signal_type": "step.approve", "payload": payload})
        await following(agent, "approval.resolved")
        await wire.post(path, {"signal_type": "step.approve", "payload": payload}, 409)
    payload = {"step_id": f"{id}.9", "approved": True}
    await wire.post(path, {"signal_type": "step.approve", "payload": payload}, 404)

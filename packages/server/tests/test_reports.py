"""A runner reports its own jobs, and no others."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
import rebuno
from msgspec.structs import replace

from agentic_kernel_engine import MemoryStore

from .clients import agent, runner, seen
from .serving import QUICK, serving
from .test_sessions import square, squares

PATIENT = replace(QUICK, agent_timeout=30.0, hold=2.0)
FOREIGN: dict[str, dict[str, Any]] = {
    "another runner": {"path": "other"},
    "a runner that does not exist": {"path": "nobody"},
    "another consumer": {"consumer_id": "someone"},
    "another job": {"job_id": "none"},
}


@pytest.mark.parametrize("ways", [1, 2], ids=["the owner", "another process"])
@pytest.mark.parametrize("success", [True, False])
async def test_a_report_of_another_runner_changes_nothing(ways: int, success: bool) -> None:
    go = asyncio.Event()
    calls: list[int] = []

    async def handler() -> Any:
        return await square(7)

    store = MemoryStore()
    async with (
        serving(store, PATIENT) as (url, server),
        serving(store, PATIENT) as (other, _),
        rebuno.Client(url) as client,
        runner(url, "r", squares(calls, go)),
        agent(url, "swe", handler),
        httpx.AsyncClient(base_url=(url, other)[ways - 1]) as web,
    ):
        made = await client.create("swe", {})
        told = await seen(client, made.id, "step.started")
        step = told[-1].step_id
        report = {
            "job_id": f"{step}.1", "step_id": step, "execution_id": made.id, "success": success,
            "data": "forged", "error": "forged", "retryable": True,
        }  # fmt: skip
        for what in FOREIGN.values():
            body = {**report, **what}
            path = f"/v0/runners/{body.pop('path', 'r')}/results"
            refused = await web.post(path, json=body)
            assert refused.status_code == 409, (what, refused.text)
        body = {"execution_id": made.id, "runner_id": "other"}
        begun = await web.post(f"/v0/runners/steps/{step}/started", json=body)
        assert begun.status_code == 409, begun.text
        (busy,) = server.parts.runners._busy.values()  # The runner still has its job.
        assert busy == f"{step}.1"
        strange = {**report, "execution_id": "elsewhere"}
        refused = await web.post("/v0/runners/r/results", json=strange)
        assert refused.status_code == 409, refused.text
        go.set()
        done = [event async for event in client.events(made.id)]
    assert done[-1].payload == {"output": 49}
    assert "step.retried" not in [event.type for event in done]
    assert calls == [7]

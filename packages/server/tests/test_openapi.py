"""The OpenAPI document: it describes every call, and real answers fit it."""

from __future__ import annotations

import json
from typing import Any

import httpx
import jsonschema_rs
import pytest

from agentic_kernel_engine import MemoryStore
from agentic_kernel_server.errors import STATUS
from agentic_kernel_server.openapi import document
from agentic_kernel_server.routes import ROUTES

from .fronts import fronted

DOCUMENT: dict[str, Any] = json.loads(document())


def test_it_describes_every_call() -> None:
    described = {
        (method.upper(), path) for path, calls in DOCUMENT["paths"].items() for method in calls
    }
    assert described >= {(call.method, call.path) for call in ROUTES}
    named = ("/metrics", "/v0/health", "/v0/openapi.json", "/v0/ready")
    assert {path for path in DOCUMENT["paths"] if ("GET", path) in described} >= set(named)
    assert len(described) == len(ROUTES) + len(named)
    names = [
        call["operationId"]
        for calls in DOCUMENT["paths"].values()
        for call in calls.values()
        if "operationId" in call
    ]
    assert len(names) == len(set(names)) == len(ROUTES)


def test_every_field_of_a_request_says_what_it_is() -> None:
    bodies = {call.body.__name__ for call in ROUTES if call.body is not None}
    schemas = DOCUMENT["components"]["schemas"]
    bodies |= {name for name in ("IntentBody", "ToolSchema") if name in schemas}
    fields = {
        f"{name}.{field}": each
        for name in sorted(bodies)
        for field, each in schemas[name]["properties"].items()
    }
    parameters = {
        f"{path} {each['name']}": each
        for path, calls in DOCUMENT["paths"].items()
        for call in calls.values()
        for each in call.get("parameters", [])
    }
    assert len(fields) > 30
    assert len(parameters) > 20
    silent = [
        name for name, each in {**fields, **parameters}.items() if not each.get("description")
    ]
    assert silent == []


def test_it_names_the_words_and_the_forms_of_the_wire() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert schemas["Execution"]["properties"]["status"]["enum"] == [
        "pending", "running", "blocked", "completed", "failed", "cancelled",
    ]  # fmt: skip
    assert schemas["IntentBody"]["properties"]["type"]["enum"] == [
        "invoke_tool", "wait", "complete", "fail",
    ]  # fmt: skip
    assert schemas["ErrorBody"]["properties"]["code"]["enum"] == list(STATUS)
    assert schemas["EventShape"]["properties"]["timestamp"]["format"] == "date-time"
    heads = {
        each["name"]: path
        for path, calls in DOCUMENT["paths"].items()
        for call in calls.values()
        for each in call.get("parameters", [])
        if each["in"] == "header"
    }
    assert heads == {
        "Idempotency-Key": "/v0/executions",
        "Last-Event-ID": "/v0/executions/{id}/stream",
    }
    signal = DOCUMENT["paths"]["/v0/executions/{id}/signal"]["post"]["description"]
    assert "`client`" in signal
    assert "`approver`" in signal


def test_every_reference_leads_somewhere() -> None:
    text = document().decode()
    for name in DOCUMENT["components"]["schemas"]:
        text = text.replace(f'"#/components/schemas/{name}"', '""')
    assert "#/components" not in text


def fits(answer: httpx.Response, method: str, path: str) -> None:
    said = DOCUMENT["paths"][path][method]["responses"][str(answer.status_code)]
    schema = said["content"]["application/json"]["schema"]
    whole = {**schema, "components": DOCUMENT["components"]}
    jsonschema_rs.validator_for(whole).validate(answer.json())


async def test_real_answers_fit_it() -> None:
    async with fronted(MemoryStore()) as (url, _), httpx.AsyncClient(base_url=url) as client:
        body = {"agent_id": "swe", "input": [1, None, {"a": 1.5}], "labels": {"a": "b"}}
        made = await client.post("/v0/executions", json=body)
        fits(made, "post", "/v0/executions")
        id = made.json()["id"]
        fits(await client.get("/v0/executions"), "get", "/v0/executions")
        fits(await client.get("/v0/executions?limit=0"), "get", "/v0/executions")
        there = f"/v0/executions/{id}"
        fits(await client.get(there), "get", "/v0/executions/{id}")
        fits(await client.get("/v0/executions/x"), "get", "/v0/executions/{id}")
        fits(await client.get(f"{there}/events"), "get", "/v0/executions/{id}/events")
        signal = await client.post(f"{there}/signal", json={"signal_type": "x"})
        fits(signal, "post", "/v0/executions/{id}/signal")
        fits(await client.post(f"{there}/cancel"), "post", "/v0/executions/{id}/cancel")
        tools = {"tools": [{"id": "a.b"}]}
        published = await client.post("/v0/runners/r/tools", json=tools)
        fits(published, "post", "/v0/runners/{id}/tools")
        fits(await client.get("/v0/tools"), "get", "/v0/tools")
        fits(await client.get("/v0/health"), "get", "/v0/health")
        fits(await client.get("/v0/ready"), "get", "/v0/ready")
        assert (await client.get("/v0/openapi.json")).content == document()
        figures = await client.get("/metrics")
        said = DOCUMENT["paths"]["/metrics"]["get"]["responses"][str(figures.status_code)]
        assert figures.headers["content-type"].partition(";")[0] in said["content"]


@pytest.mark.parametrize("call", ROUTES, ids=lambda call: f"{call.method} {call.path}")
def test_a_call_names_its_parameters_and_its_scope(call: Any) -> None:
    said = DOCUMENT["paths"][call.path][call.method.lower()]
    named = {each["name"] for each in said["parameters"] if each["in"] == "path"}
    assert {f"{{{name}}}" in call.path for name in named} <= {True}
    assert call.path.count("{") == len(named)
    assert call.scope in said["description"]
    assert ("requestBody" in said) == (call.body is not None)

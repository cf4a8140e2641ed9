"""The logs, the figures and the traces of a server."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentic_kernel_engine import MemoryStore
from agentic_kernel_server import Settings
from agentic_kernel_server.observing.logs import MAX_TEXT, JsonLines, scrubbed
from agentic_kernel_server.observing.metrics import HELP, PREFIX, Metrics
from agentic_kernel_server.observing.requests import Observed
from agentic_kernel_server.policy import Policies
from agentic_kernel_server.serving import Options
from agentic_kernel_server.serving.processes import tell

from .fronts import Crowd, fronted

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
KEY = "ak_0123456789ab_" + "Z" * 43


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """The records of one logger, as the command writes them."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(JsonLines())
    root = logging.getLogger("agentic_kernel_server")
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield text
    root.removeHandler(handler)
    root.setLevel(logging.NOTSET)


def record(message: str, *values: Any, **more: Any) -> dict[str, Any]:
    made = logging.LogRecord("x", logging.WARNING, "", 0, message, values, None)
    made.__dict__.update(more)
    line = JsonLines().format(made)
    assert "\n" not in line
    assert line.isascii()
    found: dict[str, Any] = json.loads(line)
    return found


@pytest.mark.parametrize(
    "text",
    [
        KEY,
        f"key={KEY}&x=1",
        f"Authorization: Bearer {KEY}",
        "authorization: bearer abcdef.ghijkl",
        "Basic dXNlcjpwYXNzd29yZA==",
        "postgresql://ann:hunter2@db/x",
        f"{{'a': ['{KEY}']}}",
    ],
)
def test_secrets_are_not_in_a_record(text: str) -> None:
    for found in (
        record("%s", text),
        record(text),
        record("x", extra=text),
        record("x", e={text: text}),
    ):
        said = json.dumps(found)
        for secret in ("Z" * 43, "abcdef.ghijkl", "dXNlcjpwYXNzd29yZA", "hunter2"):
            assert secret not in said


def test_the_log_begins_with_the_place_the_policy_and_the_keys(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    tell(Options(), None, None)
    assert [each.levelname for each in caplog.records] == ["WARNING", "WARNING"]
    assert "give --policy" in caplog.text
    assert "give --keys" in caplog.text
    caplog.clear()
    crowd = Crowd(tmp_path)
    crowd.key("ann", "client")
    crowd.key("bob", "client")
    crowd.file.revoke(crowd.file.read()[1].id)
    options = Options(
        place="state", policy=tmp_path, keys=crowd.file.path, settings=Settings(retention=7_200.0)
    )
    tell(options, Policies(), crowd.file.read())
    kept, decides, asks = [each.getMessage() for each in caplog.records]
    assert "in state;" in kept
    assert "2 hours after its end" in kept
    assert decides.endswith("rules: 0")
    assert asks.endswith("usable keys: 1")


def test_a_record_is_one_line_whatever_is_in_it() -> None:
    found = record("a\nb \x1b[31m \u2028 %s", "\ud800")
    assert found["message"].startswith("a\nb \x1b[31m")
    assert len(record("x" * 1_000_000)["message"]) <= MAX_TEXT + 1
    assert "cannot be formatted" in record("%d", "x")["message"]


def test_a_traceback_is_in_its_record_without_secrets() -> None:
    try:
        raise ValueError(KEY)
    except ValueError:
        made = logging.LogRecord("x", logging.ERROR, "", 0, "failed", (), sys.exc_info())
    found = json.loads(JsonLines().format(made))
    assert "ValueError" in found["error"]
    assert "Z" * 43 not in found["error"]


def test_secrets_are_found_in_linear_time() -> None:
    for text in ("://" * 100_000, "bearer " * 50_000, ":" * 300_000, "ak_" * 100_000):
        assert len(scrubbed(text)) <= MAX_TEXT + 20


def test_a_figure_is_counted_observed_and_read() -> None:
    metrics = Metrics()
    metrics.count("jobs", kind="a")
    metrics.count("jobs", 2, kind="b")
    metrics.observe("wait_seconds", 0.02)
    value = 3.0
    metrics.gauge("streams", lambda: value)
    text = metrics.text().decode()
    assert 'agentic_kernel_server_jobs_total{kind="b"} 2.0' in text
    assert 'agentic_kernel_server_wait_seconds_bucket{le="0.025"} 1.0' in text
    assert "agentic_kernel_server_streams 3.0" in text
    value = 4.0
    assert "agentic_kernel_server_streams 4.0" in metrics.text().decode()


async def test_every_figure_says_what_it_is() -> None:
    async with fronted(MemoryStore()) as (url, _), httpx.AsyncClient(base_url=url) as client:
        await client.post("/v0/executions", json={"agent_id": "swe"})
        text = (await client.get("/metrics")).text
    said = dict(
        line.removeprefix("# HELP ").split(" ", 1) for line in text.splitlines() if "HELP" in line
    )
    names = {name.removeprefix(PREFIX).removesuffix("_total"): what for name, what in said.items()}
    assert len(names) > 5
    for name, what in names.items():
        assert what == HELP[name if name in HELP else name.removesuffix("_created")]


async def test_a_request_is_logged_once_with_its_route_and_its_trace(log: io.StringIO) -> None:
    async with fronted(MemoryStore()) as (url, _), httpx.AsyncClient(base_url=url) as client:
        answer = await client.get(
            "/v0/executions/x?secret=1", headers={"traceparent": PARENT, "host": "localhost"}
        )
        assert answer.status_code == 404
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    (found,) = [line for line in lines if line.get("route") == "/v0/executions/{id}"]
    assert (found["status"], found["trace"]) == (404, TRACE)
    assert found["request"] == answer.headers["x-request-id"]
    assert "secret" not in log.getvalue()


async def test_a_record_names_the_caller_the_execution_and_the_process(
    log: io.StringIO, tmp_path: Path
) -> None:
    crowd = Crowd(tmp_path)
    crowd.key("ann", "admin", tenant="red")
    headers = {"authorization": f"Bearer {crowd.texts['ann']}"}
    body = {"agent_id": "swe", "input": "hush"}
    query = {"agent_id": "swe", "consumer_id": "c"}
    async with (
        fronted(MemoryStore(), keys=crowd.file.path) as (url, _),
        httpx.AsyncClient(base_url=url, headers=headers) as client,
    ):
        made = (await client.post("/v0/executions", json=body)).json()["id"]
        await client.get(f"/v0/executions/{made}")
        intent = {"execution_id": made, "session_id": "x", "intent": {"type": "fail"}}
        await client.post("/v0/agents/intent", json=intent)
        await client.post("/v0/runners/r/tools", json={"tools": []})
        async with client.stream("GET", "/v0/agents/stream", params=query):
            await told(log, "GET /v0/agents/stream open")
    records = [json.loads(line) for line in log.getvalue().splitlines()]
    named = [each for each in records if each.get("principal") == "ann"]
    assert {each["tenant"] for each in named} == {"red"}
    assert {each["process"] for each in records} == {os.getpid()}
    assert [each.get("execution") for each in named if each["route"].startswith("/v0/ex")] == [
        made, made,
    ]  # fmt: skip
    assert [each["execution"] for each in named if each["route"] == "/v0/agents/intent"] == [made]
    runner = [each for each in named if each["route"] == "/v0/runners/{id}/tools"]
    assert [each["runner"] for each in runner] == ["r"]
    opened = [each for each in named if each["route"] == "/v0/agents/stream"]
    assert (opened[0]["agent"], opened[0]["consumer"]) == ("swe", "c")
    assert "hush" not in log.getvalue()


async def told(log: io.StringIO, text: str) -> None:
    """Wait until the log has a text."""
    async with asyncio.timeout(10):
        while text not in log.getvalue():
            await asyncio.sleep(0.005)


async def test_an_agent_that_was_lost_is_in_the_log(log: io.StringIO) -> None:
    query = {"agent_id": "swe", "consumer_id": "c"}
    async with fronted(MemoryStore()) as (url, _), httpx.AsyncClient(base_url=url) as client:
        async with client.stream("GET", "/v0/agents/stream", params=query):
            await told(log, "GET /v0/agents/stream open")
        await told(log, "the consumer 'c' of the agent 'swe' had no stream for")


async def test_paths_that_no_route_serves_are_one_label() -> None:
    async with fronted(MemoryStore()) as (url, parts), httpx.AsyncClient(base_url=url) as client:
        for number in range(5):
            await client.get(f"/none/{number}")
            await client.request(f"X{number}", "/v0/executions")
    text = parts.metrics.text().decode()
    assert 'method="GET",route="other",status="404"} 5.0' in text
    assert 'method="other",route="/v0/executions",status="404"} 5.0' in text


async def test_the_context_of_a_trace_goes_in_and_out() -> None:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    from agentic_kernel_server.observing import tracing

    async with fronted(MemoryStore()) as (url, _), httpx.AsyncClient(base_url=url) as client:
        bare = await client.get("/v0/health", headers={"traceparent": PARENT})
        assert bare.headers["traceparent"].split("-")[1] == TRACE  # It passes through.
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(trace, "get_tracer", provider.get_tracer)
            answer = await client.get("/v0/executions/x", headers={"traceparent": PARENT})
            patched.setattr(tracing, "trace", None)
            without = await client.get("/v0/health", headers={"traceparent": PARENT})
    (span,) = spans.get_finished_spans()
    assert span.name == "GET /v0/executions/{id}"
    assert span.context is not None
    assert f"{span.context.trace_id:032x}" == TRACE
    assert span.parent is not None
    assert f"{span.parent.span_id:016x}" == "00f067aa0ba902b7"
    assert answer.headers["traceparent"] == f"00-{TRACE}-{span.context.span_id:016x}-01"
    assert "traceparent" not in without.headers


@pytest.mark.parametrize("name", ["httpx_sse", "opentelemetry"])
def test_what_extras_bring_is_not_needed_to_import_the_rest(name: str) -> None:
    script = (
        f"import sys; sys.modules[{name!r}] = None\n"
        "import agentic_kernel_server.tool_runner, agentic_kernel_server.observing.tracing\n"
        "assert not (agentic_kernel_server.tool_runner.INSTALLED"
        " and agentic_kernel_server.observing.tracing.trace)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


async def test_other_traffic_of_asgi_passes_through() -> None:
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    async def nothing(*message: Any) -> Any:
        raise AssertionError

    await Observed(app, Metrics())({"type": "lifespan"}, nothing, nothing)
    assert seen == ["lifespan"]

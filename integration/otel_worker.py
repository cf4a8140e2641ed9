"""One process of the traced run: it begins a Task, or goes on with it; see `otel_trace`.

    python -m integration.otel_worker begin|go_on STATE WIRE ENDPOINT

What it has to say is one line of JSON on its output.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcLogs
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import (
    OTLPMetricExporter as GrpcMetrics,
)
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpans
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpLogs
from opentelemetry.exporter.otlp.proto.http.metric_exporter import (
    OTLPMetricExporter as HttpMetrics,
)
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpans
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Host, Loop, tool
from agentic_kernel_engine.loop import (
    ALLOW,
    Action,
    Context,
    Decision,
    FinalAnswer,
    Plan,
    ToolCall,
    Usage,
    require_approval,
)
from agentic_kernel_engine.seams import ScriptedPlanner, Streamed
from agentic_kernel_file import FileStore
from agentic_kernel_otel import OTelObserver

ID = "order-1"
TIMEOUT = 1
"""Seconds that an exporter tries; a receiver that is down is not waited for any longer."""


class Telemetry:
    """The SDK as a program would set it up, with the real exporters."""

    def __init__(self, wire: str, endpoint: str) -> None:
        resource = Resource({"service.name": "orders", "process.pid": os.getpid()})
        spans: Any
        metrics: Any
        logs: Any
        if wire == "grpc":
            spans = GrpcSpans(endpoint, insecure=True, timeout=TIMEOUT)
            metrics = GrpcMetrics(endpoint, insecure=True, timeout=TIMEOUT)
            logs = GrpcLogs(endpoint, insecure=True, timeout=TIMEOUT)
        else:
            spans = HttpSpans(f"{endpoint}/v1/traces", timeout=TIMEOUT)
            metrics = HttpMetrics(f"{endpoint}/v1/metrics", timeout=TIMEOUT)
            logs = HttpLogs(f"{endpoint}/v1/logs", timeout=TIMEOUT)
        self.traces = TracerProvider(resource=resource)
        self.traces.add_span_processor(BatchSpanProcessor(spans, schedule_delay_millis=100))
        self.metrics = MeterProvider(
            [PeriodicExportingMetricReader(metrics, export_interval_millis=200)], resource
        )
        self.loggers = LoggerProvider(resource)
        self.loggers.add_log_record_processor(
            BatchLogRecordProcessor(logs, schedule_delay_millis=100)
        )

    def observer(self) -> OTelObserver:
        return OTelObserver(
            tracer_provider=self.traces, meter_provider=self.metrics,
            logger_provider=self.loggers, provider="scripted",
        )  # fmt: skip

    def close(self) -> None:
        """Export what is left; all three at once, for each may have to give up first."""
        closing = (self.traces.shutdown, self.metrics.shutdown, self.loggers.shutdown)
        with ThreadPoolExecutor(len(closing)) as pool:
            for done in [pool.submit(each) for each in closing]:
                done.result()


class PayingIsAsked:
    """A person has to approve of every payment."""

    async def authorize(self, action: Action, context: Context) -> Decision:
        paying = isinstance(action, ToolCall) and action.tool == "pay"
        return require_approval("it costs money") if paying else ALLOW


class Shop:
    """The Loop of the run, and the Host that it is on."""

    def __init__(self, state: str, otel: OTelObserver) -> None:
        @tool(effect="read")
        def price(item: str) -> int:
            """Look up what an item costs."""
            return 80

        @tool(effect="write")
        def pay(amount: int) -> str:
            """Pay an amount."""
            return "paid"

        @tool(effect="write", idempotent=True)
        async def pack(item: str) -> str:
            """Pack an item; whoever is at the desk then asks for a pause."""
            await self.host.pause(ID)
            return "packed"

        planner = ScriptedPlanner(
            Streamed(
                "I look up ", "the price.",
                plan=_plan(ToolCall("price", {"item": "shoes"}, "call_1"), 120, 12),
            ),
            _plan(ToolCall("pay", {"amount": 80}, "call_2"), 150, 9),
            _plan(ToolCall("pack", {"item": "shoes"}, "call_3"), 180, 8),
            _plan(FinalAnswer("on its way"), 210, 5),
        )  # fmt: skip
        tools = [price, pay, pack]
        loop = Loop(planner, tools, PayingIsAsked(), middleware=[otel.middleware])
        self.store = FileStore(state)
        self.host = Host(otel.traced(loop), self.store, observer=otel)

    async def begin(self) -> dict[str, Any]:
        """Dispatch the Task; it comes to the payment, and waits."""
        task = Task.new(
            id=ID, summary="Shoes", instructions="Buy the shoes.", runtime_kind="loop",
            agent_name="shop/clerk",
        )  # fmt: skip
        await self.host.dispatch(task)
        paused = await self.host.wait(ID, TaskStatus.PAUSED)
        return {"status": paused.status, "waiting": paused.metadata["engine/waiting_for"]["kind"]}

    async def go_on(self) -> dict[str, Any]:
        """Approve of the payment; while it is packed a pause is asked for, and later withdrawn."""
        paused = await self.host.wait(ID, TaskStatus.PAUSED)
        (request,) = paused.metadata["engine/waiting_for"]["requests"]
        await self.host.approve(ID, request["digest"], by="ann")
        await self.host.wait(ID, TaskStatus.PAUSED)
        await self.host.resume(ID)
        done = await self.host.wait(ID)
        types = [event.type async for event in self.host.stream(ID)]
        return {"status": done.status, "result": done.result, "events": types}


def _plan(action: Action, input: int, output: int) -> Plan:
    return Plan((action,), usage=Usage(input, output), model="scripted-1")


async def main(what: str, state: str, wire: str, endpoint: str) -> dict[str, Any]:
    """Do one part of the run, and say how it went and how long it took."""
    telemetry = Telemetry(wire, endpoint)
    shop = Shop(state, telemetry.observer())
    began = time.perf_counter()
    async with shop.host:
        if what == "begin":
            with telemetry.traces.get_tracer("orders").start_as_current_span("POST /orders"):
                said = await shop.begin()
        else:
            said = await shop.go_on()
    said["seconds"] = time.perf_counter() - began
    shop.store.close()
    telemetry.close()
    return said


if __name__ == "__main__":
    _, what, state, wire, endpoint = sys.argv
    print(json.dumps(asyncio.run(main(what, state, wire, endpoint))))

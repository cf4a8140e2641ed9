"""Logs: what happens is a log record as well, with the ids of the span that it happened in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opentelemetry._logs import SeverityNumber
from opentelemetry.sdk._logs import ReadableLogRecord

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Event, Host, Loop, tool
from agentic_kernel_engine.loop import ALLOW, FinalAnswer, PlannerError, ToolCall, deny
from agentic_kernel_engine.seams import ScriptedPlanner

from .conftest import Telemetry, id_of, trace_of

NewTask = Callable[..., Task]


def named(telemetry: Telemetry, name: str) -> ReadableLogRecord:
    (found,) = [log for log in telemetry.logs() if log.log_record.event_name == name]
    return found


async def test_a_failure_is_logged_in_its_trace(telemetry: Telemetry, new_task: NewTask) -> None:
    otel = telemetry.observer()
    loop = Loop(ScriptedPlanner(PlannerError("acme/broken", "no luck")))
    task = new_task()
    async with Host(otel.traced(loop), observer=otel) as host:
        await host.run(task)
    record = named(telemetry, "agentic_kernel.task.failed").log_record
    run = telemetry.span("invoke_agent")
    assert record.trace_id == trace_of(run)
    assert record.span_id == id_of(run)
    assert record.severity_number is SeverityNumber.ERROR
    assert record.body == "task.failed"
    told = dict(record.attributes or {})
    assert told["agentic_kernel.task.id"] == task.id
    assert told["agentic_kernel.code"] == "acme/broken"
    assert "agentic_kernel.message" not in told


async def test_what_the_policy_denied_is_logged_and_what_it_allowed_is_not(
    telemetry: Telemetry, new_task: NewTask
) -> None:
    class NoTools:
        async def authorize(self, action: Any, context: Any) -> Any:
            return deny("never") if isinstance(action, ToolCall) else ALLOW

    otel = telemetry.observer()
    loop = Loop(ScriptedPlanner(ToolCall("add", {}), FinalAnswer(1)), [add], NoTools())
    async with Host(loop, observer=otel) as host:
        await host.run(new_task())
    told = dict(named(telemetry, "agentic_kernel.plan.decided").log_record.attributes or {})
    assert told["agentic_kernel.verdicts"] == ("deny",)
    assert telemetry.spans("execute_tool") == []


@tool(effect="none")
def add() -> int:
    """Add."""
    return 1


async def test_what_a_tool_logs_is_in_the_span_of_its_call(
    telemetry: Telemetry, new_task: NewTask
) -> None:
    logger = telemetry.loggers.get_logger("shop")

    @tool(effect="none")
    async def buy() -> None:
        """Buy."""
        logger.emit(body="bought", event_name="shop.bought")

    otel = telemetry.observer()
    planner = ScriptedPlanner(ToolCall("buy", {}), FinalAnswer(1))
    loop = Loop(planner, [buy], middleware=[otel.middleware])
    async with Host(otel.traced(loop), observer=otel) as host:
        assert (await host.run(new_task())).status is TaskStatus.SUCCESS
    record, called = named(telemetry, "shop.bought").log_record, telemetry.span("execute_tool")
    assert (record.trace_id, record.span_id) == (trace_of(called), id_of(called))


def test_nothing_that_is_logged_begins_a_line_or_steers_a_terminal(telemetry: Telemetry) -> None:
    otel = telemetry.observer(capture_content=True)
    hostile = "\x1b[2Jx\nFORGED\r\x00\u202e\ud800"
    otel.observe(hostile, Event(hostile, {"by": hostile, hostile: hostile}))
    (log,) = telemetry.logs()
    told = dict(log.log_record.attributes or {})
    texts = [log.log_record.body, log.log_record.event_name, *told, *told.values()]
    assert any("FORGED" in str(text) for text in texts)
    assert all(str(text).replace("\\n", "").isprintable() for text in texts)


def test_what_is_done_to_a_task_that_does_not_run_here_is_in_the_trace_of_who_does_it(
    telemetry: Telemetry,
) -> None:
    otel = telemetry.observer()
    tracer = telemetry.traces.get_tracer("test")
    with tracer.start_as_current_span("request") as request:
        otel.observe("task", Event("task.decision_posted", {"by": "host", "decision": "a/b"}))
    (log,) = telemetry.logs()
    assert log.log_record.span_id == request.get_span_context().span_id

"""Content: recorded only where it was asked for, without secrets, and of bounded size."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from agentic_kernel import Task
from agentic_kernel_engine import Event, Host, Loop, tool
from agentic_kernel_engine.loop import FinalAnswer, Plan, PlannerError, ToolCall
from agentic_kernel_engine.seams import ScriptedPlanner, Streamed
from agentic_kernel_otel.redaction import MOST_CONTENT, MOST_TEXT

from .conftest import Telemetry, attributes

NewTask = Callable[..., Task]
SECRET = "sk-proj-abcdefghijklmnop1234567890"


@tool(effect="none")
def echo(text: str) -> dict[str, str]:
    """Say it again."""
    return {"said": f"RETURNED {text}"}


async def _run(telemetry: Telemetry, task: Task, *script: Any, **options: Any) -> None:
    otel = telemetry.observer(**options)
    loop = Loop(ScriptedPlanner(*script), [echo], middleware=[otel.middleware])
    async with Host(otel.traced(loop), observer=otel) as host:
        await host.run(task)


def _script(argument: str) -> tuple[Any, ...]:
    call = ToolCall("echo", {"text": argument}, "call_1")
    return Plan((call,), text="SAID", reasoning="THOUGHT"), FinalAnswer("ANSWERED")


async def test_no_content_is_recorded_unless_it_was_asked_for(
    telemetry: Telemetry, new_task: NewTask
) -> None:
    await _run(telemetry, new_task(instructions="INSTRUCTED"), *_script("ARGUED"))
    exported = telemetry.everything()
    for content in ("INSTRUCTED", "SAID", "THOUGHT", "ARGUED", "RETURNED", "ANSWERED"):
        assert content not in exported


async def test_content_that_was_asked_for_has_the_form_of_the_conventions(
    telemetry: Telemetry, new_task: NewTask
) -> None:
    task = new_task(instructions="INSTRUCTED")
    await _run(telemetry, task, *_script("ARGUED"), capture_content=True)
    user = {"role": "user", "parts": [{"type": "text", "content": "INSTRUCTED"}]}
    called = {"type": "tool_call", "id": "call_1", "name": "echo", "arguments": {"text": "ARGUED"}}
    assistant = {
        "role": "assistant",
        "parts": [
            {"type": "reasoning", "content": "THOUGHT"},
            {"type": "text", "content": "SAID"},
            called,
        ],
    }
    result = {"type": "tool_call_response", "id": "call_1", "response": {"said": "RETURNED ARGUED"}}
    first, second = (attributes(chat) for chat in telemetry.spans("chat"))
    run, call = attributes(telemetry.span("invoke_agent")), attributes(telemetry.span("execute"))
    assert json.loads(run["gen_ai.input.messages"]) == [user]
    assert json.loads(first["gen_ai.input.messages"]) == [user]
    assert json.loads(first["gen_ai.output.messages"]) == [
        {**assistant, "finish_reason": "tool_call"}
    ]
    assert json.loads(second["gen_ai.input.messages"]) == [
        user, assistant, {"role": "tool", "parts": [result]},
    ]  # fmt: skip
    assert json.loads(second["gen_ai.output.messages"]) == [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": "ANSWERED"}],
            "finish_reason": "stop",
        }
    ]
    assert json.loads(call["gen_ai.tool.call.arguments"]) == {"text": "ARGUED"}
    assert json.loads(call["gen_ai.tool.call.result"]) == {"said": "RETURNED ARGUED"}


@pytest.mark.parametrize("capture", [True, False], ids=["with content", "without"])
async def test_no_secret_leaves_the_process(
    telemetry: Telemetry, new_task: NewTask, capture: bool
) -> None:
    task = new_task(instructions=f"Use {SECRET}.")
    pieces = Streamed(SECRET[:9], SECRET[9:], plan=Plan((ToolCall("echo", {"text": SECRET}),),
                                                        text=SECRET, model=SECRET))  # fmt: skip
    failed = PlannerError("acme/refused", f"the key {SECRET} is not known")
    await _run(telemetry, task, pieces, failed, capture_content=capture)
    exported = telemetry.everything()
    assert "agentic_kernel.task.failed" in exported
    assert SECRET not in exported
    assert SECRET[9:] not in exported


async def test_whatever_a_run_says_a_span_stays_small(
    telemetry: Telemetry, new_task: NewTask
) -> None:
    endless = "word " * 200_000
    task = new_task(instructions=endless)
    failed = PlannerError("acme/refused", endless)
    await _run(telemetry, task, *_script(endless)[:1], failed, capture_content=True)
    for span in telemetry.spans():
        sizes = [len(value) for value in attributes(span).values() if isinstance(value, str)]
        assert max(sizes) <= MOST_CONTENT
        assert len(span.status.description or "") <= MOST_TEXT
    assert len(telemetry.everything()) < 20 * MOST_CONTENT


def test_odd_values_are_of_bounded_size_too(telemetry: Telemetry) -> None:
    otel = telemetry.observer(capture_content=True)
    deep: Any = "x"
    for _ in range(5_000):
        deep = [deep]
    wide = {f"key {n}" * 50: n for n in range(50_000)}
    for odd in (deep, wide, [1] * 1_000_000, 10**5_000, {"k": 10**5_000}, "\ud800" * 50_000):
        otel.observe("task" * 10_000, Event("acme.custom", {"odd": odd}))
    for log in telemetry.logs():
        for value in dict(log.log_record.attributes or {}).values():
            assert len(str(value)) <= MOST_CONTENT


async def test_no_text_of_an_exception_is_told_unless_content_is(
    telemetry: Telemetry, new_task: NewTask
) -> None:
    @tool(effect="none")
    def broken(text: str) -> str:
        """Fail."""
        raise ValueError(f"TOOL {text}")

    otel = telemetry.observer()
    for fault in (PlannerError("acme/refused", "FAULT"), RuntimeError("FAULT")):
        planner = ScriptedPlanner(ToolCall("broken", {"text": "FAULT"}, "call_1"), fault)
        loop = Loop(planner, [broken], middleware=[otel.middleware])
        async with Host(otel.traced(loop), observer=otel) as host:
            task = await host.run(new_task())
        assert task.failure is not None
        assert "FAULT" in task.failure.message
    otel.observe("t", Event("task.paused", {"by": "host", "reason": "FAULT of a pause"}))
    otel.observe("t", Event("run.retuned", {"by": "host", "refused": "FAULT"}))
    otel.observe("t", Event("task.paused", {"by": "host", "reason": "requested"}))
    exported = telemetry.everything()
    assert "acme/refused" in exported
    assert "requested" in exported
    assert "FAULT" not in exported


async def test_the_id_of_a_call_is_redacted(telemetry: Telemetry, new_task: NewTask) -> None:
    await _run(telemetry, new_task(), ToolCall("echo", {"text": "a"}, SECRET), FinalAnswer("b"))
    call = attributes(telemetry.span("execute_tool"))
    assert call["gen_ai.tool.call.id"] == "[redacted]"
    assert SECRET not in telemetry.everything()

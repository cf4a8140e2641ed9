"""Our tools in the CLI's turns: decided, prepared, run and settled here."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Mapping
from typing import Any

import pytest

from agentic_kernel import InvalidValue, TaskStatus
from agentic_kernel_copilot import SESSION, CopilotRuntime
from agentic_kernel_copilot.calls import Calls
from agentic_kernel_copilot.run import SessionRun
from agentic_kernel_copilot.session import Pending, Session
from agentic_kernel_copilot.state import Call
from agentic_kernel_engine import InMemoryObserver, Limits, tool
from agentic_kernel_engine.loop import StopReason
from agentic_kernel_engine.seams import BasicPolicy, InMemoryApprovals, ToolContext
from integration.peers.aimock import Aimock
from integration.peers.faulty import FaultyServer

from .conftest import asked
from .scripts import after, calls, says

pytestmark = pytest.mark.slow


@tool(effect="none", inline=True)
def weather(city: str) -> str:
    """Tell the weather."""
    return f"sunny in {city}"


async def test_a_turn_is_a_step_and_its_usage_is_counted(
    scripted: Mapping[str, Any], aimock: Aimock
) -> None:
    usage = {"prompt_tokens": 20, "completion_tokens": 3, "total_tokens": 23}
    aimock.load(
        [
            after(0, calls(("weather", {"city": "Oslo"}), text="Let me look.") | {"usage": usage}),
            after(1, says("It is sunny.") | {"usage": usage}),
        ]
    )
    async with CopilotRuntime(**scripted, tools=[weather]) as runtime:
        task = await runtime.run(asked("How is it in Oslo?"))
        outcome = await runtime.outcome(task.id)
    assert task.result == "It is sunny."
    assert outcome.reason is StopReason.FINAL
    assert (outcome.usage.input_tokens, outcome.usage.output_tokens) == (40, 6)
    steps = [
        event.type
        for event in outcome.events
        if event.type in ("plan.made", "plan.decided", "step.observed", "run.stopped")
    ]
    assert steps == [
        "plan.made", "plan.decided", "step.observed", "plan.made", "step.observed", "run.stopped",
    ]  # fmt: skip
    observed = [event.data for event in outcome.events if event.type == "step.observed"]
    assert observed[0]["observations"][0]["output"] == "sunny in Oslo"
    assert task.metadata[SESSION]
    told = aimock.requests()
    assert told[0].body["messages"][0] == {"role": "system", "content": "Be brief."}
    assert [each["function"]["name"] for each in told[0].body["tools"]] == ["weather"]
    assert told[1].body["messages"][-1]["content"] == "sunny in Oslo"


async def test_the_validator_the_ids_and_the_timer_are_those_given(
    scripted: Mapping[str, Any], aimock: Aimock
) -> None:
    def nowhere(schema: Mapping[str, Any]) -> Any:
        return lambda value: "that is nowhere" if value == {"city": "Oslo"} else None

    given, seconds, seen = str(uuid.uuid4()), itertools.count(0, 100), InMemoryObserver()
    aimock.load([after(0, calls(("weather", {"city": "Oslo"}))), after(1, says("Nowhere."))])
    async with CopilotRuntime(
        **scripted, tools=[weather], validator=nowhere, ids=lambda: given, observer=seen,
        timer=lambda: float(next(seconds)),
    ) as runtime:  # fmt: skip
        task = await runtime.run(asked("How is it in Oslo?"))
        outcome = await runtime.outcome(task.id)
    assert (task.result, task.metadata[SESSION]) == ("Nowhere.", given)
    observed = [event.data for event in outcome.events if event.type == "step.observed"]
    assert observed[0]["observations"][0]["error"] == "schema_validation_failed"
    assert outcome.state is not None
    assert outcome.state["spent"]["seconds"] % 100 == 0
    assert outcome.state["spent"]["seconds"] >= 100
    (begun,) = [event for _, event in seen.events if event.type == "run.begun"]
    assert begun.data == {"model": scripted["model"]}
    for option in ("validator", "ids", "timer"):
        with pytest.raises(InvalidValue, match=f"{option}: is 3; pass a function"):
            CopilotRuntime(**{**scripted, option: 3})


@pytest.mark.torture
async def test_calls_of_one_turn_run_side_by_side(
    scripted: Mapping[str, Any], aimock: Aimock
) -> None:
    both = asyncio.Barrier(2)

    @tool(effect="none")
    async def meet(name: str) -> str:
        """Wait for the other one."""
        async with asyncio.timeout(20):
            await both.wait()
        return name

    aimock.load(
        [after(0, calls(("meet", {"name": "a"}), ("meet", {"name": "b"}))), after(1, says("met"))]
    )
    async with CopilotRuntime(**scripted, tools=[meet]) as runtime:
        task = await runtime.run(asked("Meet."))
        outcome = await runtime.outcome(task.id)
    assert task.result == "met"
    step = next(event for event in outcome.events if event.type == "step.observed")
    assert [each["output"] for each in step.data["observations"]] == ["a", "b"]


@pytest.mark.torture
async def test_an_effect_is_on_record_before_it_begins(
    scripted: Mapping[str, Any], aimock: Aimock
) -> None:
    stored: list[str] = []
    keys: list[str] = []

    @tool(effect="write")
    async def write(text: str, context: ToolContext) -> str:
        """Write."""
        keys.append(context.key)
        stored.extend(event.type for event in (await runtime.outcome(context.task_id)).events)
        return "written"

    aimock.load([after(0, calls(("write", {"text": "x"}))), after(1, says("done"))])
    async with CopilotRuntime(**scripted, tools=[write]) as runtime:
        task = await runtime.run(asked("Write x."))
        events = (await runtime.outcome(task.id)).events
    assert stored[-1] == "effects.prepared"
    prepared = next(event for event in events if event.type == "effects.prepared")
    assert [prepared.data["keys"]["0"]] == keys
    assert keys[0].startswith(f"{task.id}:0:0:")


@pytest.mark.torture
async def test_a_tool_that_fails_and_one_that_is_denied_are_told_to_the_model(
    scripted: Mapping[str, Any], aimock: Aimock
) -> None:
    @tool(effect="read", inline=True)
    def broken() -> str:
        """Fail."""
        raise ValueError("no luck")

    ran: list[str] = []

    @tool(effect="destructive", inline=True)
    def drop() -> None:
        """Drop everything."""
        ran.append("drop")

    aimock.load([after(0, calls(("broken", {}), ("drop", {}))), after(1, says("I see."))])
    policy = BasicPolicy(deny=["destructive"])
    async with CopilotRuntime(**scripted, tools=[broken, drop], policy=policy) as runtime:
        task = await runtime.run(asked("Try."))
        outcome = await runtime.outcome(task.id)
    assert task.result == "I see."
    assert ran == []
    step = next(event for event in outcome.events if event.type == "step.observed")
    assert [each["error"] for each in step.data["observations"]] == [
        "handler_error", "policy_denied",
    ]  # fmt: skip
    heard = [each["content"] for each in aimock.requests()[1].body["messages"][-2:]]
    assert "no luck" in heard[0]
    assert "not allowed" in heard[1]


async def test_an_approval_is_waited_for_and_the_very_call_is_made(
    scripted: Mapping[str, Any], aimock: Aimock
) -> None:
    ran: list[str] = []

    @tool(effect="write", inline=True)
    def write(text: str) -> str:
        """Write."""
        ran.append(text)
        return "written"

    aimock.load([after(0, calls(("write", {"text": "x"}))), after(1, says("done"))])
    desk = InMemoryApprovals()
    async with CopilotRuntime(
        **scripted, tools=[write], policy=BasicPolicy(), approvals=desk
    ) as runtime:
        task = (await runtime.dispatch(asked("Write x."))).snapshot
        request = await asyncio.wait_for(desk.next(), 60)
        assert (await runtime.get(task.id)).status is TaskStatus.PAUSED
        assert request.action == {
            "type": "tool_call", "tool": "write", "arguments": {"text": "x"},
            "id": request.action["id"],
        }  # fmt: skip
        assert ran == []
        await runtime.approve(task.id, request.digest, by="somebody")
        done = await runtime.wait(task.id)
    assert (done.status, done.result, ran) == (TaskStatus.SUCCESS, "done", ["x"])
    assert len(aimock.requests()) == 2


@pytest.mark.torture
@pytest.mark.parametrize(
    ("limits", "reason", "answers"),
    [
        (Limits(max_iterations=2), "max_iterations", 2),
        (Limits(max_tool_calls=2), "max_tool_calls", 3),
        (Limits(max_total_tokens=40), "max_tokens", 2),
        (Limits(max_failures=2), "max_failures", 2),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
async def test_a_model_that_never_ends_is_not_asked_beyond_a_limit(
    scripted: Mapping[str, Any], aimock: Aimock, limits: Limits, reason: str, answers: int
) -> None:
    usage = {"prompt_tokens": 20, "completion_tokens": 3, "total_tokens": 23}
    again = calls(("weather", {"city": 1} if reason == "max_failures" else {"city": "Oslo"}))
    aimock.load([{"match": {}, "response": again | {"usage": usage}}])
    async with CopilotRuntime(**scripted, tools=[weather], limits=limits) as runtime:
        task = await runtime.run(asked("Go on and on."))
        outcome = await runtime.outcome(task.id)
    assert task.failure is not None
    assert task.failure.code == f"engine/{reason}"
    assert outcome.reason == reason
    types = [event.type for event in outcome.events]
    assert types.count("plan.made") == len(aimock.requests()) == answers
    assert types.count("step.observed") == 2, "the calls of the last turn that may be were made"


@pytest.mark.torture
async def test_a_limit_that_is_raised_in_the_last_turn_lets_the_session_go_on(
    scripted: Mapping[str, Any], aimock: Aimock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call of the turn is done and held, the other one runs: then there may be more turns."""
    done, acted = asyncio.Event(), asyncio.Event()
    act, answer = SessionRun.act_on_decisions, Calls.answer

    def noticed(self: SessionRun) -> None:
        act(self)
        if self.limits.max_iterations == 5:
            acted.set()

    async def answered(self: Calls, session: Session, pending: Pending, call: Call) -> bool:
        settled = await answer(self, session, pending, call)
        if call.action.tool == "note" and not settled:
            done.set()
        return settled

    monkeypatch.setattr(SessionRun, "act_on_decisions", noticed)
    monkeypatch.setattr(Calls, "answer", answered)

    @tool(effect="write")
    async def note() -> str:
        """Note."""
        return "noted"

    @tool(effect="none")
    async def lift(context: ToolContext) -> str:
        """Raise the limit, once what came of the note is held back."""
        async with asyncio.timeout(60):
            await done.wait()
            await runtime.retune(context.task_id, max_iterations=5, by="somebody")
            await acted.wait()
        return "raised"

    aimock.load([after(0, calls(("note", {}), ("lift", {}))), after(1, says("done"))])
    async with CopilotRuntime(
        **scripted, tools=[note, lift], limits=Limits(max_iterations=1)
    ) as runtime:
        task = await runtime.run(asked("Note, and raise the limit."))
    assert task.result == "done"
    heard = [each["content"] for each in aimock.requests()[1].body["messages"][-2:]]
    assert heard == ["noted", "raised"]


@pytest.mark.torture
async def test_time_runs_out_in_the_middle_of_an_answer(
    scripted: Mapping[str, Any], aimock: Aimock
) -> None:
    aimock.load([after(0, says("word " * 2000), latency=50, chunkSize=5)])
    async with CopilotRuntime(**scripted, limits=Limits(max_seconds=1.5)) as runtime:
        task = await runtime.run(asked("Talk."))
    assert task.failure is not None
    assert task.failure.code == "engine/timeout"


@pytest.mark.torture
async def test_time_runs_out_in_the_middle_of_a_call(
    scripted: Mapping[str, Any], aimock: Aimock
) -> None:
    """Although the tool swallows its cancellation; the record says what became of the call."""
    gone = asyncio.Event()

    @tool(effect="write")
    async def hang() -> str:
        """Hang."""
        while True:
            try:
                await gone.wait()
                return "gone"
            except asyncio.CancelledError:
                await asyncio.sleep(0)

    aimock.load([after(0, calls(("hang", {}))), after(1, says("done"))])
    limits = Limits(max_seconds=1.5)
    async with asyncio.timeout(60), CopilotRuntime(
        **scripted, tools=[hang], limits=limits
    ) as runtime:  # fmt: skip
        task = await runtime.run(asked("Hang."))
        outcome = await runtime.outcome(task.id)
        gone.set()
    assert task.failure is not None
    assert task.failure.code == "engine/timeout"
    (step,) = [event for event in outcome.events if event.type == "step.observed"]
    assert [each["error"] for each in step.data["observations"]] == ["timeout"]


@pytest.mark.torture
async def test_a_model_whose_calls_the_cli_does_not_tell_of_is_bounded_as_well(
    scripted: Mapping[str, Any],
) -> None:
    """Arguments that are no object the CLI refuses by itself, and asks again without an end."""
    with FaultyServer("arguments_not_object") as server:
        provider = {**scripted["provider"], "base_url": f"{server.url}/v1"}
        given = {**scripted, "provider": provider, "limits": Limits(max_iterations=3)}
        async with CopilotRuntime(**given, tools=[weather]) as runtime:
            task = await runtime.run(asked("Add."))
            outcome = await runtime.outcome(task.id)
    assert task.failure is not None
    assert task.failure.code == "engine/max_iterations"
    types = [event.type for event in outcome.events]
    assert types.count("plan.made") == types.count("step.observed") == 3
    step = next(event for event in outcome.events if event.type == "step.observed")
    (observed,) = step.data["observations"]
    assert (observed["tool"], observed["error"]) == ("add", "handler_error")
    assert outcome.usage.output_tokens == 9


@pytest.mark.torture
async def test_a_call_that_the_cli_refuses_beside_a_good_one_is_on_record(
    scripted: Mapping[str, Any], aimock: Aimock
) -> None:
    bad: Any = ("weather", ["Oslo"])
    aimock.load([after(0, calls(bad, ("weather", {"city": "Rome"}))), after(1, says("done"))])
    async with CopilotRuntime(**scripted, tools=[weather]) as runtime:
        task = await runtime.run(asked("How is it?"))
        outcome = await runtime.outcome(task.id)
    assert task.result == "done"
    step = next(event for event in outcome.events if event.type == "step.observed")
    found = {each.get("error", each.get("output")) for each in step.data["observations"]}
    assert found == {"handler_error", "sunny in Rome"}


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"provider": {"type": "openai"}, "model": "m"}, "provider"),
        ({"provider": {"base_url": "http://127.0.0.1:1"}, "env": {"COPILOT_MODEL": ""}}, "model"),
        ({"timeout": 0}, "timeout"),
        ({"allowed_tools": "bash"}, "allowed_tools"),
        ({"on_kill": "burn"}, "on_kill"),
        ({"tools": [weather, weather]}, "tools"),
    ],
)
def test_what_is_not_accepted_is_named(given: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        CopilotRuntime(**given)
    assert refused.value.path == path

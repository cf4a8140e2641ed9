"""A Copilot session refuses the inputs and the limits that it does not take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from agentic_kernel import CannotStart, InvalidValue, Task, TaskNotFound, TaskStatus
from agentic_kernel_copilot import CopilotRuntime
from agentic_kernel_engine import Limits
from agentic_kernel_engine.loop import Action, Context, Decision, require_approval
from agentic_kernel_engine.seams import tool
from integration.peers.aimock import Aimock

from .conftest import asked
from .scripts import after, calls, says

INPUTS = CopilotRuntime.inputs
REFUSED: Mapping[str, Mapping[str, Any]] = {
    "agent_name": {"agent_name": "acme/clerk"},
    "engine/session": {"metadata": {"engine/session": "monday"}},
    "engine/continues": {"metadata": {"engine/continues": "another"}},
    "takes no addresses": {
        "metadata": {"input/images": [{"type": "image", "url": "https://example.org/a.png"}]}
    },
    "must be a list": {"metadata": {"input/images": ["a.png"]}},
    "input/documents": {"metadata": {"input/documents": []}},
    "input/image": {"metadata": {"input/image": []}},
    "copilot/max_tokens": {"metadata": {"copilot/max_tokens": 5}},
}
NOT_KEPT = sorted(set(Limits.__struct_fields__) - set(INPUTS.limits))


def test_the_declaration_is_what_is_tested_here() -> None:
    assert not any((INPUTS.agent, INPUTS.session, INPUTS.continues, INPUTS.options))
    assert INPUTS.images == "by content"
    assert not INPUTS.agents
    assert INPUTS.schema
    assert NOT_KEPT == [
        "max_calls_per_answer", "max_depth", "max_goal_depth", "max_non_progress",
        "max_reflections", "max_repeats",
    ]  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
async def test_an_input_that_is_not_taken_is_refused(
    scripted: Mapping[str, Any], name: str
) -> None:
    fields: Any = {"summary": "", "instructions": "Hi.", "runtime_kind": "copilot", **REFUSED[name]}
    task = Task.new(**fields)
    async with CopilotRuntime(**scripted) as runtime:
        with pytest.raises(CannotStart, match=name):
            await runtime.dispatch(task)
        with pytest.raises(TaskNotFound):
            await runtime.get(task.id)
        assert runtime.substrate.cli.starts == 0


@pytest.mark.parametrize("name", NOT_KEPT)
def test_a_limit_that_a_session_does_not_keep_is_refused(name: str) -> None:
    with pytest.raises(InvalidValue, match=f"limits.{name}: is not kept by a session"):
        CopilotRuntime(limits=Limits(**{name: 3}))


@pytest.mark.parametrize("name", INPUTS.limits)
def test_a_limit_that_a_session_keeps_is_taken(name: str) -> None:
    CopilotRuntime(limits=Limits(**{name: 3}))


@pytest.mark.torture
async def test_a_change_of_a_limit_that_a_session_does_not_keep_is_on_record_as_refused(
    scripted: Mapping[str, Any], aimock: Aimock
) -> None:
    class Ask:
        async def authorize(self, action: Action, context: Context) -> Decision:
            return require_approval("it writes")

    @tool(effect="none")
    async def note() -> str:
        """Note it."""
        return "noted"

    aimock.load([after(0, calls(("note", {}))), after(1, says("done"))])
    async with CopilotRuntime(**scripted, tools=[note], policy=Ask()) as runtime:
        task = asked("Note it.")
        await runtime.dispatch(task)
        paused = await runtime.wait(task.id, TaskStatus.PAUSED)
        await runtime.retune(task.id, max_goal_depth=3, by="ann")
        (request,) = paused.metadata["engine/waiting_for"]["requests"]
        await runtime.approve(task.id, request["digest"], by="ann")
        assert (await runtime.wait(task.id)).result == "done"
        events = (await runtime.outcome(task.id)).events
    (retuned,) = [event.data for event in events if event.type == "run.retuned"]
    assert "max_goal_depth" in retuned["refused"]

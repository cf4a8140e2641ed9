"""An Agent of Pydantic AI as a substrate: a Host keeps its messages, and accounts for its tools.

The state of a run is the list of messages. The Agent runs node by node:

- After each request's tools there is a checkpoint: a pause takes effect there, and a later run goes
  on from these messages.
- Before a tool with an effect runs, its call is committed. If the process dies before the next
  checkpoint, the next run does not repeat the call. It tells the model that the outcome is not
  known, and records an event that says so.
- An extra of a resume is one more message of the user.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from pydantic_ai import (
    Agent,
    AgentRunError,
    CallToolsNode,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_graph import End

from agentic_kernel import CannotStart, Task
from agentic_kernel_engine import Accepting, Event, Job, Substrate, TaskFailed

KIND: Final = "pydantic-ai"
UNKNOWN: Final = "the outcome is indeterminate: the process died while this call ran"


class AgentSubstrate(Substrate, Accepting):
    """Runs an Agent whose dependencies are the `Job`.

    Args:
        agent: The Agent.
        effects: The names of its tools that change something in the world.
        refused: Says why a Task cannot start; None if it can.
    """

    def __init__(
        self,
        agent: Agent[Job, Any],
        effects: Collection[str],
        refused: Callable[[Task], str | None] = lambda task: None,
    ) -> None:
        self._agent = agent
        self._effects = frozenset(effects)
        self._refused = refused

    async def accept(self, task: Task) -> None:
        why = self._refused(task)
        if why is not None:
            raise CannotStart(why, task.id)

    async def execute(self, job: Job) -> Any:
        """Go on from the messages of the last commit.

        Raises:
            TaskFailed: The Agent could not finish.
        """
        try:
            return await self._run(job)
        except AgentRunError as error:
            raise TaskFailed(f"{KIND}/{type(error).__name__}", str(error)) from error

    async def _run(self, job: Job) -> Any:
        state = job.state or {"messages": [], "extras": 0}
        history = ModelMessagesTypeAdapter.validate_python(state["messages"])
        extras = state["extras"]
        if history and (unknown := _settle(history)):
            await job.checkpoint(_state(history, extras), unknown)
        heard = job.task.supplements[extras:]
        if history:
            _say(history, heard)
        else:
            history = [_asked(job.task.instructions, *heard)]
        extras += len(heard)
        async with self._agent.iter(message_history=history, deps=job) as run:
            node = run.next_node
            while not isinstance(node, End):
                effects = isinstance(node, CallToolsNode) and self._acts(node.model_response)
                if effects:  # Durable before the effect.
                    await job.commit(_state(run.all_messages(), extras), progress=False)
                at_tools = isinstance(node, CallToolsNode)
                node = await run.next(node)
                if at_tools and not isinstance(node, End):
                    done = [*run.all_messages(), node.request]
                    await job.checkpoint(_state(done, extras))
            return node.data.output

    def _acts(self, response: ModelResponse) -> bool:
        return any(call.tool_name in self._effects for call in _calls(response))


def _calls(response: ModelResponse) -> list[ToolCallPart]:
    return [part for part in response.parts if isinstance(part, ToolCallPart)]


def _settle(history: list[ModelMessage]) -> list[Event]:
    """Answer the calls that a dead process had begun; return an event for each."""
    last = history[-1]
    if not isinstance(last, ModelResponse):
        return []
    calls = _calls(last)
    parts = [ToolReturnPart(call.tool_name, UNKNOWN, call.tool_call_id) for call in calls]
    history.append(ModelRequest(parts))
    return [
        Event(f"{KIND}/indeterminate", {"tool": call.tool_name, "arguments": call.args_as_dict()})
        for call in calls
    ]


def _asked(*texts: str) -> ModelRequest:
    return ModelRequest([UserPromptPart(text) for text in texts])


def _say(history: list[ModelMessage], texts: Sequence[str]) -> None:
    """Add what the user said to the last request."""
    last = history[-1]
    assert isinstance(last, ModelRequest)  # As `_settle` and each checkpoint leave it.
    parts: list[ModelRequestPart] = [*last.parts, *(UserPromptPart(text) for text in texts)]
    history[-1] = ModelRequest(parts)


def _state(messages: Sequence[ModelMessage], extras: int) -> dict[str, Any]:
    stored = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
    return {"messages": stored, "extras": extras}

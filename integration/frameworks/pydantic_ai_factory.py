"""An Agent of Pydantic AI that follows a script of the kit, and its Tasks."""

from __future__ import annotations

from typing import Any

from pydantic_ai import (
    Agent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RunContext,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentic_kernel import Task
from agentic_kernel_conformance import Fail, Hear, Mark, Say
from agentic_kernel_conformance.mark import MarkFailed, marked
from agentic_kernel_conformance.substrate_honest import HonestWork, from_json
from agentic_kernel_engine import Event, Job, TaskFailed

from .pydantic_ai_agent import KIND, AgentSubstrate


async def follow(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """The model: it reads from the messages how far the run has come, and remembers nothing."""
    said = [
        part.content
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, UserPromptPart)
    ]
    script, extras = from_json(str(said[0])), said[1:]
    at = heard = 0
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                listens = isinstance(script[at], Hear) and part.tool_name == "mark"
                at, heard = (at, heard + 1) if listens else (at + 1, heard)
    if at == len(script):
        return ModelResponse([TextPart(f"heard {heard}")])
    call: Any = ToolCallPart("say", {"text": ""})
    match script[at]:
        case Mark(token):
            call = ToolCallPart("mark", {"token": token})
        case Say(text):
            call = ToolCallPart("say", {"text": f"{text}\n"})
        case Hear() if heard < len(extras):
            call = ToolCallPart("mark", {"token": extras[heard]})
        case Fail(code):
            call = ToolCallPart("leave", {"code": code})
    return ModelResponse([call])


async def mark(token: str) -> str:
    """Make a mark."""
    try:
        await marked(token)
    except MarkFailed as error:
        raise TaskFailed(f"{KIND}/mark", str(error)) from error
    return token


async def say(context: RunContext[Job], text: str) -> str:
    """Show a text to the readers of the Task."""
    if text:
        context.deps.emit(Event("run.delta", {"text": text}))
    return "said"


async def leave(code: int) -> str:
    """End with this exit code."""
    raise TaskFailed(f"{KIND}/exit", f"the script fails with {code}")


def make() -> AgentSubstrate:
    """The factory."""
    agent = Agent(FunctionModel(follow), deps_type=Job, tools=[mark, say, leave])
    return AgentSubstrate(agent, effects=["mark"], refused=_refused)


def _refused(task: Task) -> str | None:
    try:
        from_json(task.instructions)
    except (ValueError, TypeError, LookupError) as error:
        return f"the instructions are no script: {error}"
    return None


def work() -> HonestWork:
    """Makes Tasks whose instructions are the script."""
    return HonestWork(KIND)

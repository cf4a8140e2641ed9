"""Pydantic AI: an Agent with a FunctionModel."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pydantic_ai import (
    Agent,
    ModelMessage,
    ModelResponse,
    RequestUsage,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UsageLimits,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from peers.contest import Model, Run

# Without any, the double would count the words of the whole history at every call.
USAGE = RequestUsage(input_tokens=1, output_tokens=1)


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@asynccontextmanager
async def opened(turns: int, model: Model, keeping: bool) -> AsyncIterator[Run]:
    """Runs; the messages are the run's own until it ends."""

    async def counting(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        await model()
        last = messages[-1].parts[-1]
        at = last.content if isinstance(last, ToolReturnPart) else 0
        part = TextPart("done") if at == turns else ToolCallPart("add", {"a": at, "b": 1})
        return ModelResponse([part], usage=USAGE)

    agent = Agent(FunctionModel(counting), tools=[add])
    limits = UsageLimits(request_limit=turns + 1)

    async def run() -> None:
        done = await agent.run("Count.", usage_limits=limits)
        assert done.output == "done", done.output

    yield run

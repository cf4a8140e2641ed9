"""Microsoft Agent Framework: an Agent with a chat client of our own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    InMemoryHistoryProvider,
    Message,
    tool,
)

from peers.contest import Model, Run


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Counting(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """A chat client that counts up with the tool, then answers."""

    def __init__(self, turns: int, model: Model) -> None:
        # An iteration is a model call.
        super().__init__(function_invocation_configuration={"max_iterations": turns + 1})
        self.turns = turns
        self.model = model

    async def _inner_get_response(self, *, messages: Sequence[Message], **rest: Any) -> Any:
        await self.model()
        last = messages[-1].contents[-1]
        at = int(last.result) if last.type == "function_result" else 0
        if at == self.turns:
            return ChatResponse(messages=[Message("assistant", ["done"])])
        call = Content.from_function_call(f"call-{at}", "add", arguments={"a": at, "b": 1})
        return ChatResponse(messages=[Message("assistant", [call])])


@asynccontextmanager
async def opened(turns: int, model: Model, keeping: bool) -> AsyncIterator[Run]:
    """Runs, each with a session that has the messages of every model call, or with none."""
    agent = Agent(
        Counting(turns, model),
        tools=[add],
        context_providers=[InMemoryHistoryProvider()] if keeping else None,
        require_per_service_call_history_persistence=keeping,
    )

    async def run() -> None:
        session = agent.create_session() if keeping else None
        done = await agent.run("Count.", session=session)
        assert done.text == "done", done.text

    yield run

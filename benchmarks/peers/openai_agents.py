"""OpenAI Agents SDK: an Agent with a Model of our own, run by its Runner."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from agents import (
    Agent,
    Model,
    ModelResponse,
    Runner,
    SQLiteSession,
    Usage,
    function_tool,
    set_tracing_disabled,
)
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from peers import contest


@function_tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Counting(Model):
    """A model that counts up with the tool, then answers."""

    def __init__(self, turns: int, model: contest.Model) -> None:
        self.turns = turns
        self.model = model

    async def get_response(
        self, system_instructions: str | None, input: Any, *rest: Any, **more: Any
    ) -> ModelResponse:
        await self.model()
        last = {} if isinstance(input, str) else input[-1]
        at = int(last["output"]) if last.get("type") == "function_call_output" else 0
        answer = _call(at) if at < self.turns else _message("done")
        return ModelResponse([answer], Usage(), response_id=None)

    def stream_response(self, *rest: Any, **more: Any) -> Any:
        raise NotImplementedError("no run here streams")


def _call(at: int) -> ResponseFunctionToolCall:
    arguments = f'{{"a": {at}, "b": 1}}'
    return ResponseFunctionToolCall(
        type="function_call", call_id=f"call-{at}", name="add", arguments=arguments
    )


def _message(text: str) -> ResponseOutputMessage:
    content = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(
        type="message", id="message", role="assistant", status="completed", content=[content]
    )


@asynccontextmanager
async def opened(turns: int, model: contest.Model, keeping: bool) -> AsyncIterator[contest.Run]:
    """Runs, each with a session of its own or with none."""
    set_tracing_disabled(True)
    agent = Agent("bench", model=Counting(turns, model), tools=[add])

    async def run() -> None:
        session = SQLiteSession(uuid.uuid4().hex) if keeping else None
        done = await Runner.run(agent, "Count.", max_turns=turns + 1, session=session)
        assert done.final_output == "done", done.final_output
        if session:
            session.close()

    yield run

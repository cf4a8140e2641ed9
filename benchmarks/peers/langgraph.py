"""LangGraph: a graph with a node for the model and its prebuilt node for tools."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from peers.contest import Model, Run


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@asynccontextmanager
async def opened(turns: int, model: Model, keeping: bool) -> AsyncIterator[Run]:
    """Runs, each a thread of its own, with a saver or with none."""
    os.environ["LANGSMITH_TRACING"] = "false"

    async def counting(state: MessagesState) -> dict[str, Any]:
        await model()
        last = state["messages"][-1]
        at = int(last.content) if isinstance(last, ToolMessage) else 0
        call = {"name": "add", "args": {"a": at, "b": 1}, "id": f"call-{at}"}
        answer = AIMessage("", tool_calls=[call]) if at < turns else AIMessage("done")
        return {"messages": [answer]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", counting)
    graph.add_node("tools", ToolNode([add]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    agent = graph.compile(checkpointer=InMemorySaver() if keeping else None)
    durability = {"durability": "sync"} if keeping else {}

    async def run() -> None:
        # A turn is two nodes.
        config: dict[str, Any] = {"recursion_limit": 2 * turns + 2}
        config["configurable"] = {"thread_id": uuid.uuid4().hex}
        done = await agent.ainvoke({"messages": [HumanMessage("Count.")]}, config, **durability)
        assert done["messages"][-1].content == "done", done["messages"][-1]

    yield run

"""LangGraph: a graph of one node, and its saver for Postgres, which is told to write every step."""

from __future__ import annotations

import operator
import os
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, StateGraph
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from peers.durable.contest import Run, text

_CONNECTIONS = 20
"""As many as its documentation gives its pool."""


class Latest(TypedDict):
    """The state of a run, of which only the last text stays."""

    done: int
    text: str


class Grown(TypedDict):
    """The state of a run that keeps its texts, as one does that keeps its messages."""

    done: int
    text: Annotated[list[str], operator.add]


@asynccontextmanager
async def opened(place: str, way: str) -> AsyncIterator[Run]:
    """Runs, each a thread of its own.

    Args:
        way: ``pool``, as its documentation advises for servers; ``pipeline``, on one connection;
            ``savers``, a saver for each run on one pool, so that its lock holds up nobody; or
            ``grown``, which is the first with texts that are kept.
    """
    os.environ["LANGSMITH_TRACING"] = "false"
    async with AsyncPostgresSaver.from_conn_string(place) as saver:
        await saver.setup()  # which a pipeline refuses
    savers: Callable[[], AsyncPostgresSaver]
    if way == "pipeline":
        async with AsyncPostgresSaver.from_conn_string(place, pipeline=True) as saver:
            yield _runs(lambda: saver, Latest)
        return
    settings = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    async with AsyncConnectionPool(
        place, min_size=_CONNECTIONS, max_size=_CONNECTIONS, kwargs=settings
    ) as pool:
        saver = AsyncPostgresSaver(pool)
        savers = (lambda: AsyncPostgresSaver(pool)) if way == "savers" else (lambda: saver)
        yield _runs(savers, Grown if way == "grown" else Latest)


def _runs(saver: Callable[[], AsyncPostgresSaver], state: type[Any]) -> Run:
    async def step(before: Any) -> dict[str, Any]:
        brought = text()
        return {"done": before["done"] + 1, "text": [brought] if state is Grown else brought}

    async def run(steps: int) -> None:
        graph = StateGraph(state)
        graph.add_node("step", step)
        graph.add_edge(START, "step")
        graph.add_conditional_edges("step", lambda s: "step" if s["done"] < steps else END)
        config: dict[str, Any] = {"recursion_limit": steps + 1}
        config["configurable"] = {"thread_id": uuid.uuid4().hex}
        begin = {"done": 0, "text": [] if state is Grown else ""}
        agent = graph.compile(checkpointer=saver())
        done = await agent.ainvoke(begin, config, durability="sync")
        assert done["done"] == steps, done["done"]

    return run

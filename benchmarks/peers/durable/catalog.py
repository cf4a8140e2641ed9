"""Who is measured: the library, its exact version, the way it is used, and what it keeps."""

from __future__ import annotations

from dataclasses import dataclass

from peers.catalog import Contestant


@dataclass(frozen=True, slots=True)
class Durable:
    """One line of the table."""

    contestant: Contestant
    way: str = "-"
    """What ``opened`` of its module is told."""
    grown: str = "-"
    """The way in which what a run leaves is measured; empty where another line has it."""
    advised: bool = True
    """Whether its own documentation has it."""


_OURS = "state and event of a step, in one commit that the steps of other runs share"
_SAVER = 'the state after every step, `durability="sync"`'
_LANGGRAPH = (
    "langgraph==1.2.22",
    "langgraph-checkpoint==4.3.2",
    "langgraph-checkpoint-postgres==3.2.0",
    "langgraph-prebuilt==1.1.2",
    "langchain-core==1.7.2",
    "psycopg[binary,pool]==3.3.9",
    "pydantic==2.14.3",
)
_DBOS = ("dbos==3.4.0", "psycopg[binary]==3.3.9", "SQLAlchemy==2.1.9")


def _langgraph(used: str) -> Contestant:
    keeps = f"{_SAVER}; {used}"
    return Contestant("LangGraph", "durable.langgraph", keeps, requires=_LANGGRAPH)


CONTESTANTS = (
    Durable(Contestant("AgenticKernel", "durable.agentic_kernel", _OURS)),
    Durable(_langgraph("a saver on a pool of 20"), "pool", "grown"),
    Durable(_langgraph("a saver on one connection, `pipeline=True`"), "pipeline", ""),
    Durable(_langgraph("a saver for each run, on a pool of 20"), "savers", "", advised=False),
    Durable(
        Contestant("DBOS", "durable.dbos", "what each step of a workflow returned", requires=_DBOS)
    ),
)

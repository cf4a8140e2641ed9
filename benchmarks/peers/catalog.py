"""Who is measured: the library, its exact version, and what it keeps of a run as that goes on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Contestant:
    """One line of the table."""

    name: str
    module: str
    """The module of this package that has its ``opened``."""
    keeps: str
    """What would be left of a run that is cut off, were its memory a disk."""
    keeping: bool = True
    """What ``opened`` is told: to keep what the library can keep of each step, or nothing."""
    requires: tuple[str, ...] = ()
    """Exact requirements, the library first; none where it is this interpreter that has it."""

    @property
    def version(self) -> str:
        """The library's version, empty for ours."""
        return self.requires[0].partition("==")[2] if self.requires else ""


OURS = Contestant(
    "AgenticKernel",
    "agentic_kernel",
    "state and events of every step, committed before the next begins (`MemoryStore`)",
)

_PYDANTIC = "pydantic==2.14.3"
_PYDANTIC_AI = ("pydantic-ai-slim==2.68.0", "pydantic-graph==2.68.0", _PYDANTIC)
_OPENAI_AGENTS = ("openai-agents==0.24.0", "openai==3.54.0", _PYDANTIC)
_LANGGRAPH = (
    "langgraph==1.2.22",
    "langgraph-checkpoint==4.3.2",
    "langgraph-prebuilt==1.1.2",
    "langchain-core==1.7.2",
    _PYDANTIC,
)
_AGENT_FRAMEWORK = ("agent-framework-core==1.23.0", _PYDANTIC)

CONTESTANTS = (
    OURS,
    Contestant("Pydantic AI", "pydantic_ai", "nothing", False, _PYDANTIC_AI),
    Contestant("OpenAI Agents SDK", "openai_agents", "nothing", False, _OPENAI_AGENTS),
    Contestant(
        "OpenAI Agents SDK",
        "openai_agents",
        "the messages of every turn (`SQLiteSession` in memory)",
        True,
        _OPENAI_AGENTS,
    ),
    Contestant("LangGraph", "langgraph", "nothing", False, _LANGGRAPH),
    Contestant(
        "LangGraph",
        "langgraph",
        'the state after every node (`InMemorySaver`, `durability="sync"`)',
        True,
        _LANGGRAPH,
    ),
    Contestant("Agent Framework", "agent_framework", "nothing", False, _AGENT_FRAMEWORK),
    Contestant(
        "Agent Framework",
        "agent_framework",
        "the messages of every model call (`InMemoryHistoryProvider`)",
        True,
        _AGENT_FRAMEWORK,
    ),
)

"""Capabilities: who may keep a file is a matter of names, and of nothing in the planner or Loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentic_kernel import Agent, CannotStart, Capability, Task
from agentic_kernel_engine import Host, Loop, tool
from agentic_kernel_engine.loop import Context, FinalAnswer, ToolCall
from agentic_kernel_engine.seams import (
    CapabilityRegistry,
    InMemoryCapabilities,
    Repertoire,
    ScriptedPlanner,
)
from agentic_kernel_file import FileStore


def office(folder: Path) -> InMemoryCapabilities:
    """A visitor who may read, a clerk who may also write, and one whose papers are not in order."""

    @tool(effect="write", idempotent=True)
    def keep(name: str, text: str) -> str:
        """Keep a text."""
        (folder / name).write_text(text, encoding="utf-8")
        return name

    @tool(effect="read")
    def read(name: str) -> str:
        """Read a text."""
        return (folder / name).read_text(encoding="utf-8")

    agents = {
        "office/visitor": ["office/reading"],
        "office/clerk": ["office/reading", "office/writing"],
        "office/forger": ["office/reading", "office/stamps"],
    }
    return InMemoryCapabilities(
        [Agent(name, tuple(map(Capability, names))) for name, names in agents.items()],
        {
            "office/reading": Repertoire("Read before you write.", [read]),
            "office/writing": Repertoire("One file for each letter.", [keep]),
        },
    )


def observed(context: Context) -> FinalAnswer:
    last: Any = context.transcript[-1]
    return FinalAnswer([*context.instructions, last.observations[0].error])


async def kept(state: Path, capabilities: CapabilityRegistry | None) -> dict[str, Any]:
    """What became of the same letter, by whom it was given to."""
    planner = ScriptedPlanner(ToolCall("keep", {"name": "letter", "text": "Dear"}), observed)
    outcomes: dict[str, Any] = {}
    async with Host(Loop(planner, capabilities=capabilities), FileStore(state)) as host:
        for agent in ("office/visitor", "office/clerk", "office/forger", "office/nobody"):
            task = Task.new(
                summary="", instructions="Keep it.", runtime_kind="loop", agent_name=agent
            )
            try:
                outcomes[agent] = (await host.run(task)).result
            except CannotStart as refused:
                outcomes[agent] = str(refused.__cause__)
        outcomes["stored"] = len(await host.find())
    return outcomes


async def test_the_names_decide_who_may_do_what(tmp_path: Path) -> None:
    folder = tmp_path / "letters"
    folder.mkdir()
    outcomes = await kept(tmp_path / "state", office(folder))
    assert outcomes["office/visitor"] == ["Read before you write.", "unknown_tool"]
    assert outcomes["office/clerk"] == ["Read before you write.", "One file for each letter.", ""]
    assert outcomes["office/forger"].startswith("engine/unknown_capability")
    assert outcomes["office/nobody"].startswith("engine/unknown_agent")
    assert outcomes["stored"] == 2, "of what is refused nothing is written"
    assert (folder / "letter").read_text(encoding="utf-8") == "Dear"


async def test_without_the_registry_nobody_can_do_anything(tmp_path: Path) -> None:
    outcomes = await kept(tmp_path / "state", None)
    assert outcomes["office/clerk"] == ["unknown_tool"]
    assert outcomes["stored"] == 4

"""A Loop on the local model behind the guard, on a real MCP server: a person approves its call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Host, Limits, Loop, MemoryStore, Principal
from agentic_kernel_engine.loop import ToolCall
from agentic_kernel_guard import (
    CapabilitySpec,
    Guard,
    GuardedTools,
    GuardPolicy,
    Key,
    Keyring,
    MemoryGuardStore,
    Principals,
    Registry,
    RulePolicy,
    SafetyClass,
    StaticRouter,
    ToolsDriver,
)
from agentic_kernel_guard.rules import parse
from agentic_kernel_local import Example, LocalPlanner
from agentic_kernel_mcp import CHANGED, UNAVAILABLE, MCPTools, StdioServer

from .peers.node import installed, node

pytestmark = pytest.mark.torture
RULES = """version: 1
rules:
- {name: asks, priority: 1, effect: require_approval, match: {capability: files/create_directory},
   approval: {approvers: [bob]}}
"""
ANN = Principal("ann")


def made(path: str, tool: str) -> ToolCall:
    arguments = {"path": path, "justification": "The user asked for this folder."}
    return ToolCall(tool, arguments)


def examples(root: Path, tool: str = "files_create_directory") -> list[Example]:
    return [
        Example(
            f"Make the folder {root}/{name}.", made(f"{root}/{name}", tool), "made", "It is made."
        )
        for name in ("mail", "photos")
    ]


async def test_the_local_model_waits_for_a_person_before_it_changes_a_file(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    # A short path: the small model may not copy a long one as it is.
    root = tmp_path_factory.mktemp("f").resolve()
    package = installed("mcp-servers") / "node_modules" / "@modelcontextprotocol"
    program = str(package / "server-filesystem" / "dist" / "index.js")
    server = StdioServer(str(node()), (program, str(root)))
    planner = LocalPlanner(max_tokens=200, examples=examples(root))
    async with MCPTools({"files": server}) as tools:
        tool = tools.find("files__create_directory")
        assert tool is not None
        spec = CapabilitySpec(
            "files/create_directory", "Make a folder.", tool.name, arguments=tool.input_schema,
            safety=SafetyClass(tool.effect),
        )  # fmt: skip
        driver = ToolsDriver(tools, source="files", refusals=(UNAVAILABLE, CHANGED))
        store = MemoryGuardStore()
        resolver = Principals([ANN])
        guard = Guard(
            Registry([spec]), StaticRouter({spec.name: [driver]}),
            policy=RulePolicy(parse(RULES)), store=store,
            keys=Keyring([Key("k1", bytes(range(32)))]), resolver=resolver,
        )  # fmt: skip
        loop = Loop(
            planner, GuardedTools(guard), policy=GuardPolicy(guard), limits=Limits(max_iterations=3)
        )
        async with Host(loop, MemoryStore(), acts_for=resolver.resolve) as host:
            task = Task.new(
                summary="", instructions=f"Make the folder {root}/music.", runtime_kind="local"
            )
            await host.dispatch(task, principal=ANN)
            held = await host.wait(task.id, TaskStatus.PAUSED)
            assert held.status is TaskStatus.PAUSED, held
            request: Any = held.metadata["engine/waiting_for"]["requests"][0]
            assert request["action"]["tool"] == "files_create_directory"
            assert list(root.iterdir()) == [], "nothing happens before a person has approved it"
            await host.approve(task.id, request["digest"], by="bob")
            await host.wait(task.id, TaskStatus.PAUSED)
    await planner.close()
    assert [each.name for each in root.iterdir()] == ["music"]
    ended = [link.entry for link in await store.links() if link.entry["kind"] == "ended"]
    told = await guard.explain(ended[0]["action"])
    assert (told.outcome, told.last["approved_by"], told.last["task"]) == (
        "succeeded", "bob", task.id,
    )  # fmt: skip

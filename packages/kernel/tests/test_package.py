"""The package as a whole: its public names, and what it does not contain."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import agentic_kernel
from agentic_kernel import Failure, Query, Runtime, Task, TaskStatus, invariants

FOLDER = Path(agentic_kernel.__file__).parent
SOURCES = sorted(FOLDER.rglob("*.py"))

PUBLIC = """
Agent CannotStart Capability Complete Dispatch Fail Failure IllegalTransition InvalidTask
InvalidValue KernelError Kill Mutation Pause Query Resume Runtime Task TaskExists TaskNotFound
TaskStatus annotate apply
""".split()


def test_the_public_names_are_these() -> None:
    assert sorted(agentic_kernel.__all__) == sorted(PUBLIC)
    for name in PUBLIC:
        assert inspect.getdoc(getattr(agentic_kernel, name)), f"{name} has no docstring"
    assert callable(invariants.check)
    assert callable(invariants.follows)


def test_the_package_is_typed() -> None:
    assert (FOLDER / "py.typed").is_file()


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_a_module_imports_the_standard_library_and_its_neighbours_only(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            tops = [alias.name.partition(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            tops = [(node.module or "").partition(".")[0]]
        else:
            continue
        assert set(tops) <= sys.stdlib_module_names
        assert not set(tops) & {"asyncio", "logging", "socket", "subprocess", "sqlite3", "json"}


def test_importing_it_loads_neither_asyncio_nor_anything_from_outside() -> None:
    script = (
        "import sys, json; before = set(sys.modules)\n"
        "import agentic_kernel, agentic_kernel.invariants\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    place = {"PYTHONPATH": str(FOLDER.parent)}
    # -S: not even what an environment loads at start-up.
    done = subprocess.run(
        [sys.executable, "-S", "-c", script], env=place, capture_output=True, check=True, timeout=60
    )
    tops = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert "agentic_kernel" in tops
    assert tops - {"agentic_kernel"} <= sys.stdlib_module_names
    assert not tops & {"asyncio", "logging", "socket", "subprocess", "concurrent"}


SUBSTRATES = """
anthropic aws azure bedrock chatgpt claude copilot crewai dapr dbos docker gemini gguf gpt
huggingface kafka kubernetes langchain langgraph llama llm mcp mistral mongo mysql nats ollama
openai postgres rabbitmq redis s3 sqlite temporal vllm
""".split()


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_no_substrate_is_named_in_code_or_docstrings(path: Path) -> None:
    words = set(re.findall(r"[a-z0-9]+", path.read_text().lower()))
    assert not words & set(SUBSTRATES)


class Everything:
    """The six verbs and the three readers, with whatever return values."""

    async def dispatch(self, task: Task) -> bool:
        return True

    async def pause(self, task_id: str) -> None: ...

    async def resume(self, task_id: str, extra: str | None = None) -> int:
        return 1

    async def kill(self, task_id: str) -> str:
        return task_id

    async def complete(self, task_id: str, result: Any) -> None: ...

    async def fail(self, task_id: str, failure: Failure) -> None: ...

    async def get(self, task_id: str) -> Task:
        return Task.new(summary="", instructions="", runtime_kind="k", id=task_id)

    async def get_many(self, task_ids: Any) -> dict[str, Task]:
        return {}

    async def find(
        self, status: TaskStatus | None = None, after: str | None = None, limit: int = 100
    ) -> list[Task]:
        return []


def test_the_protocols_are_met_by_shape() -> None:
    runtime: Runtime = Everything()
    query: Query = Everything()
    assert isinstance(runtime, Runtime)
    assert isinstance(query, Query)
    assert not isinstance(object(), (Runtime, Query))


def test_the_protocols_have_the_verbs_of_the_contract_and_no_more() -> None:
    verbs = {name for name, _ in inspect.getmembers(Runtime, inspect.iscoroutinefunction)}
    readers = {name for name, _ in inspect.getmembers(Query, inspect.iscoroutinefunction)}
    assert verbs == {"dispatch", "pause", "resume", "kill", "complete", "fail"}
    assert readers == {"get", "get_many", "find"}

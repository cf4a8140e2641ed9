"""The planners of all siblings tell which model they ask, in the same way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agentic_kernel_claude import ClaudePlanner
from agentic_kernel_engine.seams import Planner, ScriptedPlanner, model_of
from agentic_kernel_gemini import GeminiPlanner
from agentic_kernel_local import LocalPlanner
from agentic_kernel_ollama import OllamaPlanner
from agentic_kernel_openai import OpenAIChatPlanner, OpenAIPlanner


@pytest.mark.parametrize(
    "made", [OpenAIPlanner, OpenAIChatPlanner, ClaudePlanner, OllamaPlanner, GeminiPlanner]
)
def test_a_planner_tells_the_model_that_its_requests_name(made: Callable[[str], Planner]) -> None:
    assert model_of(made("acme-1")) == "acme-1"


def test_a_local_planner_tells_the_name_of_its_file_once_there_is_one(tmp_path: Path) -> None:
    file = tmp_path / "small.Q4.gguf"
    planner = LocalPlanner(file)
    assert planner.model == ""
    file.write_bytes(b"GGUF")
    assert model_of(planner) == "small.Q4"


def test_a_planner_without_a_model_tells_none() -> None:
    class Odd(ScriptedPlanner):
        model = 4

    assert model_of(ScriptedPlanner()) == model_of(Odd()) == ""

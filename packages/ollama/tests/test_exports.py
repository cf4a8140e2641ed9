"""The names that this package hands on."""

from __future__ import annotations

import subprocess
import sys

import agentic_kernel_ollama


def test_the_public_names_are_these() -> None:
    assert agentic_kernel_ollama.__all__ == [
        "IMPL",
        "RUNTIME_KIND",
        "OllamaPlanner",
        "OllamaRuntime",
    ]


def test_importing_it_and_making_a_runtime_does_not_import_the_sdk() -> None:
    code = (
        "import sys, agentic_kernel_ollama as ours; ours.OllamaRuntime('qwen3:8b');"
        "print(sorted({'ollama', 'httpx', 'pydantic'} & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"

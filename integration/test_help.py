"""`help()` of every public name of every package."""

from __future__ import annotations

import pydoc
from importlib import import_module
from typing import Any

import pytest

PACKAGES = [
    "agentic_kernel", "agentic_kernel_engine", "agentic_kernel_engine.loop",
    "agentic_kernel_engine.seams", "agentic_kernel_engine.seams.memories",
    "agentic_kernel_engine.seams.middlewares", "agentic_kernel_engine.providers",
    "agentic_kernel_file", "agentic_kernel_postgres", "agentic_kernel_local",
    "agentic_kernel_openai", "agentic_kernel_claude", "agentic_kernel_ollama",
    "agentic_kernel_gemini",
    "agentic_kernel_copilot", "agentic_kernel_otel", "agentic_kernel_mcp",
    "agentic_kernel_server", "agentic_kernel_new",
    "agentic_kernel_conformance",
]  # fmt: skip
PUBLIC = [(package, name) for package in PACKAGES for name in import_module(package).__all__]


@pytest.mark.parametrize(("package", "name"), PUBLIC, ids=".".join)
def test_help_of_a_public_name_can_be_shown(package: str, name: str) -> None:
    thing: Any = getattr(import_module(package), name)
    if isinstance(thing, str):
        return  # `help` takes a text for the name of a topic.
    assert name in pydoc.render_doc(thing) or not isinstance(thing, type)

"""The ready runtimes' substrates, as the runtimes make them, at a server of our own."""

from __future__ import annotations

from typing import Any, Final

# The planners import these when they first need them. Here they come before the workers are forked,
# because each import takes about a second.
import anthropic  # noqa: F401
import ollama as _ollama  # noqa: F401
import openai as _openai  # noqa: F401

from agentic_kernel import Task
from agentic_kernel_claude import ClaudePlanner
from agentic_kernel_conformance import Script
from agentic_kernel_conformance.substrate_honest import to_json
from agentic_kernel_engine import Loop
from agentic_kernel_engine.providers import ProviderPlanner, patient
from agentic_kernel_ollama import OllamaPlanner
from agentic_kernel_openai import OpenAIChatPlanner, OpenAIPlanner

from .following import LIMITS, LoopWork, mark

KEY: Final = "sk-peer-0123456789abcdef"
MODEL: Final = "scripted"


class VendorWork(LoopWork):
    """Makes Tasks whose instructions are the script.

    Args:
        kind: The kind of the Tasks, which is also the name of the runtime's options.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def task(self, script: Script) -> Task:
        return self._task(to_json(script))

    def refused(self) -> Task:
        return self._task("no script", **{f"{self.kind}/max_tokens": 0})

    def _task(self, instructions: str, **metadata: Any) -> Task:
        return Task.new(
            summary="a script of the kit",
            instructions=instructions,
            runtime_kind=self.kind,
            metadata=metadata,
        )


def openai(url: str) -> Loop:
    """The factory for OpenAI, over the Responses API."""
    return _loop(OpenAIPlanner(MODEL, api_key=KEY, base_url=f"{url}/v1"))


def openai_chat(url: str) -> Loop:
    """The factory for OpenAI, over the Chat Completions API."""
    return _loop(OpenAIChatPlanner(MODEL, api_key=KEY, base_url=f"{url}/v1"))


def claude(url: str) -> Loop:
    """The factory for Claude."""
    return _loop(ClaudePlanner(MODEL, api_key=KEY, base_url=url))


def ollama(url: str) -> Loop:
    """The factory for Ollama."""
    return _loop(OllamaPlanner(MODEL, host=url, api_key=KEY))


def _loop(planner: ProviderPlanner) -> Loop:
    """The Loop that a ready runtime makes of its planner."""
    return Loop(planner, [mark], middleware=[patient(planner.impl)], limits=LIMITS)

"""OpenAI's substrates: the factories."""

from __future__ import annotations

# The planner imports the SDK when it first needs it. Here the import comes before the workers are
# forked, because it takes up to three seconds.
import openai  # noqa: F401

from agentic_kernel_engine import Loop
from agentic_kernel_openai import OpenAIChatPlanner, OpenAIPlanner

from .vendors import KEY, MODEL, looped


def responses(url: str) -> Loop:
    """The factory for the Responses API."""
    return looped(OpenAIPlanner(MODEL, api_key=KEY, base_url=f"{url}/v1"))


def chat(url: str) -> Loop:
    """The factory for the Chat Completions API."""
    return looped(OpenAIChatPlanner(MODEL, api_key=KEY, base_url=f"{url}/v1"))

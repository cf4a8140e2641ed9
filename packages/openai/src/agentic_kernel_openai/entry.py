"""Entry: what this package offers to `agentic_kernel_engine.discovery`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from agentic_kernel_engine.api_entry import api_entry

from .chat import OpenAIChatPlanner
from .planner import OpenAIAPIPlanner
from .responses import OpenAIPlanner


@dataclass(frozen=True)
class EntryOptions:
    """The options of the provider ``openai``."""

    api: Literal["responses", "chat"] = "responses"


def _planner(model: str, options: EntryOptions) -> OpenAIAPIPlanner:
    return OpenAIChatPlanner(model) if options.api == "chat" else OpenAIPlanner(model)


PROVIDER: Final = api_entry(
    OpenAIPlanner,
    "models of OpenAI and of servers with its API",
    make=_planner,
    options=EntryOptions,
)
"""The provider ``openai``."""

"""Entry: what this package offers to `agentic_kernel_engine.discovery`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from agentic_kernel_engine.checks import Check, key_check, server_check
from agentic_kernel_engine.discovery import ProviderEntry
from agentic_kernel_engine.providers import ProviderPlanner

from .chat import OpenAIChatPlanner
from .client import Client
from .responses import OpenAIPlanner


@dataclass(frozen=True)
class EntryOptions:
    """The options of the provider ``openai``."""

    api: Literal["responses", "chat"] = "responses"


def _planner(model: str, options: EntryOptions) -> ProviderPlanner:
    return OpenAIChatPlanner(model) if options.api == "chat" else OpenAIPlanner(model)


async def _checks() -> Sequence[Check]:
    return [
        key_check("openai key", *Client.key_variables),
        await server_check("openai server", "https://api.openai.com/v1", Client.address_variable),
    ]


PROVIDER: Final = ProviderEntry(
    make=_planner,
    options=EntryOptions,
    checks=_checks,
    summary="models of OpenAI and of servers with its API",
)
"""The provider ``openai``."""

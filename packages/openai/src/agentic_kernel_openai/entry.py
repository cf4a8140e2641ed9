"""Entry: what this package offers to `agentic_kernel_engine.discovery`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from agentic_kernel_engine.checks import Check, key_check, server_check
from agentic_kernel_engine.discovery import ProviderEntry
from agentic_kernel_engine.listing import models_check
from agentic_kernel_engine.providers import ProviderPlanner

from .chat import OpenAIChatPlanner
from .client import Client
from .responses import OpenAIPlanner

_ADDRESS: Final = "https://api.openai.com/v1"


@dataclass(frozen=True)
class EntryOptions:
    """The options of the provider ``openai``."""

    api: Literal["responses", "chat"] = "responses"


def _planner(model: str, options: EntryOptions) -> ProviderPlanner:
    return OpenAIChatPlanner(model) if options.api == "chat" else OpenAIPlanner(model)


async def _checks() -> Sequence[Check]:
    return [
        key_check("openai key", *Client.key_variables),
        await server_check("openai server", _ADDRESS, Client.address_variable),
        await models_check(
            "openai models",
            _ADDRESS,
            Client.address_variable,
            "/models",
            keys={"OPENAI_API_KEY": "Authorization: Bearer {}"},
        ),
    ]


PROVIDER: Final = ProviderEntry(
    make=_planner,
    options=EntryOptions,
    checks=_checks,
    summary="models of OpenAI and of servers with its API",
)
"""The provider ``openai``."""

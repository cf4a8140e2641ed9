"""Entry: what this package offers to `agentic_kernel_engine.discovery`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agentic_kernel_engine.checks import Check, key_check, server_check
from agentic_kernel_engine.discovery import NoOptions, ProviderEntry
from agentic_kernel_engine.listing import models_check
from agentic_kernel_engine.providers import ProviderPlanner

from .client import Client
from .planner import ClaudePlanner

_ADDRESS: Final = "https://api.anthropic.com"


def _planner(model: str, _: NoOptions) -> ProviderPlanner:
    return ClaudePlanner(model)


async def _checks() -> Sequence[Check]:
    return [
        key_check("claude key", *Client.key_variables),
        await server_check("claude server", _ADDRESS, Client.address_variable),
        await models_check(
            "claude models",
            _ADDRESS,
            Client.address_variable,
            "/v1/models?limit=100",
            keys={
                "ANTHROPIC_API_KEY": "x-api-key: {}",
                "ANTHROPIC_AUTH_TOKEN": "Authorization: Bearer {}",
            },
            headers={"anthropic-version": "2023-06-01"},
        ),
    ]


PROVIDER: Final = ProviderEntry(
    make=_planner, options=NoOptions, checks=_checks, summary="Claude through the Messages API"
)
"""The provider ``claude``."""

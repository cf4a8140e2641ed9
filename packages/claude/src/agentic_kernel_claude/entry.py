"""Entry: what this package offers to `agentic_kernel_engine.discovery`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agentic_kernel_engine.checks import Check, key_check, server_check
from agentic_kernel_engine.discovery import NoOptions, ProviderEntry
from agentic_kernel_engine.providers import ProviderPlanner

from .client import Client
from .planner import ClaudePlanner


def _planner(model: str, _: NoOptions) -> ProviderPlanner:
    return ClaudePlanner(model)


async def _checks() -> Sequence[Check]:
    return [
        key_check("claude key", *Client.key_variables),
        await server_check("claude server", "https://api.anthropic.com", Client.address_variable),
    ]


PROVIDER: Final = ProviderEntry(
    make=_planner, options=NoOptions, checks=_checks, summary="Claude through the Messages API"
)
"""The provider ``claude``."""

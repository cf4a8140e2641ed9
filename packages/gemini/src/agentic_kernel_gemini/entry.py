"""Entry: what this package offers to `agentic_kernel_engine.discovery`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agentic_kernel_engine.checks import Check, key_check, server_check
from agentic_kernel_engine.discovery import NoOptions, ProviderEntry
from agentic_kernel_engine.providers import ProviderPlanner

from .client import Client
from .planner import GeminiPlanner


def _planner(model: str, _: NoOptions) -> ProviderPlanner:
    return GeminiPlanner(model)


async def _checks() -> Sequence[Check]:
    return [
        key_check("gemini key", *Client.key_variables),
        await server_check(
            "gemini server", "https://generativelanguage.googleapis.com", Client.address_variable
        ),
    ]


PROVIDER: Final = ProviderEntry(
    make=_planner, options=NoOptions, checks=_checks, summary="Gemini through Google's API"
)
"""The provider ``gemini``."""

"""Entry: what this package offers to `agentic_kernel_engine.discovery`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agentic_kernel_engine.checks import Check, key_check, server_check
from agentic_kernel_engine.discovery import NoOptions, ProviderEntry
from agentic_kernel_engine.listing import models_check
from agentic_kernel_engine.providers import ProviderPlanner

from .client import Client
from .planner import GeminiPlanner

_ADDRESS: Final = "https://generativelanguage.googleapis.com"


def _planner(model: str, _: NoOptions) -> ProviderPlanner:
    return GeminiPlanner(model)


async def _checks() -> Sequence[Check]:
    return [
        key_check("gemini key", *Client.key_variables),
        await server_check("gemini server", _ADDRESS, Client.address_variable),
        await models_check(
            "gemini models",
            _ADDRESS,
            Client.address_variable,
            "/v1/models?pageSize=1000",
            keys={"GOOGLE_API_KEY": "x-goog-api-key: {}", "GEMINI_API_KEY": "x-goog-api-key: {}"},
        ),
    ]


PROVIDER: Final = ProviderEntry(
    make=_planner, options=NoOptions, checks=_checks, summary="Gemini through Google's API"
)
"""The provider ``gemini``."""

"""Entry: what this package offers to `agentic_kernel_engine.discovery`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agentic_kernel_engine.checks import Check, server_check
from agentic_kernel_engine.discovery import NoOptions, ProviderEntry
from agentic_kernel_engine.listing import models_check
from agentic_kernel_engine.providers import ProviderPlanner

from .client import USUAL, Client
from .planner import OllamaPlanner


def _planner(model: str, _: NoOptions) -> ProviderPlanner:
    return OllamaPlanner(model)


async def _checks() -> Sequence[Check]:
    return [
        await server_check("ollama server", USUAL, Client.address_variable),
        await models_check("ollama models", USUAL, Client.address_variable, "/api/tags"),
    ]


PROVIDER: Final = ProviderEntry(
    make=_planner, options=NoOptions, checks=_checks, summary="models of an Ollama server"
)
"""The provider ``ollama``."""

"""Entry: what this package offers to `agentic_kernel_engine.discovery`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from agentic_kernel import CannotStart
from agentic_kernel_engine import Substrate
from agentic_kernel_engine.checks import Check
from agentic_kernel_engine.discovery import Allowed, NoOptions, RuntimeEntry

from .limits import LIMITS
from .program import find_cli


def _substrate(allowed: Allowed, _: NoOptions) -> Substrate:
    from .substrate import CopilotSubstrate  # Imports the SDK, which takes two seconds.

    return CopilotSubstrate(
        model=allowed.model,
        system_message=allowed.system,
        offline=os.environ.get("COPILOT_OFFLINE", "").lower() == "true",
        tools=allowed.tools,
        policy=allowed.policy,
        limits=allowed.limits,
    )


async def _checks() -> Sequence[Check]:
    try:
        return [Check("copilot CLI", True, str(find_cli()))]
    except CannotStart as error:
        return [Check("copilot CLI", False, "none found", error.reason)]


RUNTIME: Final = RuntimeEntry(
    make=_substrate,
    options=NoOptions,
    takes=frozenset({"model", "system", "tools"}),
    limits=LIMITS,
    checks=_checks,
    summary="sessions of the GitHub Copilot CLI",
)
"""The runtime ``copilot``."""

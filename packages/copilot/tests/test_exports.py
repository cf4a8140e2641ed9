"""The names that this package hands on."""

import agentic_kernel_copilot
from agentic_kernel_copilot.entry import RUNTIME
from agentic_kernel_copilot.substrate import INPUTS


def test_the_public_names_are_these() -> None:
    assert agentic_kernel_copilot.__all__ == [
        "CLI_VARIABLE",
        "CLI_VERSION",
        "RUNTIME_KIND",
        "SESSION",
        "CopilotRuntime",
        "CopilotSubstrate",
        "find_cli",
    ]
    assert all(hasattr(agentic_kernel_copilot, name) for name in agentic_kernel_copilot.__all__)


def test_the_entry_names_the_limits_that_the_substrate_keeps() -> None:
    assert RUNTIME.limits == INPUTS.limits

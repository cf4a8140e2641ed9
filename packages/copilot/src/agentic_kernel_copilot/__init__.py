"""The GitHub Copilot CLI as a Runtime: a Task is a session, and our policy decides its requests."""

from .program import CLI_VARIABLE, CLI_VERSION, find_cli
from .runtime import RUNTIME_KIND, CopilotRuntime
from .substrate import SESSION, CopilotSubstrate

__all__ = [
    "CLI_VARIABLE",
    "CLI_VERSION",
    "RUNTIME_KIND",
    "SESSION",
    "CopilotRuntime",
    "CopilotSubstrate",
    "find_cli",
]

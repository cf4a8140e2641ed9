"""The runtime kinds that this command runs. It only controls Tasks of other kinds."""

from __future__ import annotations

from typing import Final

LOCAL: Final = "local"
"""The runtime kind of a conversation with the local model."""
LOCAL_TOOLS: Final = "local-tools"
"""The runtime kind of Tasks in which the local model calls tools."""
VENDORS: Final = ("openai", "claude", "ollama", "gemini")
"""The runtime kinds of models that a server offers."""
COPILOT: Final = "copilot"
"""The runtime kind of sessions of the Copilot CLI."""
KINDS: Final = (LOCAL, LOCAL_TOOLS, *VENDORS, COPILOT)
"""The runtime kinds that this command runs."""
RUNTIMES: Final = (LOCAL, *VENDORS, COPILOT)
"""The values of ``--runtime``."""


def taker(kind: str) -> str:
    """The remedy for a Task of this runtime kind that no process runs now."""
    return "recover it" if serves(kind) else f"only a Host that serves {kind!r} can run it"


def serves(kind: str) -> bool:
    """True if this command runs Tasks of this runtime kind."""
    return kind in KINDS


def install(kind: str) -> str:
    """The command that installs what a runtime kind needs."""
    from agentic_kernel_engine.install import install as command

    return command(f"agentic-kernel-cli[{kind}]")

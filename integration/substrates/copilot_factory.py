"""Copilot's substrate: the factory, and its work."""

from __future__ import annotations

from agentic_kernel import Task
from agentic_kernel_copilot import CopilotSubstrate, find_cli

from ..peers.node import installed
from .following import mark
from .vendors import KEY, MODEL, VendorWork


class CopilotWork(VendorWork):
    """Makes Tasks whose instructions are the script."""

    def __init__(self) -> None:
        super().__init__("copilot")

    def refused(self) -> Task:
        """A Task with a note that only the substrate may write."""
        return self._task("no script", **{"copilot/session": "of another Task"})


def make(url: str, home: str) -> CopilotSubstrate:
    """The factory.

    Args:
        url: The address of the provider.
        home: The folder of the CLI's sessions, which all workers share.
    """
    return CopilotSubstrate(
        model=MODEL,
        provider={
            "type": "openai",
            "wire_api": "completions",
            "base_url": f"{url}/v1",
            "api_key": KEY,
        },
        offline=True,
        tools=[mark],
        system_message="Be brief.",
        cli_path=find_cli(installed("copilot")),
        home=home,
        working_directory=home,
        env={"HOME": home, "XDG_CACHE_HOME": f"{home}/.cache"},
    )

"""The ready runtimes' substrates, as the runtimes make them, at a server of our own.

Each vendor's factory has a module of its own. A process imports that module before it forks the
workers, so it imports the SDK of that vendor only.
"""

from __future__ import annotations

from typing import Any, Final

from agentic_kernel import Task
from agentic_kernel_conformance import Script
from agentic_kernel_conformance.substrate_honest import to_json
from agentic_kernel_engine import Loop
from agentic_kernel_engine.providers import ProviderPlanner, patient

from .following import LIMITS, LoopWork, mark

KEY: Final = "sk-peer-0123456789abcdef"
MODEL: Final = "scripted"


class VendorWork(LoopWork):
    """Makes Tasks whose instructions are the script.

    Args:
        kind: The kind of the Tasks, which is also the name of the runtime's options.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def task(self, script: Script) -> Task:
        return self._task(to_json(script))

    def refused(self) -> Task:
        return self._task("no script", **{f"{self.kind}/max_tokens": 0})

    def _task(self, instructions: str, **metadata: Any) -> Task:
        return Task.new(
            summary="a script of the kit",
            instructions=instructions,
            runtime_kind=self.kind,
            metadata=metadata,
        )


def looped(planner: ProviderPlanner) -> Loop:
    """The Loop that a ready runtime makes of its planner."""
    return Loop(planner, [mark], middleware=[patient(planner.impl)], limits=LIMITS)

"""Models that a server offers, each through a package of its own; nothing else here needs them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from agentic_kernel import CannotStart, Task
from agentic_kernel_engine import Job, Limits, Loop
from agentic_kernel_engine.providers import ProviderPlanner
from agentic_kernel_engine.providers.runtime import patient

from .grants import API_KEY
from .toolbox import Toolbox

LIMITS: Final = Limits(max_iterations=50)


class Vendor(NamedTuple):
    """Where a vendor's models are, and what it takes to use them."""

    key: str
    """The environment variable of the key; empty where none is needed."""
    base: str
    """The environment variable of the server's address."""
    address: str
    """The address where nothing is said."""


VENDORS: Final[Mapping[str, Vendor]] = {
    "openai": Vendor("OPENAI_API_KEY", "OPENAI_BASE_URL", "https://api.openai.com/v1"),
    "claude": Vendor("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "https://api.anthropic.com"),
    "ollama": Vendor("", "OLLAMA_HOST", "http://127.0.0.1:11434"),
}


def install(kind: str) -> str:
    """The command that installs what a runtime kind needs."""
    return f"pip install 'agentic-kernel-cli[{kind}]'"


def address(kind: str) -> str:
    """Where the server of a runtime kind is."""
    vendor = VENDORS[kind]
    given = os.environ.get(vendor.base) or vendor.address
    return given if "://" in given else f"http://{given}"


class VendorWork:
    """Tasks on a vendor's model, with the model and the tools that are granted.

    Args:
        kind: One of `VENDORS`.
        model: Which one is asked; None if none was granted.
    """

    def __init__(self, kind: str, model: str | None) -> None:
        self._kind = kind
        self._model = model
        self._planners: dict[str | None, ProviderPlanner] = {}

    async def accept(self, task: Task, box: Toolbox | None) -> None:
        """Refuse a Task for which there is no model, or whose options or key are missing."""
        await self._loop(task, box).accept(task)

    async def execute(self, job: Job, box: Toolbox | None) -> Any:
        try:
            loop = self._loop(job.task, box)
        except CannotStart as error:
            # What is missing here may be there elsewhere, or tomorrow.
            await job.pause(job.state, reason=str(error))
        return await loop.execute(job)

    async def close(self) -> None:
        """Let go of the connections."""
        for planner in self._planners.values():
            await planner.close()

    def _loop(self, task: Task, box: Toolbox | None) -> Loop:
        return Loop(
            self._planner(task),
            () if box is None else box.tools(),
            None if box is None else box.policy(),
            limits=LIMITS,
            middleware=[patient(self._kind)],
        )

    def _planner(self, task: Task) -> ProviderPlanner:
        model, api = self._model, task.metadata.get(API_KEY)
        if not model:
            raise CannotStart(f"there is no model for {self._kind}; add --model NAME", task.id)
        if api is not None and not isinstance(api, str):
            raise CannotStart(f"Task.metadata[{API_KEY!r}]: must be a string", task.id)
        planner = self._planners.get(api)
        if planner is None:
            try:
                planner = _planner(self._kind, model, api)
            except ImportError as error:
                missing = f"the {self._kind} runtime is not installed: {install(self._kind)}"
                raise CannotStart(missing, task.id) from error
            self._planners[api] = planner
        return planner


def _planner(kind: str, model: str, api: str | None) -> Any:
    match kind, api:
        case "openai", None | "responses":
            from agentic_kernel_openai import OpenAIPlanner

            return OpenAIPlanner(model)
        case "openai", "chat":
            from agentic_kernel_openai import OpenAIChatPlanner

            return OpenAIChatPlanner(model)
        case "claude", None:
            from agentic_kernel_claude import ClaudePlanner

            return ClaudePlanner(model)
        case "ollama", None:
            from agentic_kernel_ollama import OllamaPlanner

            return OllamaPlanner(model)
    raise CannotStart(f"the {kind} runtime has no API {api!r}; --api is for openai")

"""Models that a server offers; the package of a vendor is imported only when a Task needs it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from agentic_kernel import CannotStart, Task
from agentic_kernel_engine import Job, Limits, Loop
from agentic_kernel_engine.providers import ProviderPlanner, patient

from .grants import API_KEY
from .kinds import install
from .toolbox import Toolbox

LIMITS: Final = Limits(max_iterations=50)


class Vendor(NamedTuple):
    """The server of a vendor, and the environment variables for its use."""

    key: str
    """The environment variable of the key; empty if no key is needed."""
    base: str
    """The environment variable of the server's address."""
    address: str
    """The default address."""


VENDORS: Final[Mapping[str, Vendor]] = {
    "openai": Vendor("OPENAI_API_KEY", "OPENAI_BASE_URL", "https://api.openai.com/v1"),
    "claude": Vendor("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "https://api.anthropic.com"),
    "gemini": Vendor(
        "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", "https://generativelanguage.googleapis.com"
    ),
    "ollama": Vendor("", "OLLAMA_HOST", "http://127.0.0.1:11434"),
}


def address(kind: str) -> str:
    """The address of the server of a runtime kind."""
    vendor = VENDORS[kind]
    given = os.environ.get(vendor.base) or vendor.address
    return given if "://" in given else f"http://{given}"


class VendorWork:
    """Runs Tasks on a vendor's model, with the granted model and tools.

    Args:
        kind: One of `VENDORS`.
        model: The name of the model; None if none was granted.
        middleware: The last middlewares of each Loop.
    """

    def __init__(self, kind: str, model: str | None, middleware: Sequence[Any] = ()) -> None:
        self._middleware = middleware
        self._kind = kind
        self._model = model
        self._planners: dict[str | None, ProviderPlanner] = {}

    async def accept(self, task: Task, box: Toolbox | None) -> None:
        """Refuse a Task without a model or a key, or with options that are not valid."""
        await self._loop(task, box).accept(task)

    async def execute(self, job: Job, box: Toolbox | None) -> Any:
        try:
            loop = self._loop(job.task, box)
        except CannotStart as error:
            # Pause and do not fail: a model or a package may be there later, or elsewhere.
            await job.pause(job.state, reason=str(error))
        return await loop.execute(job)

    async def close(self) -> None:
        """Close the connections."""
        for planner in self._planners.values():
            await planner.close()

    def _loop(self, task: Task, box: Toolbox | None) -> Loop:
        return Loop(
            self._planner(task),
            () if box is None else box.tools(),
            None if box is None else box.policy(),
            limits=LIMITS,
            middleware=[patient(self._kind), *self._middleware],
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
        case "gemini", None:
            from agentic_kernel_gemini import GeminiPlanner

            return GeminiPlanner(model)
        case "ollama", None:
            from agentic_kernel_ollama import OllamaPlanner

            return OllamaPlanner(model)
    raise CannotStart(
        f"the {kind} runtime has no API {api!r}; use --api only for openai: responses or chat"
    )

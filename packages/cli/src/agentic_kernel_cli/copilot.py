"""The Copilot CLI, when its package is installed; nothing else here needs it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from agentic_kernel import CannotStart, Task
from agentic_kernel_engine import Job

from .toolbox import Toolbox, box_of
from .vendors import LIMITS, MODEL_KEY, install

if TYPE_CHECKING:
    from agentic_kernel_copilot import CopilotSubstrate

SYSTEM_KEY: Final = "copilot/system"


class CopilotWork:
    """A substrate: sessions of the Copilot CLI, with the tools that a Task names.

    Args:
        model: Asked instead of the one that the Task names.
    """

    def __init__(self, model: str | None) -> None:
        self._model = model
        self._substrates: dict[tuple[Any, Any, Toolbox | None], CopilotSubstrate] = {}

    async def accept(self, task: Task) -> None:
        """Refuse a Task whose tools are missing, or for which the CLI cannot be had."""
        await self._substrate(task).accept(task)

    async def execute(self, job: Job) -> Any:
        try:
            substrate = self._substrate(job.task)
        except CannotStart as error:
            # What is missing here may be there elsewhere, or tomorrow.
            await job.pause(job.state, reason=str(error))
        return await substrate.execute(job)

    async def close(self) -> None:
        """End the CLI."""
        for substrate in self._substrates.values():
            await substrate.close()

    def _substrate(self, task: Task) -> CopilotSubstrate:
        box, model = box_of(task), self._model or task.metadata.get(MODEL_KEY)
        system = task.metadata.get(SYSTEM_KEY)
        found = self._substrates.get((model, system, box))
        if found is None:
            try:
                from agentic_kernel_copilot import CopilotSubstrate
            except ImportError as error:
                missing = f"the copilot runtime is not installed: {install('copilot')}"
                raise CannotStart(missing, task.id) from error
            found = self._substrates[model, system, box] = CopilotSubstrate(
                model=model if isinstance(model, str) else None,
                system_message=system if isinstance(system, str) else None,
                offline=os.environ.get("COPILOT_OFFLINE", "").lower() == "true",
                tools=() if box is None else box.tools(),
                policy=None if box is None else box.policy(),
                limits=LIMITS,
            )
        return found

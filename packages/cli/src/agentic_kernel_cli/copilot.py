"""The Copilot CLI; its package is imported only when a Task needs it."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from agentic_kernel import CannotStart, Task
from agentic_kernel_engine import Job

from .kinds import install
from .toolbox import Toolbox
from .vendors import LIMITS

if TYPE_CHECKING:
    from agentic_kernel_copilot import CopilotSubstrate

SYSTEM_KEY: Final = "copilot/system"


class CopilotWork:
    """Runs Tasks in sessions of the Copilot CLI, with the granted model and tools.

    Args:
        model: The name of the model; None for the default of the CLI.
    """

    def __init__(self, model: str | None) -> None:
        self._model = model
        self._substrates: dict[tuple[Any, Toolbox | None], CopilotSubstrate] = {}

    async def accept(self, task: Task, box: Toolbox | None) -> None:
        """Refuse a Task that the CLI cannot run, or for which there is no CLI."""
        substrate = self._substrate(task, box)
        # The system message went into the substrate; the substrate itself knows no such option.
        given = {key: value for key, value in task.metadata.items() if key != SYSTEM_KEY}
        await substrate.accept(replace(task, metadata=given))

    async def execute(self, job: Job, box: Toolbox | None) -> Any:
        try:
            substrate = self._substrate(job.task, box)
        except CannotStart as error:
            # Pause and do not fail: the package may be installed later, or on another machine.
            await job.pause(job.state, reason=str(error))
        return await substrate.execute(job)

    async def close(self) -> None:
        """End the processes of the CLI."""
        for substrate in self._substrates.values():
            await substrate.close()

    def _substrate(self, task: Task, box: Toolbox | None) -> CopilotSubstrate:
        system = task.metadata.get(SYSTEM_KEY)
        system = system if isinstance(system, str) else None
        found = self._substrates.get((system, box))
        if found is None:
            try:
                from agentic_kernel_copilot import CopilotSubstrate
            except ImportError as error:
                missing = f"the copilot runtime is not installed: {install('copilot')}"
                raise CannotStart(missing, task.id) from error
            found = self._substrates[system, box] = CopilotSubstrate(
                model=self._model,
                system_message=system,
                offline=os.environ.get("COPILOT_OFFLINE", "").lower() == "true",
                tools=() if box is None else box.tools(),
                policy=None if box is None else box.policy(),
                limits=LIMITS,
            )
        return found

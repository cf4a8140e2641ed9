"""Re-execution: a terminal Task is frozen, so its work is done again by a new Task."""

from __future__ import annotations

from agentic_kernel import InvalidValue, Task
from agentic_kernel.catalog import check_name, plain_text
from agentic_kernel.frozen import shown


def rerun(task: Task, scope: str = "engine") -> Task:
    """A new Task, not started, with the input of an earlier one and a fresh id.

    The lineage is recorded in its metadata as ``<scope>/lineage_of``. Supplements, notes and
    outcome are not copied. Dispatch it like any other Task.

    Args:
        task: The earlier Task, in any status.
        scope: The scope of the lineage key, without a slash.

    Raises:
        InvalidValue: The scope does not make a legal key.
    """
    if not isinstance(task, Task):
        raise InvalidValue("task", f"must be a Task, not {type(task).__name__}")
    try:
        key = check_name(f"{plain_text(scope, 'scope')}/lineage_of", "scope")
    except InvalidValue:
        raise InvalidValue("scope", f"{shown(scope)} is not a scope, such as 'acme'") from None
    given = {key: value for key, value in task.metadata.items() if key not in task.noted}
    return Task.new(
        summary=task.summary,
        instructions=task.instructions,
        runtime_kind=task.runtime_kind,
        agent_name=task.agent_name,
        metadata={**given, key: task.id},
    )

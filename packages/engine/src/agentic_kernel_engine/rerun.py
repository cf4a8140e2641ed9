"""Re-execution: a terminal Task is frozen, so its work is done again by a new Task."""

from __future__ import annotations

from agentic_kernel import InvalidValue, Task


def rerun(task: Task, scope: str = "engine") -> Task:
    """A new Task, not started, with the input of an earlier one and a fresh id.

    The lineage is recorded in its metadata as ``<scope>/lineage_of``. Supplements, notes and
    outcome stay behind. Dispatch it like any other Task.

    Args:
        task: The earlier Task, in any status.
        scope: Whose convention the lineage key follows; without a slash.

    Raises:
        InvalidValue: The scope makes no legal key.
    """
    if not scope or "/" in scope or " " in scope or not scope.isprintable():
        raise InvalidValue("scope", f"{ascii(scope)[:60]} is not a scope, such as 'acme'")
    given = {key: value for key, value in task.metadata.items() if key not in task.noted}
    return Task.new(
        summary=task.summary,
        instructions=task.instructions,
        runtime_kind=task.runtime_kind,
        agent_name=task.agent_name,
        metadata={**given, f"{scope}/lineage_of": task.id},
    )

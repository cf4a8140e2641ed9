"""The verb ``retune``: change the limits of a Task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..parameters import By, Last, TaskOrLast, finite, invocation, wanted, whole

if TYPE_CHECKING:
    from agentic_kernel import Task
    from agentic_kernel_engine import Host

_Whole = Annotated[int | None, typer.Option(min=0, metavar="N", callback=whole)]
_Number = Annotated[float | None, typer.Option(min=0, metavar="N", callback=finite)]


def retune(
    context: typer.Context,
    given: TaskOrLast = None,
    last: Last = False,
    by: By = None,
    max_iterations: _Whole = None,
    max_tool_calls: _Whole = None,
    max_calls_per_answer: _Whole = None,
    max_failures: _Whole = None,
    max_non_progress: _Whole = None,
    max_reflections: _Whole = None,
    max_repeats: _Whole = None,
    max_goal_depth: _Whole = None,
    max_depth: _Whole = None,
    max_seconds: _Number = None,
    max_input_tokens: _Whole = None,
    max_output_tokens: _Whole = None,
    max_total_tokens: _Whole = None,
    max_cost: _Number = None,
) -> int:
    """Change limits of a Task from its next step on, wherever it runs."""
    from agentic_kernel_engine import Limits

    from ..deciding import recorded_name
    from ..place import find_task

    called = invocation(context)
    limits = {
        name: context.params[name]
        for name in Limits.__struct_fields__
        if context.params[name] is not None
    }
    if not limits:
        raise typer.BadParameter("name at least one limit, for example --max-iterations 20")

    async def retuning(host: Host) -> Task:
        task = (await find_task(host, wanted(given, last))).task
        await host.retune(task.id, limits, by=recorded_name(by))
        return await host.get(task.id)

    task = called.controlled(retuning)
    changes = ", ".join(f"{name} {value}" for name, value in limits.items())
    called.report(task, f"from its next step on: {changes}")
    return 0

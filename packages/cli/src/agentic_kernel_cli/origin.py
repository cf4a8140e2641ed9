"""Origin: the program that a stored Task was made for, so that no other one goes on with it.

A runtime kind says too little: the app of a person may serve ``local`` with tools of its own, and
this command serves ``local`` as well. Without those tools an approved call would not be made, and
the Task would end all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from agentic_kernel import Task
from agentic_kernel_engine import Event
from agentic_kernel_engine.plans import vocabulary

from .grants import LeftAlone, Wish
from .text import label
from .toolbox import SHOWN

APP_KEY: Final = "cli/app"
"""The metadata key of the app, as MODULE:OBJECT, with which this command started a Task."""
_UNKNOWN: Final = "unknown_tool"


def app_of(task: Task) -> str | None:
    """The app with which this command started the Task; None if it started it without one."""
    found = task.metadata.get(APP_KEY)
    return found if isinstance(found, str) and found else None


def where(app: str) -> str:
    """The words for the place where the command finds this app."""
    return f"the app {label(app, 80)}; go to the folder whose settings name it, or add --app"


def check_app(task: Task) -> None:
    """Refuse to run a Task here that this command started with an app.

    Raises:
        LeftAlone: It has an app.
    """
    app = app_of(task)
    if app is not None:
        raise LeftAlone(f"it goes on in {where(app)}", task.id)


def check_tools(task: Task, events: Iterable[Event]) -> None:
    """Refuse to run a Task here that another program gave tools which this command does not have.

    Args:
        events: The history of the Task.

    Raises:
        LeftAlone: The Task called such a tool, or is about to call it.
    """
    if Wish.of(task).mcp is not None:
        return  # The tools of these servers are known only while they run.
    foreign = next((name for name in _called(events) if name not in SHOWN), None)
    if foreign is not None:
        raise LeftAlone(
            f"it calls the tool {label(foreign, 80)}, which this command does not have; start the "
            "program that has it, or name its app with --app MODULE:OBJECT",
            task.id,
        )


def _called(events: Iterable[Event]) -> Iterator[str]:
    """The names of the tools that a Task called, or is about to call; not those it never had."""
    planned: list[str | None] = []
    for event in events:
        if event.type == vocabulary.PLAN_MADE:
            actions = event.data.get("actions") or ()
            planned = [each.get("tool") if isinstance(each, dict) else None for each in actions]
        elif event.type == vocabulary.STEP_OBSERVED:
            seen = event.data.get("observations") or ()
            for name, each in zip(planned, seen, strict=False):
                if name is not None and each.get("error") != _UNKNOWN:
                    yield name
            planned = []
    yield from (name for name in planned if name is not None)

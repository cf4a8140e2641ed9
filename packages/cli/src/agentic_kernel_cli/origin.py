"""Origin: the program that a stored Task was made for, so that no other one goes on with it.

A runtime kind says too little: the app of a person may serve ``local`` with tools of its own, and
this command serves ``local`` as well. Without those tools an approved call would not be made, and
the Task would end all the same.

Three facts tell it: the app that ``run`` wrote into the Task; the Agent of the Task, because this
command makes no Task for an Agent; and the tools that the run had, as its history names them. A
Task without an Agent tells nothing before the first commit of its run, and if the run has no tool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from agentic_kernel import CannotStart, Task
from agentic_kernel_engine import Event
from agentic_kernel_engine.plans import vocabulary

from . import waiting
from .grants import LeftAlone, Wish
from .kinds import gives_tools, serves
from .text import label
from .toolbox import SHOWN, TOOLS_KEY

APP_KEY: Final = "cli/app"
"""The metadata key of the app, as MODULE:OBJECT, with which this command started a Task."""
RERUN_KEY: Final = "cli/lineage_of"
"""The metadata key that ``rerun`` writes. Earlier versions ran the Task of an Agent again."""
_UNKNOWN: Final = "unknown_tool"
_NEVER_RAN: Final = (_UNKNOWN, "policy_denied", "skipped", "indeterminate")
"""Errors of a call after which it is not certain that the run had the tool: a model may name a tool
that does not exist."""
_OR_APP: Final = "or name its app with --app MODULE:OBJECT"


class Tools:
    """Reads the events of one Task, and finds a tool of its run that this command does not have."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.known = False
        """True if the beginning of the run named its tools."""
        self.had: str | None = None
        """Such a tool that the run certainly had."""
        self._called: str | None = None
        self._planned: Sequence[str | None] = ()
        for event in events:
            self.take(event)

    def take(self, event: Event) -> None:
        """Read the next event."""
        if event.type == vocabulary.RUN_STARTED:
            names = event.data.get("tools")
            if isinstance(names, (list, tuple)):
                self.known = True
                self.had = self.had or _foreign(names)
        elif event.type == vocabulary.PLAN_MADE:
            self._planned = [_tool(each) for each in event.data.get("actions") or ()]
        elif event.type == vocabulary.STEP_OBSERVED:
            errors = [each.get("error") for each in event.data.get("observations") or ()]
            for name, error in zip(self._planned, errors, strict=False):
                self.had = self.had or _foreign([None if error in _NEVER_RAN else name])
                self._called = self._called or _foreign([None if error == _UNKNOWN else name])
            self._planned = ()

    @property
    def called(self) -> str | None:
        """Such a tool that the run called, or is about to call."""
        return self._called or _foreign(self._planned)


def app_of(task: Task) -> str | None:
    """The app with which this command started the Task; None if it started it without one."""
    found = task.metadata.get(APP_KEY)
    return found if isinstance(found, str) and found else None


def where(app: str) -> str:
    """The words for the place where the command finds this app."""
    return f"the app {label(app, 80)}; go to the folder whose settings name it, or add --app"


def program_of(task: Task, tools: Tools | None = None) -> str | None:
    """The words for the program that has to run the Task; None if this command may run it.

    A Task of a kind that this command does not run is left to any Host of the kind: None, unless
    it has an app.

    Args:
        tools: Has read the history of the Task; None if the history is not at hand.
    """
    app = app_of(task)
    if app is not None:
        return where(app)
    agent = _agent_of(task)
    if agent is not None:
        return f"the program that has the Agent {label(agent, 80)}; start it, {_OR_APP}"
    tool = _tool_of(task, tools)
    if tool is not None:
        return f"the program that has the tool {label(tool, 80)}; start it, {_OR_APP}"
    return None


def check_program(task: Task) -> None:
    """Refuse to run a Task here that belongs to another program by its app or its Agent.

    Raises:
        LeftAlone: This command started it with an app, or it is of an Agent.
    """
    app, agent = app_of(task), _agent_of(task)
    if app is not None:
        raise LeftAlone(f"it goes on in {where(app)}", task.id)
    if agent is not None:
        raise LeftAlone(
            f"it is of the Agent {label(agent, 80)}, and this command has no Agents; start the "
            f"program that has it, {_OR_APP}",
            task.id,
        )


def check_tools(task: Task, events: Iterable[Event]) -> None:
    """Refuse to run a Task here that another program gave tools which this command does not have.

    Args:
        events: The history of the Task.

    Raises:
        LeftAlone: The Task had such a tool, called it, or is about to call it.
    """
    tool = _tool_of(task, Tools(events))
    if tool is not None:
        raise LeftAlone(
            f"it has the tool {label(tool, 80)}, which this command does not have; start the "
            f"program that has it, {_OR_APP}",
            task.id,
        )


def _agent_of(task: Task) -> str | None:
    """The Agent of a Task that this command would run without the Agent's capabilities."""
    if RERUN_KEY in task.metadata or not serves(task.runtime_kind):
        return None
    return task.agent_name


def _tool_of(task: Task, tools: Tools | None) -> str | None:
    """A tool of a Task that this command would run without that tool."""
    if not gives_tools(task.runtime_kind):
        return None
    try:
        if Wish.of(task).mcp is not None:
            return None  # The tools of these servers are known only while they run.
    except CannotStart:
        return None  # It is refused for that.
    if tools is not None and tools.had is not None:
        return tools.had
    if TOOLS_KEY in task.metadata or (tools is not None and tools.known):
        return None  # This command gave it tools, or its run had only tools of this command.
    if tools is not None and tools.called is not None:
        return tools.called
    if waiting.kind(task) != "approval":
        return None
    return _foreign(_tool(request.action) for request in waiting.requests(task))


def _tool(action: object) -> str | None:
    found = action.get("tool") if isinstance(action, Mapping) else None
    return found if isinstance(found, str) else None


def _foreign(names: Iterable[str | None]) -> str | None:
    return next((name for name in names if name is not None and name not in SHOWN), None)

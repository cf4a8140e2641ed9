"""Unknown outcomes: tool calls that a run does not make, though an earlier run may have made them.

If a run ends between the commit that prepared a call and the next one, because its process died or
it was cancelled, the next run cannot know whether the call was made. If the tool may not be called
again, the call gets the observation ``indeterminate``, and a planner or a person has to find out.
"""

from __future__ import annotations

from msgspec.structs import replace

from ..plans.action import ToolCall
from ..plans.observation import Observation
from ..tools.call import Invocation
from .run import LoopRun
from .state import NOT_BEGUN


def unknown(run: LoopRun, call: ToolCall) -> Observation:
    """The observation of a call that may have been made; its step is then no progress."""
    run.outcome_unknown = True
    return Observation.indeterminate(call)


def not_made(run: LoopRun, each: Invocation, again: bool) -> Observation:
    """The observation of a call that this run does not make.

    Args:
        again: True if an earlier run may have made it.
    """
    return unknown(run, each.call) if again else not_begun(each.call)


def not_begun(call: ToolCall) -> Observation:
    """The observation of a call that no run has made."""
    return replace(NOT_BEGUN, call=call.id, tool=call.tool)

"""Planner: the port that decides about the next step, and its view of the run."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from agentic_kernel import Task

from ..plans.limits import Remaining
from ..plans.plan import Plan, PlanLike, PlanStream, Usage
from ..plans.transcript import Entry
from ..principal import Principal
from ..tools.tool import Tool


class Planner(Protocol):
    """Turns a context into the next actions.

    A planner may also be a `Forecast`, `Counting`, `AsksModel` and `TakesOptions`, and `Accepting`
    as a substrate may:
    ``accept`` is called before a Task is dispatched and when a Task is taken up, and raises
    `CannotStart` if the planner could not plan, e.g. because a key is missing. Then the Task is
    refused, or paused if it was running elsewhere before. Name these as base classes: a misspelled
    method is then found.
    """

    def plan(self, context: Context) -> Awaitable[PlanLike] | PlanStream:
        """The next actions: one, a batch, or a stream of pieces that ends with them.

        Raises:
            PlannerError: The provider failed, with a code that a program can branch on.
        """
        ...


class AsksModel(Protocol):
    """A planner whose calls ask one model, which observers are told (`events.RUN_BEGUN`)."""

    @property
    @abstractmethod
    def model(self) -> str:
        """The name by which requests ask for the model; "" if it is not known yet."""
        ...


def model_of(planner: object) -> str:
    """The name of the model that a planner asks; "" if it does not tell one."""
    model = getattr(planner, "model", "")
    return model if isinstance(model, str) else ""


class Forecast(Protocol):
    """A planner that knows the worst case of a call.

    Under limits of tokens or cost, the Loop asks for it before every call, and makes no call that
    could pass a limit. Without a forecast, the run ends after the call that passed a limit.
    """

    @abstractmethod
    def worst_case(self, context: Context) -> Usage:
        """The most that a call with this context uses up."""
        ...


class Counting(Protocol):
    """A planner whose vendor counts the tokens of a prompt.

    A `Forecast` cannot know them, so its bound is far above them. The Loop has them counted only if
    the bound would pass a limit.
    """

    @abstractmethod
    async def count(self, context: Context) -> int | None:
        """The most tokens of the prompt of a call; None if the vendor does not tell.

        The Loop then sets `Context.prompt_tokens`, by which a `Forecast` can tell less. It cancels
        the count at ``max_seconds`` and at a pause, and asks again after the pause.
        """
        ...


class TakesOptions(Protocol):
    """A planner whose answers have options that the capabilities of an Agent may set.

    The planner finds them in `Context.options`.
    """

    @abstractmethod
    def check_options(self, options: Mapping[str, Any]) -> None:
        """Refuse options that the planner does not have, or that are not valid.

        Raises:
            InvalidValue: The path names the option.
        """
        ...


class Context(msgspec.Struct, eq=False):
    """One step's view of the run, which Middleware may change.

    Of such changes the Loop itself uses ``response``, ``planner``, ``tools`` and ``variables``;
    the others reach only the planner. The sequences belong to the Loop, which does not copy them
    for each step: do not keep one after the step.
    """

    task: Task
    step: int
    """Number of steps before this one."""
    transcript: Sequence[Entry]
    """All that was said and done, oldest first. It begins with the instructions; if entries came
    over from an earlier Task, they stand before the instructions."""
    tools: Sequence[Tool]
    """The tools that may be called, after capabilities and policy."""
    goals: Sequence[str]
    """The outermost first; the last one is current."""
    remaining: Remaining
    principal: Principal
    variables: dict[str, Any]
    """Scratch space of the host; durable with the next commit."""
    instructions: Sequence[str]
    """Instructions of the Agent's capabilities, beside the Task's own."""
    memories: Sequence[str]
    """Texts from memory for this step."""
    output_schema: Mapping[str, Any] | None
    """JSON Schema that a final answer must fit; None if any answer fits."""
    continuation: str
    """The beginning of an answer that a pause cut short; "" if there is none."""
    planner: Planner | None = None
    """The planner that a `Recovery` chose in place of the Loop's own; None for the Loop's own."""
    failures: int = 0
    """Number of failed calls of the planner at this step."""
    response: Plan | None = None
    """An answer that middleware gives in the planner's place; None to ask the planner."""
    options: Mapping[str, Any] = {}
    """Options of the Agent's capabilities for the planner's answers, e.g. ``temperature``."""
    prompt_tokens: int | None = None
    """The most tokens of the prompt, which the planner's `Counting.count` told; None if it was not
    asked, because its forecast fits the limits."""

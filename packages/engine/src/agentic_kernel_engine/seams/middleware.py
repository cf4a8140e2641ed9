"""Middleware: hooks that may change the input and the output of a model or a tool.

Policy decides, Observer watches, Middleware changes. A middleware is any object with some of the
hooks below. The Loop calls only the hooks that are there, in the order in which the middlewares
were given. It calls the hooks after a call (``after_…``, ``on_run_end``) in the reverse order.

A hook may raise `End` to end the run. A hook that raises anything else, or returns a value of the
wrong type, fails the run: with its own code if it raised `TaskFailed`, else with
``engine/middleware_failed`` and the hook's name. In both cases the Loop first settles what is under
way: the outcome of a call that was made is on record, a planner's usage is counted, and no new call
is begun. The Loop sets no time limit for a hook; the hook must do so itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, Literal, Protocol

from msgspec.structs import replace

from agentic_kernel import InvalidValue

from .. import edges, values
from ..errors import TaskFailed
from ..faults import is_unwinding, kind_of, place_of, text_of
from ..plans.ending import End, failed
from ..plans.observation import Observation
from ..plans.plan import Plan
from ..plans.reasons import StopReason
from ..tools.call import MAX_OUTPUT, Invocation, stored
from .planner import Context, Planner


class Middleware(Protocol):
    """All the hooks; an implementation has those that it needs."""

    async def on_run_start(self, state: Any) -> None:
        """Called before the first commit of a run; ``state`` is its `State`.

        Changes of the state are in that commit, and in no other. A run that crashes before that
        commit has stored nothing, so it starts once more, and this hook is called once more.
        """

    async def on_run_end(self, state: Any, outcome: Any) -> None:
        """Called before the end of a run is committed; ``outcome`` is its `End`.

        A run that crashes before that commit ends once more, and this hook is called once more.
        """

    async def before_model(self, context: Context) -> None:
        """Called before each call of the planner; may set ``context.response`` to answer itself."""

    async def after_model(self, context: Context, plan: Plan) -> Plan | None:
        """Called after the answer, before its usage is counted; may return another plan."""

    async def before_tool(self, invocation: Invocation) -> Observation | None:
        """Called before each tool call; may change its arguments, or return an observation instead.

        The arguments are a copy. If the hook changes them, the policy decides about the call again.
        Arguments that a person approved must not be changed; neither must the tool, except for its
        limits. A call that is not allowed is not made: its observation is ``policy_denied``.
        """

    async def after_tool(
        self, invocation: Invocation, observation: Observation
    ) -> Observation | None:
        """Called after each tool call; may return another observation."""

    async def on_error(self, context: Context, error: Exception) -> Recovery | None:
        """Called when the planner failed; None leaves the failure to the next middleware.

        If every middleware returns None, the Task fails.
        """


class Recovery:
    """A middleware's remedy for a planner's failure.

    Args:
        verb: ``retry`` the call, take ``plan`` as a ``fallback`` answer or ask ``planner`` for one,
            ``skip`` the step, or ``fail`` the Task.
        plan: The answer of a fallback.
        delay: Seconds to wait before the next call.
        planner: The planner to ask from now on, at this step; the Loop first reserves its worst
            case.

    Raises:
        InvalidValue: There is no such verb, a fallback has neither plan nor planner, another verb
            has one, or the delay is not a number of seconds.
    """

    __slots__ = ("delay", "plan", "planner", "verb")

    def __init__(
        self,
        verb: Literal["retry", "fallback", "skip", "fail"],
        plan: Plan | None = None,
        delay: float = 0.0,
        planner: Planner | None = None,
    ) -> None:
        edges.choice(verb, "verb", ("retry", "fallback", "skip", "fail"))
        if (verb == "fallback") is (plan is None and planner is None):
            raise InvalidValue("plan, planner", "must be given for a fallback, and only for that")
        self.verb = verb
        self.plan = plan
        self.delay = edges.seconds(delay, "delay")
        self.planner = planner


FAILED: Final = "engine/middleware_failed"
"""The failure code of a run whose hook failed."""
_GIVES: Final[dict[str, type]] = {
    "on_run_start": object,
    "on_run_end": object,
    "before_model": object,
    "after_model": Plan,
    "before_tool": Observation,
    "after_tool": Observation,
    "on_error": Recovery,
}
HOOKS: Final = tuple(_GIVES)
_BEHIND: Final = frozenset({"on_run_end", "after_model", "after_tool"})


class Hooks:
    """The hooks of several middlewares, sorted once, so that an unused hook costs nothing."""

    __slots__ = HOOKS

    on_run_start: Sequence[Callable[..., Any]]
    on_run_end: Sequence[Callable[..., Any]]
    before_model: Sequence[Callable[..., Any]]
    after_model: Sequence[Callable[..., Any]]
    before_tool: Sequence[Callable[..., Any]]
    after_tool: Sequence[Callable[..., Any]]
    on_error: Sequence[Callable[..., Any]]

    def __init__(self, middlewares: Sequence[Any]) -> None:
        middlewares = edges.several(middlewares, "middleware", "middlewares")
        for index, each in enumerate(middlewares):
            _check(each, f"middleware[{index}]")
        for hook in HOOKS:
            order = reversed(middlewares) if hook in _BEHIND else middlewares
            found = [
                partial(_called, f"{type(each).__name__}.{hook}", getattr(each, hook), _GIVES[hook])
                for each in order
                if hasattr(each, hook)
            ]
            setattr(self, hook, tuple(found))


def _check(middleware: Any, name: str) -> None:
    """Refuse an object whose hooks the Loop would never call, or cannot call.

    If one of its methods is one typing error away from a hook, the log warns of it.

    Raises:
        InvalidValue: It is a class, has no hook, or one of its hooks is not a function.
    """
    if isinstance(middleware, type):
        raise InvalidValue(name, f"is the class {middleware.__name__}; pass an instance of it")
    hooks = [hook for hook in HOOKS if hasattr(middleware, hook)]
    if not hooks:
        raise InvalidValue(
            name,
            f"is {edges.came(middleware)}, which has no hook of a Middleware; give it one of "
            f"{', '.join(HOOKS)}",
        )
    for hook in hooks:
        edges.function(getattr(middleware, hook), f"{name}.{hook}")
    edges.warn_of_misspelled(middleware, name, Middleware)


async def _called(name: str, hook: Callable[..., Awaitable[Any]], gives: type, *args: Any) -> Any:
    """Call a hook, and return its checked result.

    Raises:
        End: The hook raised it, or the hook failed.
    """
    try:
        given = await hook(*args)
        if given is not None and not isinstance(given, gives):
            raise TypeError(
                f"it gave a {type(given).__name__}; it must give a {gives.__name__} or None"
            )
        if isinstance(given, Observation):
            given = _kept(given)
    except End:
        raise
    except TaskFailed as fault:
        raise failed(fault) from fault
    except (Exception, asyncio.CancelledError) as error:
        if is_unwinding(error):
            raise
        raise End(
            StopReason.ERROR, storable(f"{name} failed: {kind_of(error)}: {text_of(error)}"),
            code=FAILED, metadata={"hook": name, **place_of(error)}, fault=error,
            where=f"the hook {name}",
        ) from error  # fmt: skip
    return given


def _kept(observation: Observation) -> Observation:
    """The observation with a copy of its output, after the checks that every observation passes."""
    length = 0
    for name in ("error", "message", "call", "tool"):
        text = getattr(observation, name)
        if not isinstance(text, str):
            raise InvalidValue(name, f"must be a string, not {type(text).__name__}")
        length += len(text)
        if length > MAX_OUTPUT:
            raise InvalidValue(name, f"makes the observation longer than {MAX_OUTPUT:,} characters")
        values.check_text(text, name)
    values.check(observation.output, "output")
    return replace(observation, output=stored(observation.output))


def storable(text: str) -> str:
    """The text, cut and escaped so that it can be stored."""
    return text[:500].replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()

"""Cases for middleware: plans, calls, observations and failures of every kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from agentic_kernel_engine.loop import (
    HANDLER_ERROR,
    OUTPUT_SCHEMA_FAILED,
    POLICY_DENIED,
    SCHEMA_VALIDATION_FAILED,
    TIMEOUT,
    Action,
    AskUser,
    CompleteGoal,
    Delegate,
    FinalAnswer,
    Observation,
    Plan,
    PlannerError,
    PushGoal,
    Schedule,
    Stop,
    Thought,
    ToolCall,
    Usage,
)
from agentic_kernel_engine.seams import Invocation

from .values import ACCEPTED

_USAGE: Final = Usage(1_000, 200, 50, 20, 0.25)


def _plan(*actions: Action, **more: Any) -> Callable[[], Plan]:
    stored = msgspec.json.encode(Plan(actions, usage=_USAGE, model="kit-1", **more))
    return lambda: msgspec.json.decode(stored, type=Plan)


PLANS: Final[dict[str, Callable[[], Plan]]] = {
    "a call": _plan(ToolCall("add", {"a": 1, "b": 2}, "call-1")),
    "a batch": _plan(
        Thought("Think."), ToolCall("look_up", {"word": "a"}, "c1"), ToolCall("gone", {}, "c2"),
        text="Both.", reasoning="because", provider={"id": "x"},
    ),
    "every other action": _plan(
        PushGoal("Below"), CompleteGoal("reached"), Delegate("spawn", instructions="Do it"),
        Delegate("join", child="one"), AskUser("Which one?"),
        Schedule("2026-01-02T03:04:05+00:00"), Stop("I give up"),
    ),
    "no action": _plan(),
    "no action, a text": _plan(text="Only a text."),
    **{f"an answer: {name}": _plan(FinalAnswer(value)) for name, value in ACCEPTED.items()},
    **{
        f"arguments: {name}": _plan(ToolCall("write_note", {"text": value}, "c"))
        for name, value in ACCEPTED.items()
    },
    **{
        f"a text: {name}": _plan(Thought(value), text=value, reasoning=value)
        for name, value in ACCEPTED.items()
        if isinstance(value, str)
    },
}  # fmt: skip
"""Makers of plans, as a planner gives them."""

INVOCATIONS: Final[dict[str, dict[str, Any]]] = {
    "no arguments": {},
    "arguments that fit": {"a": 1, "b": 2, "word": "a", "text": "a"},
    **{name: {"text": value, "": value} for name, value in ACCEPTED.items()},
}
"""The arguments of calls."""


def _seen(**more: Any) -> Callable[[Invocation], Observation]:
    return lambda made: Observation(call=made.call.id, tool=made.tool.name, **more)


OBSERVATIONS: Final[dict[str, Callable[[Invocation], Observation]]] = {
    "a text": _seen(output="found"),
    **{name: _seen(output=value) for name, value in ACCEPTED.items()},
    **{
        code: _seen(error=code, message="it did not go well")
        for code in (
            HANDLER_ERROR, OUTPUT_SCHEMA_FAILED, SCHEMA_VALIDATION_FAILED, TIMEOUT, POLICY_DENIED,
            "missing_scopes", "acme_error",
        )
    },
    "a failure with an output": _seen(output={"so": "far"}, error="acme", message="it broke off"),
    "a bug": _seen(
        error=HANDLER_ERROR, message="KeyError: 'a'",
        metadata={"type": "KeyError", "file": "a.py", "line": 7},
    ),
}  # fmt: skip
"""Makers of observations of a call."""

_METADATA: Final[dict[str, Any]] = {
    "none": None,
    "empty": {},
    "a wait": {"retry_after_ms": 7},
    "a long wait": {"retry_after_ms": 86_400_000},
    "a wait that is a text": {"retry_after_ms": "soon"},
    "a wait that is a list": {"retry_after_ms": [1]},
    "no wait": {"retry_after_ms": None},
    "a wait below zero": {"retry_after_ms": -5},
    "a wait that is true": {"retry_after_ms": True},
    "a wait without end": {"retry_after_ms": 1e308},
}


def _failure(code: str, metadata: Any) -> Callable[[], Exception]:
    return lambda: PlannerError(code, "come back later", metadata)


class _Coded(Exception):
    """An error of a vendor, whose code is no text."""

    code = 429
    metadata = "none"


ERRORS: Final[dict[str, Callable[[], Exception]]] = {
    "overloaded": _failure("kit/overloaded", None),
    **{f"a failure, {name}": _failure("kit/rate_limit", data) for name, data in _METADATA.items()},
    "a refusal": lambda: PlannerError("kit/refused", "no", usage=Usage(10, 0)),
    "a bug": lambda: KeyError("choices"),
    "a bug without a text": lambda: ValueError(),
    "an error of a connection": lambda: ConnectionResetError(104, "reset by peer"),
    "a timeout": lambda: TimeoutError(),
    "a code that is no text": lambda: _Coded("overloaded"),
    "a text of every kind": lambda: RuntimeError("\x1b[2J\u202e {braces} %s \n" + "x" * 100_000),
}
"""Makers of the failures of a planner."""

"""Contexts: the corpus of contexts for planners and policies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from agentic_kernel import Dispatch, Pause, Resume, Task, apply
from agentic_kernel_engine import tool
from agentic_kernel_engine.loop import (
    HANDLER_ERROR,
    POLICY_DENIED,
    UNKNOWN_TOOL,
    AskUser,
    CompleteGoal,
    Context,
    Delegate,
    Entry,
    FinalAnswer,
    Notice,
    Observation,
    Plan,
    Principal,
    PushGoal,
    Remaining,
    Schedule,
    Thought,
    ToolCall,
    Turn,
    UserMessage,
)
from agentic_kernel_engine.seams import Tool

from .values import ACCEPTED

QUESTION: Final = "How much is 12 + 30?"
"""The question to a planner, unless its author supplies another one."""
_AT: Final = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_SUPPLEMENTS: Final = ("And be quick.", "Please.")
MANY: Final = 200
"""Turns of a long transcript."""

Make = Callable[[str, Sequence[Tool]], Context]
"""Makes a context from a question and tools; the contexts of two calls share nothing."""


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def look_up(word: str, limit: int = 3) -> list[str]:
    """Look a word up.

    Args:
        word: What to look up.
        limit: How many meanings to give at most.
    """
    return [word] * limit


def write_note(text: str, tags: list[str] | None = None) -> str:
    """Write a note."""
    return f"{text} {tags}"


def erase() -> None:
    """Erase every note."""


def tools() -> list[Tool]:
    """Return new tools, one of each effect; all but the first need scopes."""
    return [
        tool(add, effect="none", inline=True),
        tool(look_up, effect="read", scopes=["kit/read"], inline=True),
        tool(write_note, effect="write", scopes=["kit/write"], inline=True),
        tool(erase, effect="destructive", scopes=["kit/write", "kit/admin"], inline=True),
    ]


def context(
    question: str,
    tools: Sequence[Tool],
    *more: Entry,
    supplements: Sequence[str] = (),
    **changes: Any,
) -> Context:
    """Return the context of a Task with this question.

    Args:
        question: The instructions of the Task.
        tools: The tools that the planner sees.
        *more: The entries of the transcript after the instructions.
        supplements: The extras that came with resumes.
        **changes: Fields that differ from those of a new Task, by name.
    """
    task = Task.new(
        id="0190a000-0000-7000-8000-000000000000",
        summary="Conformance",
        instructions=question,
        runtime_kind="conformance",
        at=_AT,
    )
    if supplements:
        task = apply(task, Dispatch(), at=_AT)
    for each in supplements:
        task = apply(apply(task, Pause(), at=_AT), Resume(each), at=_AT)
    given: dict[str, Any] = {
        "task": task,
        "step": sum(isinstance(entry, Turn) for entry in more),
        "transcript": [UserMessage(question), *more],
        "tools": list(tools),
        "goals": [],
        "remaining": Remaining(1_000),
        "principal": Principal("kit", scopes=frozenset({"kit/read"})),
        "variables": {},
        "instructions": [],
        "memories": [],
        "output_schema": None,
        "continuation": "",
    }
    return Context(**given | changes)


def _turn(tools: Sequence[Tool], **result: Any) -> Turn:
    """Return a turn with one call of the first tool, and its observation."""
    name = tools[0].name if tools else "gone"
    call = ToolCall(name, {}, "call-1")
    return Turn(Plan((call,)), (Observation(call=call.id, tool=name, **result),))


def _batch(question: str, tools: Sequence[Tool]) -> Context:
    names = [tools[n % len(tools)].name if tools else "gone" for n in range(4)]
    calls = tuple(ToolCall(name, {"n": n}, f"call-{n}") for n, name in enumerate(names))
    observations = tuple(
        Observation(error=error, message="it did not go well", call=call.id, tool=call.tool)
        for call, error in zip(
            calls, (HANDLER_ERROR, POLICY_DENIED, UNKNOWN_TOOL, "acme_error"), strict=True
        )
    )
    notice = Notice("The last steps brought nothing new. Say what is missing.")
    return context(question, tools, Turn(Plan(calls, text="All of it"), observations), notice)


def _every_action(question: str, tools: Sequence[Tool]) -> Context:
    actions = (
        Thought("Think."),
        PushGoal("Below"),
        CompleteGoal("reached"),
        Delegate("spawn", instructions="Do it", summary="It"),
        AskUser("Which one?"),
        Schedule("2026-01-02T03:04:05+00:00"),
        FinalAnswer({"too": "early"}),
        ToolCall("unknown"),
    )
    turn = Turn(Plan(actions, reasoning="why not"), (Observation(),) * len(actions))
    return context(question, tools, turn, UserMessage("The second one."), UserMessage(""))


PLAIN: Final[Mapping[str, Make]] = {
    "the question": context,
    "without tools": lambda question, _: context(question, ()),
    "after a result": lambda question, tools: context(question, tools, _turn(tools, output=42)),
    "after an error": lambda question, tools: context(
        question, tools, _turn(tools, error=HANDLER_ERROR, message="ValueError: it is odd")
    ),
    "after a supplement": lambda question, tools: context(
        question, tools, *map(UserMessage, _SUPPLEMENTS), supplements=_SUPPLEMENTS
    ),
    "with memories, goals and instructions": lambda question, tools: context(
        question,
        tools,
        memories=["The sky is blue."],
        goals=["all of it", "a part of it"],
        instructions=["Be kind."],
    ),
}
"""Contexts that every planner must answer."""

EXTREME: Final[Mapping[str, Make]] = {
    "after a batch with errors": _batch,
    "after every action": _every_action,
    "a long transcript": lambda question, tools: context(
        question, tools, *[_turn(tools, output=n) for n in range(MANY)]
    ),
    "a long result": lambda question, tools: context(
        question, tools, _turn(tools, output="long " * 50_000)
    ),
    "results of every shape": lambda question, tools: context(
        question, tools, *[_turn(tools, output=value) for value in ACCEPTED.values()]
    ),
    "texts of every kind": lambda question, tools: context(
        question,
        tools,
        *[UserMessage(value) for value in ACCEPTED.values() if isinstance(value, str)],
        memories=[value for value in ACCEPTED.values() if isinstance(value, str)],
    ),
    "an empty question": lambda _, tools: context("", tools),
    "an output schema": lambda question, tools: context(
        question,
        tools,
        output_schema={
            "type": "object",
            "properties": {"answer": {"type": "integer"}, "sure": {"type": "boolean"}},
            "required": ["answer", "sure"],
            "additionalProperties": False,
        },
    ),
    "an answer that was cut": lambda question, tools: context(
        question, tools, continuation="The answer "
    ),
    "hardly anything left": lambda question, tools: context(
        question, tools, remaining=Remaining(1, 0, 0.001, 1, 0.0)
    ),
}
"""Contexts that a planner may answer, or refuse as its provider would."""

CONTEXTS: Final[Mapping[str, Make]] = {**PLAIN, **EXTREME}


def fingerprint(seen: Context) -> str:
    """Return the content of a context as text; two texts are equal if nothing changed between."""
    parts = [
        [msgspec.to_builtins(entry) for entry in seen.transcript],
        [[t.name, t.description, t.input_schema, t.output_schema, t.effect] for t in seen.tools],
        [seen.step, seen.goals, seen.variables, seen.instructions, seen.memories],
        [seen.output_schema, seen.continuation, seen.failures, seen.response],
        [msgspec.to_builtins(seen.remaining), seen.principal.name, sorted(seen.principal.scopes)],
    ]
    return msgspec.json.encode(parts).decode()

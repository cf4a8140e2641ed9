"""Script: what the model says in a scenario, in a form that belongs to no vendor."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from agentic_kernel_engine.loop import Action, AskUser, FinalAnswer, ToolCall

LONG: Final = " ".join(f"Sentence {number} of a long answer." for number in range(200))
"""An answer that nobody waits for: it is killed or paused in the middle."""


@dataclass(frozen=True, slots=True)
class Says:
    """The final answer: a text, or JSON where the scenario has a schema."""

    output: Any
    slowly: bool = False
    """Whether it comes in pieces with time between them, so that something can happen."""

    @property
    def text(self) -> str:
        return self.output if isinstance(self.output, str) else json.dumps(self.output)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls of tools, in one answer."""

    calls: Sequence[Call]


@dataclass(frozen=True, slots=True)
class Asks:
    """A question to the user."""

    question: str


@dataclass(frozen=True, slots=True)
class Refuses:
    """The model refuses."""


@dataclass(frozen=True, slots=True)
class Overflows:
    """The conversation does not fit the model's context."""


Answer = Says | Calls | Asks | Refuses | Overflows


def actions(answer: Answer) -> tuple[Action, ...]:
    """The actions that an answer stands for.

    Raises:
        ValueError: It is no answer but a failure.
    """
    match answer:
        case Says(output):
            return (FinalAnswer(output),)
        case Calls(calls):
            return tuple(ToolCall(call.tool, call.arguments) for call in calls)
        case Asks(question):
            return (AskUser(question),)
    raise ValueError(f"{answer} stands for no action")


def fixtures(script: Sequence[Answer]) -> list[dict[str, Any]]:
    """The script for `integration.peers.aimock.Aimock`: an answer for each request, in order."""
    return [
        {"match": {"sequenceIndex": index}, **_fixture(index, answer)}
        for index, answer in enumerate(script)
    ]


def _fixture(index: int, answer: Answer) -> dict[str, Any]:
    match answer:
        case Says():
            pace = {"latency": 20, "chunkSize": 12} if answer.slowly else {}
            return {"response": {"content": answer.text}, **pace}
        case Calls(calls):
            asked = [
                {"id": f"call_{index}_{at}", "name": call.tool, "arguments": call.arguments}
                for at, call in enumerate(calls)
            ]
            return {"response": {"toolCalls": asked}}
        case Asks(question):
            call = {
                "id": f"call_{index}", "name": "ask_user", "arguments": {"question": question},
            }  # fmt: skip
            return {"response": {"toolCalls": [call]}}
        case Overflows():
            error = {
                "message": "prompt is too long: 210000 tokens > 200000 maximum",
                "type": "invalid_request_error",
                "code": "context_length_exceeded",
            }
            return {"response": {"error": error}, "status": 400}
    raise ValueError(f"{answer} has no fixture; it needs a peer of its own")

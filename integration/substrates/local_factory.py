"""The local substrates, on the real small model: the factories, and the works.

The model is too small to do as it is told. So `conversation` lets it answer what it likes, and
`planned` leaves it one choice for each step: decoding is constrained to the step of the script.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import msgspec

# The binding is imported when a model is loaded. Here the import comes before the workers are
# forked, because it takes long.
import xllamacpp  # noqa: F401

from agentic_kernel import Task
from agentic_kernel_conformance import Fail, Script, SubstrateWork
from agentic_kernel_conformance.substrate_script import described
from agentic_kernel_engine import Event, Loop
from agentic_kernel_engine.loop import Action, Context, FinalAnswer, Plan, Thought, ToolCall
from agentic_kernel_engine.plans.plan import Delta
from agentic_kernel_engine.plans.transcript import UserMessage
from agentic_kernel_engine.seams import Tool
from agentic_kernel_engine.texts import Texts
from agentic_kernel_local import LocalLoop, LocalPlanner

from .following import LIMITS, Following, mark

CONTEXT_TOKENS: Final = 1024
_TOO_LONG: Final = "word " * (2 * CONTEXT_TOKENS)


class ConversationWork(SubstrateWork):
    """Makes Tasks that ask the model for an answer, which is another one for each script.

    A model cannot be made to say a given text. So the texts of a script stand for the model's
    answer: they are there if the text of the record is the result.
    """

    def task(self, script: Script) -> Task:
        if any(isinstance(step, Fail) for step in script):
            return _conversation(_TOO_LONG)
        return _conversation(f"Say hello. {described(script)}")

    def same(self, one: Any, other: Any) -> bool:
        """True if both are whole answers.

        The words may differ: see `AnswerOptions`.
        """
        return bool(one and other and isinstance(one, str) and isinstance(other, str))

    def output(self, task: Task, events: Sequence[Event]) -> str:
        streamed = Texts(events).text()
        return task.summary if streamed == task.result else streamed

    def refused(self) -> Task:
        return _conversation("no story", **{"local/max_tokens": 0})


def _conversation(instructions: str, **metadata: Any) -> Task:
    return Task.new(
        summary=instructions,
        instructions=instructions,
        runtime_kind="local",
        metadata=metadata,
    )


async def conversation() -> LocalLoop:
    """The factory of the substrate of `LocalRuntime`, with the model loaded.

    The model is only asked for a few words, so that it finds an end.
    """
    planner = LocalPlanner(
        slots=2, context_tokens=CONTEXT_TOKENS, system="Answer in one short sentence."
    )
    await planner.open()
    return LocalLoop(planner)


class Guided(Following):
    """Asks the model for each step of the script, by a grammar that fits this step only.

    `Following` says what the step is. What it does comes from the model's answer.
    """

    def __init__(self, planner: LocalPlanner) -> None:
        self._planner = planner

    async def plan(self, context: Context) -> AsyncIterator[Delta | Plan]:
        wanted = [item async for item in super().plan(context)][-1]
        assert isinstance(wanted, Plan)
        (action,) = wanted.actions
        tools, answer = _choice(action)
        asked = msgspec.structs.replace(
            context,
            transcript=[UserMessage("Do the next step.")],
            tools=tools,
            output_schema={"const": answer},
        )
        async for item in self._planner.plan(asked):
            if isinstance(item, Delta):  # What the model writes here is no text of the script.
                item = msgspec.structs.replace(item, channel="arguments")
            if isinstance(item, Plan):
                (made,) = item.actions
                item = msgspec.structs.replace(item, actions=(_meant(action, _said(made)),))
            yield item


def _choice(action: Any) -> tuple[list[Tool], Any]:
    """The tools and the answer from which the model chooses; all of them mean this action."""
    if isinstance(action, ToolCall):
        token = {"const": action.arguments["token"]}
        schema = {"type": "object", "properties": {"token": token}, "required": ["token"]}
        shown = Tool("mark", mark.handler, description="Make a mark.", input_schema=schema)
        return [shown], action.arguments["token"]
    return [], action.text if isinstance(action, Thought) else action.output


def _said(made: Action) -> Any:
    """The token, the text or the result that the model gave."""
    if isinstance(made, FinalAnswer):
        return made.output
    assert isinstance(made, ToolCall), made
    return made.arguments["token"]


def _meant(action: Any, said: Any) -> Any:
    """The action that the model's words mean."""
    if isinstance(action, ToolCall):
        return ToolCall("mark", {"token": said})
    return Thought(said) if isinstance(action, Thought) else FinalAnswer(said)


async def planned() -> Loop:
    """The factory of a Loop whose planner is the model, which is loaded."""
    planner = LocalPlanner(max_tokens=96, slots=2, context_tokens=CONTEXT_TOKENS)
    await planner.open()
    return Loop(Guided(planner), [mark], limits=LIMITS)

"""An agent on duty without a model, for tests: what a ticket says is what it does.

refund NUMBER CENTS    ask for a refund, then answer with what came of it
order NUMBER           look an order up, then answer with it
compare A B TIMES      look two orders up in turns, so many times in all, and take some time
ask                    ask the customer, then answer with the reply
notes                  answer with the notes about the customer
said                   answer with all that the customer said in this and earlier tickets
think                  think a few times, then answer
talk                   talk until it is stopped
fail                   fail
anything else          answer with the text
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from agentic_kernel_engine.loop import (
    Action,
    AskUser,
    Context,
    Delta,
    FinalAnswer,
    Plan,
    PlannerError,
    Thought,
    ToolCall,
    Turn,
    UserMessage,
)


class Clerk:
    """A planner that does what the ticket says."""

    async def plan(self, context: Context) -> AsyncIterator[Delta | Plan]:
        """Stream the answer to one step."""
        word, *rest = context.task.instructions.split() or [""]
        if word == "talk":
            at = len(context.continuation)
            while True:
                yield Delta("word ", at=at)
                at += 5
                await asyncio.sleep(0.005)
        if word == "compare":
            await asyncio.sleep(0.1)
        if word == "fail":
            raise PlannerError("clerk/asked", "the ticket asked for a failure")
        yield Plan((_action(word, rest, context),))


def _action(word: str, rest: list[str], context: Context) -> Action:
    done = [entry for entry in context.transcript if isinstance(entry, Turn)][-context.step :]
    turns = done if context.step else []
    said = [entry.text for entry in context.transcript if isinstance(entry, UserMessage)]
    match word, rest:
        case "refund", [number, cents] if not turns:
            return ToolCall("refund", {"number": int(number), "cents": int(cents)})
        case "order", [number] if not turns:
            return ToolCall("order", {"number": int(number)})
        case "compare", [*numbers, times] if len(turns) < int(times):
            return ToolCall("order", {"number": int(numbers[len(turns) % 2])})
        case (("refund" | "order" | "compare"), _):
            seen = turns[-1].observations[0]
            return FinalAnswer(seen.output if seen.ok else f"{seen.error}: {seen.message}")
        case "ask", _:
            return FinalAnswer(said[-1]) if turns else AskUser("Which one?")
        case "think", _ if len(turns) < 4:
            return Thought(f"step {len(turns)}")
        case "notes", _:
            return FinalAnswer(list(context.memories))
        case "said", _:
            return FinalAnswer(said)
    return FinalAnswer(context.task.instructions)

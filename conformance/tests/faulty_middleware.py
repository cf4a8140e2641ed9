"""Middleware, each with one mistake that a real author might make."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from agentic_kernel_engine.loop import Context, FinalAnswer, Observation, Plan
from agentic_kernel_engine.seams import Invocation, Recovery


class TrimsInPlace:
    """It cuts the list of the transcript, which is the Loop's own."""

    async def before_model(self, context: Context) -> None:
        context.memories.append("Be brief.")  # type: ignore[attr-defined]


class DropsTheUsage:
    """The plan that it gives is made anew, and says nothing of what the call used up."""

    async def after_model(self, context: Context, plan: Plan) -> Plan | None:
        return Plan(plan.actions, plan.text)


class EditsTheCall:
    """It changes the arguments of the planner's own call."""

    async def before_tool(self, invocation: Invocation) -> None:
        invocation.call.arguments["checked"] = True  # type: ignore[index]


class GivesText:
    """It gives a text in the place of an observation."""

    async def after_tool(self, invocation: Invocation, observation: Observation) -> Any:
        return f"cut: {observation.output}"[:100]


class TextsOnly:
    """It takes every output for a text."""

    async def after_tool(self, invocation: Invocation, observation: Observation) -> Any:
        if len(observation.output) > 100:
            return msgspec.structs.replace(observation, output=observation.output[:100])
        return None


class ReadsTheWait:
    """It reads the wait of a failure that may tell none, or tell it in another form."""

    async def on_error(self, context: Context, error: Any) -> Recovery | None:
        return Recovery("retry", delay=error.metadata["retry_after_ms"] / 1000)


class OneContext:
    """It keeps what it saw before the call, for one call at a time."""

    words = ""

    async def before_model(self, context: Context) -> None:
        self.words = context.task.instructions

    async def after_model(self, context: Context, plan: Plan) -> Plan | None:
        await asyncio.sleep(0)
        if not any(isinstance(action, FinalAnswer) for action in plan.actions):
            return None
        return msgspec.structs.replace(plan, actions=(FinalAnswer(self.words),))


class Redacts:
    """It hides secrets in the observation, in place."""

    async def after_tool(self, invocation: Invocation, observation: Observation) -> None:
        if isinstance(observation.output, dict):
            observation.output.pop("a", None)


class TracesLater:
    """What it sees is sent away in the background."""

    async def before_tool(self, invocation: Invocation) -> None:
        self.sending = asyncio.ensure_future(asyncio.Event().wait())


class CannotBeCancelled:
    """A wait that was cancelled is taken for one that is over."""

    async def before_model(self, context: Context) -> None:
        try:
            for _ in range(20):
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            return


class Misspelled:
    """One of its hooks has a name that no Loop calls."""

    async def before_model(self, context: Context) -> None:
        return

    async def after_tools(self, invocation: Invocation, observation: Observation) -> None:
        return


class Bytes:
    """It answers from a cache, with bytes that cannot be stored."""

    async def before_tool(self, invocation: Invocation) -> Observation | None:
        return Observation(b"cached", tool=invocation.tool.name)


class CountsCalls:
    """Every third call is another one, as in a demonstration."""

    count = 0

    async def after_tool(self, invocation: Invocation, observation: Observation) -> Any:
        self.count += 1
        if self.count % 3:
            return None
        return Observation("another", tool=invocation.tool.name)


class Loses:
    """It gives each observation anew, without the tool's own code."""

    async def after_tool(self, invocation: Invocation, observation: Observation) -> Observation:
        return Observation(observation.output, tool=invocation.tool.name)

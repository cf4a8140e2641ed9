"""Calls: decides about and answers each call that a session requests, of our and the CLI's tools.

The policy decides once about each call. If it requires a person, the call stays pending in the
session, which keeps it across processes. An effect is recorded before it may begin; the commit also
proves ownership (R1: only the owner commits). A call of our own tools runs with a key that stays
the same after a crash, and its outcome is recorded before the CLI receives it. A call of the CLI's
own tools is permitted, and settled when the CLI reports its end. If a crash hides the outcome of a
call that must not be repeated, the outcome is indeterminate.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from agentic_kernel_engine.loop import (
    POLICY_DENIED,
    UNKNOWN_TOOL,
    Observation,
    StopReason,
    digest,
    key,
    stopped,
)
from agentic_kernel_engine.plans import vocabulary
from agentic_kernel_engine.seams import (
    DeadlinePassed,
    Invocation,
    Policy,
    SideEffect,
    Tool,
    ToolContext,
    Tools,
    Validator,
    decided,
    perform,
)

from .run import SessionRun
from .session import Pending, Session
from .state import Call

_EFFECTS: Final[dict[str, SideEffect]] = {
    "read": "read",
    "url": "read",
    "shell": "destructive",
    "commands": "destructive",
}
"""The effect of the CLI's own calls, by the kind of permission; any other kind is a write."""

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The names that a policy may see; a call with another name is shown by its kind of permission."""


class Calls:
    """The calls of one run.

    Args:
        run: The run that records the calls.
        tools: Our tools.
        policy: Decides about every call of our tools, and every call about which the CLI asks.
        validator: Makes the checks of each tool that has no validator of its own.
    """

    def __init__(
        self,
        run: SessionRun,
        tools: Tools,
        policy: Policy,
        validator: Validator | None = None,
    ) -> None:
        self._validator = validator
        self._run = run
        self._tools = tools
        self._policy = policy

    async def answer(self, session: Session, pending: Pending, call: Call) -> bool:
        """Carry out a request and answer it.

        Returns:
            True if it is answered. It stays pending while a person has to decide, and also if the
            CLI would ask the model beyond a limit after the answer.

        Raises:
            End: The policy stops the run, or a limit is reached.
            CliLost: The CLI is gone; the call's observation is kept.
            RunEnded: This run no longer owns the Task.
        """
        if pending.request is not None:
            return await self._permit(session, pending, call)
        if call.observation is None:
            observation = await self._observe(call)
            if observation is None:
                return False
            self._run.came_to(call, observation)
            if call.key:
                await self._run.commit(progress=True)
        if call.observation is None or self._run.reached() is not None:
            return False
        await session.settle(pending.request_id, call.observation)
        return True

    async def _observe(self, call: Call) -> Observation | None:
        """Run one of our tools; None if a person still has to decide."""
        tool = self._tools.find(call.action.tool)
        if call.key and (tool is None or not tool.repeatable):
            return Observation.indeterminate(call.action)
        if tool is None:
            return _failed(call, UNKNOWN_TOOL, f"there is no tool {call.action.tool[:80]!r} here")
        if not call.key:
            refusal = await self._decide(call, tool)
            if refusal is not None or call.waits:
                return refusal
        await self._begin(call, tool)
        run, step, index = self._run, self._run.state.step, self._index(call)
        told = ToolContext(
            run.task.id, step, index, self._key(call, tool), run.job.principal,
            partial(run.progress, step, call.action.tool, index), validator=self._validator,
            task=run.task, approved_by=call.by if call.granted else None,
        )  # fmt: skip
        timed = None if run.limits.max_seconds is None else run
        called = Invocation(tool, call.action.arguments, call.action, told, call.action.arguments)
        try:
            return await perform(called, timed)
        except DeadlinePassed:
            raise run.end_at(StopReason.TIMEOUT) from None

    async def _permit(self, session: Session, pending: Pending, call: Call) -> bool:
        """Answer a permission request of the CLI for one of its own tools."""
        tool = _stand_in(call.action.tool, pending.request)
        refusal = await self._decide(call, tool)
        if call.waits:
            return False
        if refusal is None:
            await self._begin(call, tool)
            await session.permit(pending.request_id)
            return True
        self._run.came_to(call, refusal)
        if self._run.reached() is not None:
            return False
        await session.permit(pending.request_id, refusal.message)
        return True

    async def _decide(self, call: Call, tool: Tool) -> Observation | None:
        """Ask the policy once; return the observation of a refused call, else None."""
        if call.decision is None:
            context = self._run.context([*self._others(tool), tool])
            call.decision = await decided(self._policy, call.action, context)
            if call.decision.verdict == "require_approval":
                call.digest = digest(call.action, self._place(call))
        verdict = call.decision.verdict
        if verdict == "stop":
            raise stopped(call.decision.reason)
        if verdict == "deny" or call.granted is False:
            return _failed(call, POLICY_DENIED, call.refusal(call.decision.reason))
        return None

    async def _begin(self, call: Call, tool: Tool) -> None:
        """Count the call, and commit that its effect is about to begin.

        The commit also proves that this Host still owns the Task (R1: only the owner commits).
        """
        if not call.begun:
            self._run.check_calls()
            call.begun = True
            self._run.state.spent.tool_calls += 1
        if tool.has_effect and not call.key:
            call.key = self._key(call, tool)
            self._run.record(vocabulary.EFFECTS_PREPARED, keys={str(self._index(call)): call.key})
            await self._run.commit(progress=False)
        self._run.job.check()

    def _key(self, call: Call, tool: Tool) -> str:
        if call.key:
            return call.key
        run = self._run
        return key(tool, run.task.id, run.state.step, self._index(call), call.action)

    def _place(self, call: Call) -> str:
        return f"{self._run.task.id}:{self._run.state.step}:{self._index(call)}"

    def _index(self, call: Call) -> int:
        return next(index for index, each in enumerate(self._run.state.calls) if each is call)

    def _others(self, tool: Tool) -> Sequence[Tool]:
        return [each for each in self._tools.tools() if each.name != tool.name]


def _stand_in(name: str, request: Any) -> Tool:
    """One of the CLI's own tools, in the form that a policy sees."""
    kind = getattr(request, "kind", "")
    effect = _EFFECTS.get(kind, "write")
    if not _NAME.fullmatch(name):
        name = kind
    return Tool(name, _run_by_the_cli, input_schema={"type": "object"}, effect=effect)


def _run_by_the_cli(_: Any) -> None:
    raise NotImplementedError("the CLI runs its own tools")


def _failed(call: Call, code: str, message: str) -> Observation:
    return Observation(error=code, message=message, call=call.action.id, tool=call.action.tool)

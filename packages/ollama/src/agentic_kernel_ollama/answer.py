"""Answer: the plan that a complete reply stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentic_kernel_engine.loop import Action, Plan
from agentic_kernel_engine.providers import (
    Asked,
    Failures,
    Function,
    actions_of,
    final_answer,
    provider,
)
from agentic_kernel_engine.providers import failures as names

from .failures import IMPL, Inconsistent
from .stream import Reply


def plan_of(
    reply: Reply,
    step: int,
    functions: Sequence[Function],
    schema: Mapping[str, Any] | None,
    parallel: bool,
    failures: Failures,
) -> Plan:
    """The plan that a reply stands for; its usage is not in it.

    Ollama's calls have no ids that the SDK hands on: the step and their order name them.

    Args:
        reply: All that came.
        step: Which step of the Task it answers.
        functions: What the model was shown.
        schema: What a final answer must fit.
        parallel: Whether all of several calls are taken, or only the first.
        failures: Makes the failures.

    Raises:
        PlannerError: The answer was cut short.
        Malformed: It is none: it says nothing, or its calls are no calls.
    """
    if not reply.ended:
        raise Inconsistent("the answer stops before its end")
    if reply.reason == "length":
        raise failures.failure(
            names.MAX_TOKENS,
            "the answer reached its limit of tokens, or the end of the model's context, before its "
            "end; allow more max_tokens, or a larger num_ctx in options",
            text=reply.text or None,
        )
    calls = [
        Asked(f"call_{step}_{index}", name, arguments)
        for index, (name, arguments) in enumerate(reply.calls if parallel else reply.calls[:1])
    ]
    actions: tuple[Action, ...]
    actions, called = actions_of(calls, functions)
    if not calls:
        if not reply.text.strip():
            why = f" ({reply.reason[:40]})" if reply.reason else ""
            raise Inconsistent(f"the answer has neither text nor a call{why}")
        actions = (final_answer(reply.text, schema),)
    return Plan(
        actions,
        text=reply.text if calls else "",
        reasoning=reply.thinking,
        provider=_left(reply, called),
        model=reply.model,
    )


def _left(reply: Reply, called: Sequence[str]) -> Mapping[str, Any] | None:
    """What is kept beside the actions.

    Models want their thinking back as long as their calls go on, and not after.
    """
    thinking = [{"thinking": reply.thinking}] if reply.thinking and reply.calls else None
    left = provider(IMPL, thinking, called)
    if reply.durations:
        left = {**(left or {"impl": IMPL}), "durations": reply.durations}
    return left

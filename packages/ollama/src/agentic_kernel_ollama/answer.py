"""Answer: makes a plan from a complete reply."""

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
    """Return the plan from a reply, without its usage.

    The SDK gives no ids of Ollama's calls, so the step and the order of the calls make their ids.

    Args:
        reply: The complete reply.
        step: The number of the Task's step that it answers.
        functions: The functions that the model was shown.
        schema: The JSON Schema of a final answer.
        parallel: True to take all calls of an answer; False to take only the first one.
        failures: The factory of failures.

    Raises:
        PlannerError: The answer was cut short.
        Malformed: The reply is not a valid answer: it is empty, or a call in it is not valid.
    """
    if not reply.ended:
        raise Inconsistent("the answer stopped before its end")
    if reply.reason == "length":
        raise failures.failure(
            names.MAX_TOKENS,
            "the answer reached its token limit or the end of the model's context; raise "
            "max_tokens, or num_ctx in options=, or the run's limits if less is left of them",
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
            raise Inconsistent(f"the answer has no text and no call{why}")
        actions = (final_answer(reply.text, schema),)
    return Plan(
        actions,
        text=reply.text if calls else "",
        reasoning=reply.thinking,
        provider=_left(reply, called),
        model=reply.model,
    )


def _left(reply: Reply, called: Sequence[str]) -> Mapping[str, Any] | None:
    """Return the data that the plan keeps in addition to its actions; None if there is none.

    A model needs its thinking back only as long as its calls go on.
    """
    thinking = [{"thinking": reply.thinking}] if reply.thinking and reply.calls else None
    left = provider(IMPL, thinking, called)
    if reply.durations:
        left = {**(left or {"impl": IMPL}), "durations": reply.durations}
    return left

"""Answer: makes a plan from a complete reply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from agentic_kernel_engine.loop import Plan, Thought, Usage
from agentic_kernel_engine.providers import (
    Asked,
    Failures,
    Price,
    actions_of,
    final_answer,
    provider,
)
from agentic_kernel_engine.providers import failures as names

from .prices import price_for
from .request import Request
from .stream import Inconsistent, Reply

_BEFORE_ITS_END: Final[Mapping[str, tuple[str, str]]] = {
    "max_tokens": (
        names.MAX_TOKENS,
        "the answer reached its token limit before its end; raise max_tokens, or the run's limits "
        "if less is left of them",
    ),
    "model_context_window_exceeded": (
        names.CONTEXT_LENGTH,
        "the conversation and the answer do not fit the model's context; shorten the conversation, "
        "or use a model with a larger context",
    ),
    "refusal": (names.REFUSAL, "the model refuses"),
}
"""The failure and its message, by the stop reason of an answer that cannot be used."""


def plan_of(
    reply: Reply,
    request: Request,
    schema: Mapping[str, Any] | None,
    impl: str,
    failures: Failures,
) -> Plan:
    """Return the plan from a reply, without its usage.

    Raises:
        PlannerError: The answer was cut short, or is a refusal.
        ValueError: The reply is not a valid answer: it is empty, or a call in it is not valid.
    """
    text = reply.text()
    if reply.stop in _BEFORE_ITS_END:
        raise _cut(reply, text, failures)
    reply.close()
    calls = [
        _asked(block, reply.arguments(index))
        for index, block in enumerate(reply.blocks)
        if block["type"] == "tool_use"
    ]
    actions, called = actions_of(calls, request.functions)
    paused = reply.stop == "pause_turn" and not calls
    if paused:
        actions, called = (Thought(text),), ()
    elif not calls:
        if not text.strip() or reply.stop == "tool_use":
            raise Inconsistent(f"the answer has no text and no call; stop_reason is {reply.stop}")
        actions = (final_answer(text, schema),)
    items = before = None
    if paused or not all(map(_plain, reply.blocks)):
        items, before = reply.blocks, request.wire.fingerprint()
        msgspec.json.encode(items)  # Raises for a lone surrogate, which no store accepts.
    return Plan(
        actions,
        text=text if calls else "",
        reasoning=reply.reasoning(),
        provider=provider(impl, items, called, before or ""),
        model=reply.model,
    )


def usage_of(reply: Reply, prices: Mapping[str, Price], model: str) -> Usage | None:
    """Return the usage of an answer; None if the server reported none.

    The API's ``input_tokens`` excludes tokens read from a cache or written to one; these are added.
    """
    counts = reply.counts
    if not counts:
        return None
    cached = counts.get("cache_read_input_tokens", 0)
    written = counts.get("cache_creation_input_tokens", 0)
    usage = Usage(
        input_tokens=counts.get("input_tokens", 0) + cached + written,
        output_tokens=counts.get("output_tokens", 0),
        cached_tokens=cached,
        reasoning_tokens=counts.get("thinking_tokens", 0),
    )
    price = price_for(prices, model, usage.input_tokens)
    if price is None:
        return usage
    return msgspec.structs.replace(usage, cost=price.cost(usage, written))


def bound_of(
    reply: Reply, request: Request, prices: Mapping[str, Price], model: str
) -> Usage | None:
    """Return the most that an answer has used up so far; None if that is not known.

    The API counts the input when the answer begins, and the output at its end. Before that, the
    model may have written tokens that did not arrive, e.g. of its thinking, so `max_tokens` of the
    request stands for the output. If the server runs tools of its own, the input may still grow.
    """
    used = usage_of(reply, prices, model)
    if used is None or reply.counted:
        return used
    if request.served or not used.input_tokens:
        return None  # Some servers count nothing at the beginning.
    most = max(request.body["max_tokens"], used.output_tokens)
    bound = msgspec.structs.replace(used, output_tokens=most)
    price = price_for(prices, model, bound.input_tokens)
    if price is None:
        return bound
    written = reply.counts.get("cache_creation_input_tokens", 0)
    return msgspec.structs.replace(bound, cost=price.cost(bound, written))


def _cut(reply: Reply, text: str, failures: Failures) -> Exception:
    name, message = _BEFORE_ITS_END[reply.stop]
    explained, category = (
        each if isinstance(each, str) and each else None
        for each in (getattr(reply.refused, name, None) for name in ("explanation", "category"))
    )
    if explained:
        message = f"{message}: {explained}"
    return failures.failure(name, message, text=text or explained, category=category)


def _asked(block: Mapping[str, Any], said: str) -> Asked:
    id, name, arguments = block.get("id"), block.get("name"), block.get("input")
    if not isinstance(id, str) or not isinstance(name, str) or not isinstance(arguments, dict):
        raise Inconsistent("a call has no id, no name, or no arguments")
    # The text itself, because parsing drops a key that the model wrote twice.
    return Asked(id, name, said or msgspec.json.encode(arguments).decode())


def _plain(block: Mapping[str, Any]) -> bool:
    """Return True if a block can be rebuilt from the plan."""
    if block["type"] == "text":
        return not block.get("citations")
    caller = block.get("caller") or {"type": "direct"}
    return block["type"] == "tool_use" and caller == {"type": "direct"}

"""Cache: the same question is not asked twice."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any

import msgspec

from agentic_kernel import InvalidValue

from ...plans.context import Context
from ...plans.plan import NOTHING_USED, Plan
from ...plans.transcript import Entry, Turn

_encode = msgspec.json.Encoder(order="sorted").encode


class Cache:
    """Answers with what the planner said when it was shown the same; that uses up nothing.

    The same is: transcript, tools, goals, instructions, memories, variables, what an answer must
    fit, and on whose behalf. Not the Task's id, the step, or what remains of the limits. Give it
    last: what a middleware behind it does to the context, it cannot know. Answers without actions
    are not kept.

    Args:
        size: How many answers are kept; the one that was not used for the longest time goes first.
        version: What else an answer depends on, e.g. the model's name.

    Raises:
        InvalidValue: The size is below one.
    """

    def __init__(self, size: int = 1_000, *, version: str = "") -> None:
        if size < 1:
            raise InvalidValue("size", f"is {size}; keep at least one answer, or have no Cache")
        self._size = size
        self._version = version
        self._plans: OrderedDict[bytes, Plan] = OrderedDict()

    async def before_model(self, context: Context) -> None:
        if context.response is not None:
            return
        key = self._key(context)
        plan = self._plans.get(key)
        if plan is not None:
            self._plans.move_to_end(key)
            context.response = plan

    async def after_model(self, context: Context, plan: Plan) -> None:
        if context.response is not None or not plan.actions:
            return
        self._plans[self._key(context)] = msgspec.structs.replace(plan, usage=NOTHING_USED)
        if len(self._plans) > self._size:
            self._plans.popitem(last=False)

    def _key(self, context: Context) -> bytes:
        who = context.principal
        shown = (
            self._version,
            (who.name, who.tenant, sorted(who.scopes)),
            context.task.summary,
            [_shown(entry) for entry in context.transcript],
            [(each.name, each.description, each.input_schema) for each in context.tools],
            context.goals,
            context.instructions,
            context.memories,
            context.variables,
            context.output_schema,
            context.continuation,
        )
        return hashlib.sha256(_encode(shown)).digest()


def _shown(entry: Entry) -> Any:
    """An entry without what an earlier answer used up: a cached one used up nothing."""
    if isinstance(entry, Turn):
        return msgspec.structs.replace(entry.plan, usage=NOTHING_USED), entry.observations
    return entry

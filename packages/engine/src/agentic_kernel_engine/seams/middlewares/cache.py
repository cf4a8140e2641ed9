"""Cache: reuses a planner's answer for an equal context."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any

import msgspec

from agentic_kernel import InvalidValue

from ...plans.plan import NOTHING_USED, Plan
from ...plans.transcript import Entry, Turn
from ..planner import Context

_encode = msgspec.json.Encoder(order="sorted").encode


class Cache:
    """Gives the planner's earlier answer to an equal context; such an answer uses up nothing.

    Two contexts are equal if they have the same summary, transcript, tools, goals, instructions,
    memories, variables, output schema, continuation, options and principal. The Task's id, the step
    and the rest of the limits may differ. Give it last, because it cannot know how a later
    middleware changes the context. Answers without actions are not kept.

    Args:
        size: The most answers that are kept; the least recently used one is removed first.
        version: Anything else that an answer depends on, e.g. the model's name.

    Raises:
        InvalidValue: The size is below one.
    """

    def __init__(self, size: int = 1_000, *, version: str = "") -> None:
        if size < 1:
            raise InvalidValue("size", f"is {size}; use at least 1, or leave the Cache out")
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
            context.options,
        )
        return hashlib.sha256(_encode(shown)).digest()


def _shown(entry: Entry) -> Any:
    """The entry without the usage of its plan, because a cached answer has none."""
    if isinstance(entry, Turn):
        return msgspec.structs.replace(entry.plan, usage=NOTHING_USED), entry.observations
    return entry

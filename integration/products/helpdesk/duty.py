"""Duty: the agent on duty: its tools, its policy, and the Host on which it works on tickets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from agentic_kernel_engine import Host, Limits, Loop, Principal, Store
from agentic_kernel_engine.loop import (
    ALLOW,
    Action,
    Context,
    Decision,
    Delegate,
    ToolCall,
    deny,
    require_approval,
)
from agentic_kernel_engine.seams import (
    Memory,
    Planner,
    SessionMemoryGovernor,
    Tool,
    ToolContext,
    tool,
)

from .books import Books
from .words import HOUSE, TENANT, money

KIND: Final = "helpdesk"
"""The runtime kind of tickets."""
SESSION: Final = "desk"
"""The session of all tickets of a customer, so that they share the customer's notes."""
MOST_REFUND: Final = 50_000
"""The most cents that one refund may have, whoever approves it."""
LIMITS: Final = Limits(
    max_iterations=20, max_tool_calls=20, max_failures=10, max_seconds=600.0, max_depth=0
)
"""The limits of a ticket; the ticket's own steps replace ``max_iterations``."""


def tools_over(books: Books) -> Sequence[Tool]:
    """The tools of the agent; each one sees the orders of the ticket's customer and no others."""

    @tool(effect="read", timeout=20.0)
    async def order(number: int, context: ToolContext) -> dict[str, str]:
        """Look up what the customer paid for an order, and what was paid back.

        Args:
            number: The number of the order.
        """
        paid, back = await books.balance(number, context.principal.name)
        return {"paid": money(paid), "refunded": money(back)}

    @tool(effect="write", idempotent=True, timeout=20.0)
    async def refund(number: int, cents: int, context: ToolContext) -> str:
        """Pay back a part of an order to the customer. A person has to approve it first.

        Args:
            number: The number of the order.
            cents: The amount, in cents.
        """
        await books.refund(context.key, context.task_id, context.principal.name, number, cents)
        return f"{money(cents)} of order {number} is paid back"

    return [order, refund]


class DeskPolicy:
    """People approve every refund; a large refund and a delegation are denied."""

    async def authorize(self, action: Action, context: Context) -> Decision:
        if isinstance(action, Delegate):
            return deny("the desk gives work to nobody else; answer the customer yourself")
        if not isinstance(action, ToolCall) or action.tool != "refund":
            return ALLOW
        cents, number = (_whole(action.arguments, name) for name in ("cents", "number"))
        if cents is None or number is None:
            return deny("a refund needs an order's `number` and its `cents`, as whole numbers")
        if not 1 <= cents <= MOST_REFUND:
            return deny(f"{cents} cents is no refund from 1 to {MOST_REFUND} cents; ask for less")
        return require_approval(
            f"{context.principal.name} gets {money(cents)} back of order {number}"
        )


def agent(planner: Planner, tools: Sequence[Tool], memory: Memory, limits: Limits = LIMITS) -> Loop:
    """The work of a ticket: the Loop with the desk's policy, memory and limits."""
    return Loop(
        planner,
        tools,
        DeskPolicy(),
        limits=limits,
        memory=memory,
        governor=SessionMemoryGovernor(max_items=50),
        principal=HOUSE,
    )


def on_duty(
    planner: Planner, store: Store, memory: Memory, books: Books, slots: int = 2, **options: Any
) -> Host:
    """The Host on which an agent works on tickets, for every customer of the desk.

    Args:
        planner: The agent.
        slots: The most tickets at the same time.
        **options: See `Host`.
    """
    return Host(
        agent(planner, tools_over(books), memory), store,
        runtime_kinds=[KIND], realms=[TENANT], acts_for=_customer, max_in_flight=slots, **options,
    )  # fmt: skip


def _customer(name: str, tenant: str) -> Principal | None:
    """The customer as it is now; None if the Task is not one of this desk."""
    if tenant != TENANT or not name:
        return None
    return HOUSE if name == HOUSE.name else Principal(name, TENANT)


def _whole(arguments: Any, name: str) -> int | None:
    value = arguments.get(name)
    return value if type(value) is int else None

"""A Loop whose tools and policy are a guard's: a read runs, and a delete waits for a person."""

from __future__ import annotations

import asyncio
import secrets

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Host, Principal
from agentic_kernel_engine.loop import FinalAnswer, Loop, ToolCall
from agentic_kernel_engine.seams import ScriptedPlanner
from agentic_kernel_guard import (
    AsGiven,
    CapabilitySpec,
    Guard,
    GuardedTools,
    GuardPolicy,
    InMemoryDriver,
    Key,
    Keyring,
    MemoryGuardStore,
    Registry,
    RulePolicy,
    SafetyClass,
    StaticRouter,
)
from agentic_kernel_guard.rules import parse

RULES = """
version: 1
rules:
  - {name: reads, priority: 1, effect: allow, match: {safety: read}}
  - {name: deletes, priority: 2, effect: require_approval, match: {safety: destructive}}
"""
SPECS = [
    CapabilitySpec("crm/orders", "orders of a customer", "orders", safety=SafetyClass.READ),
    CapabilitySpec("crm/delete", "delete a customer", "delete", safety=SafetyClass.DESTRUCTIVE),
]


def orders(customer: str) -> list[dict[str, object]]:
    return [{"order": n, "customer": customer} for n in range(80)]


def delete(customer: str) -> str:
    return f"{customer} is deleted"


async def main() -> None:
    driver = InMemoryDriver({"orders": orders, "delete": delete}, source="crm")
    # A model would plan these calls.
    planner = ScriptedPlanner(
        ToolCall("crm_orders", {"customer": "Eva"}),
        ToolCall("crm_delete", {"customer": "Eva", "justification": "Eva asked for it by mail."}),
        FinalAnswer("done"),
    )
    # --8<-- [start:loop]
    guard = Guard(
        Registry(SPECS),
        StaticRouter({spec.name: [driver] for spec in SPECS}),
        policy=RulePolicy(parse(RULES)),
        store=MemoryGuardStore(),
        keys=Keyring([Key("k1", secrets.token_bytes(32))]),
        resolver=AsGiven(),  # The Host resolves the principals.
    )
    loop = Loop(planner, GuardedTools(guard), policy=GuardPolicy(guard))
    async with Host(loop) as host:
        task = Task.new(summary="", instructions="Delete Eva.", runtime_kind="loop")
        await host.dispatch(task, principal=Principal("ann", "acme"))
        held = await host.wait(task.id, TaskStatus.PAUSED)
        (request,) = held.metadata["engine/waiting_for"]["requests"]
        print(request["reason"], request["action"]["arguments"])
        await host.approve(task.id, request["digest"], by="bob")
        print((await host.wait(task.id)).result)
    # --8<-- [end:loop]
    for link in await guard.store.links():
        entry = link.entry
        print(entry["kind"], entry["capability"], entry.get("approved_by", ""))


if __name__ == "__main__":
    asyncio.run(main())

"""A guard in front of two functions: a grant, a call, a page of the result, and a denial."""

from __future__ import annotations

import asyncio
import secrets

from agentic_kernel_engine import Principal
from agentic_kernel_guard import (
    CapabilityRequest,
    CapabilitySpec,
    DefaultPolicy,
    Denied,
    Guard,
    InMemoryDriver,
    Key,
    Keyring,
    MemoryGuardStore,
    Principals,
    Query,
    Registry,
    SafetyClass,
    StaticRouter,
)


def orders(customer: str) -> list[dict[str, object]]:
    return [{"order": n, "customer": customer, "card": "4111 1111 1111 1111"} for n in range(80)]


def delete(customer: str) -> None:
    raise AssertionError("the policy denies this call")


# --8<-- [start:call]
SPECS = [
    CapabilitySpec("crm/orders", "orders of a customer", "orders", safety=SafetyClass.READ),
    CapabilitySpec("crm/delete", "delete a customer", "delete", safety=SafetyClass.DESTRUCTIVE),
]


async def main() -> None:
    driver = InMemoryDriver({"orders": orders, "delete": delete}, source="crm")
    ann = Principal("ann", "acme")
    guard = Guard(
        Registry(SPECS),
        StaticRouter({spec.name: [driver] for spec in SPECS}),
        policy=DefaultPolicy(),
        store=MemoryGuardStore(),
        keys=Keyring([Key("k1", secrets.token_bytes(32))]),
        resolver=Principals([ann]),
    )
    for found in await guard.request_capabilities("the orders of a customer"):
        print(found.spec.name, round(found.score, 2))
    asked = CapabilityRequest("crm/orders", arguments={"customer": "Eva"})
    token = await guard.grant_capability(asked, ann)
    frame = await guard.invoke(token, ann, {"customer": "Eva"})
    assert frame is not None
    print(frame.summary)
    assert frame.handle is not None
    page = await guard.expand(
        frame.handle, ann, Query(fields=("order", "card"), offset=70, limit=2)
    )
    print(page.rows)
    try:
        asked = CapabilityRequest("crm/delete", arguments={"customer": "Eva"})
        await guard.grant_capability(asked, ann)
    except Denied as denied:
        print(denied)
    # --8<-- [end:call]


if __name__ == "__main__":
    asyncio.run(main())

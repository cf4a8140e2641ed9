"""weaver-kernel: microseconds of what it does as the guard does. It runs in its own environment.

`python -m peers.weaver` prints one line of JSON. All figures are processor time, the best of some
rounds, as those of the guard beside it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable
from typing import Any

REQUIRES = ("weaver-kernel==0.12.0", "mcp<2")
MANY = 500
ROUNDS = 5
RULES, NAMED, SPECS, ROWS, FIELDS, CHARS = 1_000, 20, 10_000, 1_000, 10, 20
"""As in the guard's own benchmark."""


def best(work: Callable[[], object], number: int) -> float:
    """Microseconds of one call, the best of some rounds."""
    found = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(number):
            work()
        found = min(found, time.process_time() - began)
    return found / number * 1e6


async def main() -> dict[str, float]:
    """Each figure by its name."""
    from weaver_kernel import (
        Capability,
        CapabilityRegistry,
        CapabilityRequest,
        DeclarativePolicyEngine,
        Firewall,
        HMACTokenProvider,
        InMemoryDriver,
        Kernel,
        Principal,
        SafetyClass,
    )
    from weaver_kernel.models import RawResult
    from weaver_kernel.router import StaticRouter

    logging.disable(logging.CRITICAL)
    find = Capability("crm.find", "find", "find", SafetyClass.READ)
    registry = CapabilityRegistry()
    registry.register(find)
    driver = InMemoryDriver()
    driver.register_handler("crm.find", lambda context: {"id": context.args["id"]})
    tokens = HMACTokenProvider(secret="x" * 32)
    kernel = Kernel(
        registry, token_provider=tokens, router=StaticRouter(routes={"crm.find": ["memory"]})
    )
    kernel.register_driver(driver)
    ann = Principal("ann", ["reader"], {"tenant": "acme"})
    asked = CapabilityRequest("crm.find", "find")
    # Its rate limit for reads is 60 a minute, so the rules decide without one.
    kernel._policy = DeclarativePolicyEngine.from_dict(
        {"rules": [{"name": "reads", "match": {"safety_class": ["READ"]}, "action": "allow"}]}
    )
    token = kernel.get_token(asked, ann, justification="")

    async def calls() -> float:
        began = time.process_time()
        for number in range(MANY):
            await kernel.invoke(token, principal=ann, args={"id": number})
        return (time.process_time() - began) / MANY * 1e6

    others = [
        {"name": f"r{n}", "match": {"intent": [f"other{n}"]}, "action": "allow"}
        for n in range(RULES - NAMED)
    ]
    named = [
        {"name": f"n{n}", "match": {"intent": ["find"], "scope": {"amount": str(n)}},
         "action": "allow"}
        for n in range(NAMED)
    ]  # fmt: skip
    engine = DeclarativePolicyEngine.from_dict({"rules": others + named})
    request = CapabilityRequest("crm.find", "find", intent="find", scope={"amount": str(NAMED - 1)})
    rows = [
        {f"field{field}": f"{row:05}-{field:02}".ljust(CHARS, "x") for field in range(FIELDS)}
        for row in range(ROWS)
    ]
    raw, firewall = RawResult("crm.find", rows), Firewall()
    many = CapabilityRegistry()
    many.register_many([
        Capability(f"crm.find{n}", f"find{n}", f"find customers of kind {n} in the shop",
                   SafetyClass.READ)
        for n in range(SPECS)
    ])  # fmt: skip
    return {
        "grant": best(lambda: kernel.get_token(asked, ann, justification=""), MANY),
        "verify": best(
            lambda: tokens.verify(
                token, expected_principal_id="ann", expected_capability_id="crm.find"
            ),
            MANY,
        ),
        "decision": best(lambda: engine.evaluate(request, find, ann, justification=""), 20),
        "frame": best(
            lambda: firewall.transform(
                raw, action_id="a", principal_id="ann", principal_roles=["reader"],
                response_mode="summary",
            ),
            3,
        ),
        "search": best(lambda: many.search("find the customers of kind 77"), 3),
        "invoke": min([await calls() for _ in range(ROUNDS)]),
    }  # fmt: skip


def figures() -> dict[str, Any]:
    """What this process measures."""
    return asyncio.run(main())


if __name__ == "__main__":
    print(json.dumps(figures()))

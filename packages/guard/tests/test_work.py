"""The work of one call in memory, in calls of functions: a busy machine changes no count."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

from agentic_kernel_guard import (
    AsGiven,
    CapabilityRequest,
    CapabilitySpec,
    DefaultPolicy,
    Guard,
    InMemoryDriver,
    MemoryGuardStore,
    Registry,
    SafetyClass,
    StaticRouter,
)

from .guards import ANN, KEYS

MOST = 425
"""The most calls of functions, of Python and of C. They were 414 on Python 3.11."""


async def find(id: int) -> dict[str, int]:
    return {"id": id}


async def calls_of_one_invocation() -> Counter[str]:
    """The functions that a call runs, after another one has filled what is remembered."""
    spec = CapabilitySpec("crm/find", "find", "find", safety=SafetyClass.READ)
    guard = Guard(
        Registry([spec]), StaticRouter({spec.name: [InMemoryDriver({"find": find})]}),
        policy=DefaultPolicy(), store=MemoryGuardStore(), keys=KEYS, resolver=AsGiven(),
    )  # fmt: skip
    asked = [CapabilityRequest(spec.name, {"id": number}) for number in range(2)]
    first, second = [await guard.grant_capability(each, ANN) for each in asked]
    await guard.invoke(first, ANN, {"id": 0})
    found: Counter[str] = Counter()

    def count(frame: Any, event: str, called: Any) -> None:
        if event == "call":
            found[frame.f_code.co_qualname] += 1
        elif event == "c_call":
            found[called.__qualname__] += 1

    sys.setprofile(count)
    try:
        frame = await guard.invoke(second, ANN, {"id": 1})
    finally:
        sys.setprofile(None)
    assert frame is not None
    assert frame.rows == ({"id": 1},)
    return found


async def test_a_call_hashes_and_writes_each_value_once() -> None:
    found = await calls_of_one_invocation()
    # The arguments, what the action is, and two entries of the chain.
    assert found["openssl_sha256"] == 4
    assert found["canonical"] == 4
    assert found["Encoder.encode"] == 4
    # The kept result, and the recorded one.
    assert found["json_encode"] == 2
    # The token's: its MAC, and its claims.
    assert found["hmac_digest"] == 1
    assert found["Decoder.decode"] == 1


async def test_a_call_that_need_not_wait_makes_no_timer() -> None:
    found = await calls_of_one_invocation()
    assert found["find"] == 1
    assert not [name for name in sorted(found) if "Timer" in name or "call_at" in name]


async def test_a_call_takes_a_bounded_number_of_steps() -> None:
    assert (await calls_of_one_invocation()).total() <= MOST

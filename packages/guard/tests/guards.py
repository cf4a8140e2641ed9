"""A guard over three operations that count their calls, for tests."""

from __future__ import annotations

from functools import partial
from typing import Any

from agentic_kernel_engine import Principal
from agentic_kernel_guard import (
    CapabilitySpec,
    DefaultPolicy,
    Guard,
    InMemoryDriver,
    Key,
    Keyring,
    MemoryGuardStore,
    Principals,
    Registry,
    SafetyClass,
    StaticRouter,
)
from agentic_kernel_guard.policy import GuardRules
from agentic_kernel_guard.stores import GuardStore

ANN, BOB = Principal("ann", "acme"), Principal("bob", "acme")
KEYS = Keyring([Key("k1", bytes(range(32)))])
WHY = "the customer asked for it"
SECRET = "4111 1111 1111 1111"


class Operations:
    """Carries the operations out, counts them, and raises what it is told to."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.error: Exception | None = None
        self.result: Any = [{"id": n, "name": f"n{n}", "card": SECRET} for n in range(100)]
        driver = InMemoryDriver(
            {name: partial(self._done, name) for name in ("find", "change", "purge")},
            name="operations", source="crm",
        )  # fmt: skip
        self.router = StaticRouter({spec.name: [driver] for spec in SPECS})

    async def _done(self, called: str, /, **given: Any) -> Any:
        self.calls.append((called, given))
        if self.error is not None:
            raise self.error
        return self.result


SPECS = [
    CapabilitySpec(
        f"crm/{name}", f"{name} customers", name, arguments={
            "type": "object", "properties": {"id": {"type": "integer"}},
            "required": ["id"],
        }, safety=SafetyClass(safety), sensitive_fields=frozenset({"card"}),
    )
    for name, safety in (("find", "read"), ("change", "write"), ("purge", "destructive"))
]  # fmt: skip


class World:
    """A guard, its operations, and the roles that its principals have now."""

    def __init__(
        self, policy: GuardRules | None = None, store: GuardStore | None = None, **roles: str
    ) -> None:
        self.roles = {"ann": set(roles.get("ann", "").split()), "bob": set()}
        self.operations = Operations()
        self.now = 1_700_000_000.0
        self.store = store or MemoryGuardStore()
        self.guard = Guard(
            Registry(SPECS), self.operations.router, policy=policy or DefaultPolicy(),
            store=self.store, keys=KEYS, resolver=self, clock=lambda: self.now,
        )  # fmt: skip

    async def resolve(self, name: str, tenant: str) -> Principal | None:
        known = Principals(
            Principal(each, "acme", roles=frozenset(roles)) for each, roles in self.roles.items()
        )
        return await known.resolve(name, tenant)

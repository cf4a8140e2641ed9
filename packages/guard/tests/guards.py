"""A guard over three operations that count their calls, for tests."""

from __future__ import annotations

from typing import Any

from agentic_kernel_engine import Principal
from agentic_kernel_guard import (
    CapabilitySpec,
    DefaultPolicy,
    DriverCall,
    Frame,
    FrameLimits,
    Guard,
    Key,
    Keyring,
    MemoryGuardStore,
    Principals,
    RawResult,
    Registry,
    ResponseMode,
    SafetyClass,
)
from agentic_kernel_guard.policy import GuardRules
from agentic_kernel_guard.stores import GuardStore

ANN, BOB = Principal("ann", "acme"), Principal("bob", "acme")
KEYS = Keyring([Key("k1", bytes(range(32)))])
WHY = "the customer asked for it"
SECRET = "4111-secret"


class Operations:
    """Carries the operations out, counts them, and raises what it is told to."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.error: Exception | None = None

    async def run(self, call: DriverCall, idempotent: bool) -> RawResult:
        self.calls.append((call.operation, dict(call.arguments)))
        if self.error is not None:
            raise self.error
        rows = [{"id": n, "name": f"n{n}", "card": SECRET} for n in range(100)]
        return RawResult(rows, "operations", "crm")


class Marks:
    """Replaces one known secret."""

    def text(self, text: str) -> tuple[str, int]:
        return text.replace(SECRET, "[gone]"), text.count(SECRET)

    def value(self, value: Any) -> tuple[Any, int]:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {key: self.value(each)[0] for key, each in value.items()}, 0
        if isinstance(value, list):
            return [self.value(each)[0] for each in value], 0
        return value, 0


class Shown:
    """Shows rows with the fields that are allowed."""

    redactor = Marks()

    def frame(
        self, raw: RawResult, *, mode: ResponseMode, constraints: FrameLimits, handle: str | None
    ) -> Frame:
        if mode == "raw" and not constraints.raw:
            raise PermissionError("raw")
        allowed = constraints.allowed_fields
        rows = tuple(
            {
                key: self.redactor.value(value)[0]
                for key, value in row.items()
                if (allowed is None or key in allowed) and key not in constraints.sensitive_fields
            }
            for row in raw.value[: constraints.max_rows]
        )
        return Frame(mode, raw.source, f"{len(raw.value)} rows", rows, handle=handle)

    def select(
        self, value: Any, *, fields: Any, equals: Any, offset: int, limit: int | None
    ) -> Any:
        rows = [row for row in value if all(row.get(key) == one for key, one in equals.items())]
        rows = rows[offset : None if limit is None else offset + limit]
        return rows if fields is None else [{key: row.get(key) for key in fields} for row in rows]


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
            Registry(SPECS), self.operations, firewall=Shown(), policy=policy or DefaultPolicy(),
            store=self.store, keys=KEYS, resolver=self, clock=lambda: self.now,
        )  # fmt: skip

    async def resolve(self, name: str, tenant: str) -> Principal | None:
        known = Principals(
            Principal(each, "acme", roles=frozenset(roles)) for each, roles in self.roles.items()
        )
        return await known.resolve(name, tenant)

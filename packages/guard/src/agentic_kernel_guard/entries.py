"""Entries: what the trace says about an action, without secrets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from agentic_kernel import InvalidValue
from agentic_kernel_engine import Principal

from .canonical import canonical
from .firewall.redact.redactor import TAIL
from .grants import Denied
from .ids import new_id
from .large_values import TooLarge, off_the_loop
from .policy import Decision, Request
from .ports import Redacts
from .spec import CapabilitySpec
from .stores import GuardStore, Seen

MOST_GIVEN: Final = 1_000_000
"""The most characters of the arguments of one call."""
LONGEST_SAID: Final = 3_000
"""The most characters of a message that are looked at."""
REMEMBERED: Final = 1_024
"""The most reasons whose clean form is remembered."""
LONGEST_REMEMBERED: Final = 256
"""The most characters of such a reason."""
FACTS: Final = frozenset(
    "arguments redacted effect roles agent safety labels step_count duration_ms carries has_read"
    .split()
)  # fmt: skip
"""The fields that `Entries.facts` makes. The entry of an action's end has none of them."""


class Entries:
    """Makes and writes the entries of one guard.

    Args:
        store: Keeps them.
        redactor: Replaces secrets in them.
        clock: Seconds since 1970.
    """

    def __init__(self, store: GuardStore, redactor: Redacts, clock: Callable[[], float]) -> None:
        self._store = store
        self._redactor = redactor
        self._clock = clock
        self._reasons: dict[str, str] = {}

    def now(self) -> int:
        """Milliseconds since 1970."""
        return int(self._clock() * 1_000)

    def clean(self, text: str) -> str:
        """A text without secrets; only the beginning of a long one."""
        if not text:  # Most fields of most entries.
            return text
        if len(text) <= LONGEST_SAID:
            return self._redactor.text(text)[0]
        # No half of a secret is at the end of what is left.
        start = self._redactor.text(text[:LONGEST_SAID])[0]
        return f"{start[:-TAIL]}… [{len(text):,} characters]"

    def entry(
        self, action: str, kind: str, now: int, who: Principal, spec: CapabilitySpec, *,
        dig: str = "", decision: Decision | None = None, justification: str = "", task: str = "",
        key: str = "", token: str = "",
    ) -> dict[str, Any]:  # fmt: skip
        """An entry about what a principal does with a capability."""
        return {
            "action": action,
            "kind": kind,
            "at": now,
            "principal": who.name,
            "tenant": who.tenant,
            "capability": spec.name,
            "operation": spec.operation,
            "digest": dig,
            "rule": decision.rule if decision else "",
            "reason": self._reason(decision.reason) if decision else "",
            "justification": self.clean(justification),
            "task": self.clean(task),
            "key": self.clean(key),
            "token": token,
        }

    def _reason(self, reason: str) -> str:
        """A policy's reason without secrets. It is remembered, because a policy has few of them."""
        known = self._reasons.get(reason)
        if known is None:
            known = self.clean(reason)
            if len(self._reasons) < REMEMBERED and len(reason) <= LONGEST_REMEMBERED:
                self._reasons[reason] = known
        return known

    async def facts(self, request: Request, decision: Decision) -> dict[str, Any]:
        """The request and its decision, for `replayed` to ask other rules about."""
        given = dict(request.arguments)
        try:
            arguments, hidden = await off_the_loop(
                lambda: self._redactor.value(given), given, most=MOST_GIVEN
            )
        except TooLarge:
            raise InvalidValue(
                "arguments", f"have over {MOST_GIVEN:,} characters; send less in one call"
            ) from None
        labels = dict(request.labels)
        return {
            "arguments": arguments,
            "redacted": hidden,
            "effect": decision.verdict.effect if decision.verdict else decision.effect,
            "roles": sorted(request.principal.roles),
            "agent": self.clean(request.agent),
            "safety": request.spec.safety.value,
            "labels": self._redactor.value(labels)[0] if labels else labels,
            "step_count": request.step_count,
            "duration_ms": request.duration_ms,
            "carries": sorted(request.carries),
            "has_read": sorted(request.has_read),
        }

    async def write(self, entry: Mapping[str, Any], seen: Seen | None = None) -> None:
        """Append an entry, and keep what was seen."""
        await self._store.append(written(entry), seen)

    async def denied(self, said: dict[str, Any], decision: Decision) -> Denied:
        """Record a denial of an action; the error to raise."""
        action = new_id("d")
        entry = {**said, "kind": "denied", "action": action, "of": said["action"]}
        await self.write(entry)
        return Denied(said["reason"], action, decision)


def moment(now: int) -> datetime:
    """The time of some milliseconds since 1970."""
    return datetime.fromtimestamp(now / 1_000, UTC)


def written(entry: Mapping[str, Any]) -> str:
    """An entry as a store keeps it."""
    return canonical(entry, "entry").decode()

"""Rules decide about calls, and say which rule nearly held."""

from __future__ import annotations

from datetime import UTC, datetime

from agentic_kernel_guard.rules import Asked, RuleError, parse, read

# --8<-- [start:rules]
RULES = """
version: 1
rules:
  - name: purge
    priority: 10
    effect: deny
    match: {capability: "mail/purge*"}
  - name: large
    priority: 20
    effect: require_approval
    match: {capability: "pay/*"}
    arguments: {amount: {min: 100}}
    approval: {approvers: [ann], timeout_seconds: 3600}
  - name: small
    priority: 30
    effect: allow
    match: {capability: ["pay/*", "mail/send"], role: clerk}
    when: {days: [mon, tue, wed, thu, fri], hours: "08:00-18:00", timezone: Europe/Berlin}
    limit: {calls: 100, seconds: 3600, per: principal}
"""


def main() -> None:
    rules = parse(RULES)
    noon = datetime(2026, 3, 2, 12, tzinfo=UTC)
    for amount in (7, 700, "700"):
        asked = Asked("pay/invoice", {"amount": amount}, noon, roles=frozenset({"clerk"}))
        print(amount, rules.decide(asked).effect, rules.decide(asked).reason)
    night = Asked("pay/invoice", {"amount": 7}, noon.replace(hour=22), roles=frozenset({"clerk"}))
    print(rules.decide(night).effect, [near.failed for near in rules.near(night)])
    try:
        parse("version: 1\nrules:\n  - {name: no}")
    except RuleError as error:
        print(error)
    print(read("rules: [").decide(night).effect)
    # --8<-- [end:rules]


if __name__ == "__main__":
    main()

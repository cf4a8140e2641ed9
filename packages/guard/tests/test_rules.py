"""The decisions of rules, and the refusals of rule files."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from agentic_kernel_guard.rules import Asked, RuleError, RuleSet, cases, parse, read

MONDAY = datetime(2026, 3, 2, 10, 30, tzinfo=UTC)

HEAD = "version: 1\nrules:\n"
MAILS = (
    HEAD
    + """
  - {name: purge, priority: 1, effect: deny, match: {capability: "mail/purge*"}}
  - name: large
    priority: 2
    effect: require_approval
    match: {capability: ["mail/*", "post/send"], safety: write}
    arguments: {amount: {min: 100}}
    approval: {approvers: [ann], timeout_seconds: 60}
  - name: ours
    priority: 3
    effect: allow
    match: {capability: "mail/*"}
    arguments: {to: {regex: ".*@acme[.]com", max_len: 20}}
"""
)


def asked(capability: str = "mail/send", /, **rest: Any) -> Asked:
    given = {"arguments": {"to": "a@acme.com"}, "at": MONDAY, "safety": "write", **rest}
    return Asked(capability, **given)


def one(extra: str, effect: str = "allow") -> RuleSet:
    return parse(f"{HEAD}  - {{name: one, priority: 1, effect: {effect}, {extra}}}\n")


def test_the_first_rule_that_holds_decides() -> None:
    rules = parse(MAILS)
    assert rules.decide(asked("mail/purge all")).effect == "deny"
    large = rules.decide(asked(arguments={"to": "a@acme.com", "amount": 100}))
    assert (large.effect, large.approval.approvers, large.approval.timeout) == (
        "require_approval",
        ("ann",),
        60,
    )
    assert (rules.decide(asked()).effect, rules.decide(asked()).rule) == ("allow", "ours")


@pytest.mark.parametrize(
    ("capability", "arguments"),
    [
        ("post/read", {}),
        ("mail/send", {}),
        ("mail/send", {"to": "a@evil.com"}),
        ("mail/send", {"to": "a@acme.com\n@evil.com"}),
        ("mail/send", {"to": "a@acme.com", "amount": "100"}),
        ("mail/send", {"to": "a@acme.com", "amount": float("nan")}),
        ("mail/send", {"to": "a@acme.com", "amount": True}),
        ("mail/send", {"to": ["a@acme.com"]}),
        ("mail/send", {"to": "\ud800@acme.com"}),
        ("mail/\ud800", {"to": "a@acme.com"}),
        ("Mail/send", {"to": "a@acme.com"}),
    ],
)
def test_what_no_rule_allows_is_denied(capability: str, arguments: dict[str, Any]) -> None:
    assert parse(MAILS).decide(asked(capability, arguments=arguments)).effect == "deny"


def test_rules_that_failed_on_one_thing_only_are_named() -> None:
    near = parse(MAILS).near(asked(arguments={"to": "a@acme.com", "amount": 7}))
    assert [(each.rule, each.failed) for each in near] == [("large", "arguments.amount.min")]


@pytest.mark.parametrize(
    ("test", "good", "bad"),
    [
        ("equals: 1", 1, True),
        ("equals: {a: [true]}", {"a": [True]}, {"a": [1]}),
        ("one_of: [a, 2]", 2, "b"),
        ("contains: b", ["b"], "acd"),
        ("max: 2.5", 2.5, 2.6),
        ("max_len: 1", [1], [1, 2]),
        ("required: true", None, ...),
    ],
)
def test_a_predicate_holds_for_what_it_says(test: str, good: Any, bad: Any) -> None:
    rules = one(f"match: {{capability: '*'}}, arguments: {{x: {{{test}}}}}")
    assert rules.decide(asked(arguments={"x": good})).effect == "allow"
    assert rules.decide(asked(arguments={} if bad is ... else {"x": bad})).effect == "deny"


def test_a_pointer_names_a_part_of_an_argument() -> None:
    rules = one("match: {capability: '*'}, arguments: {/m/0/a~1b: {equals: 1}}")
    assert rules.decide(asked(arguments={"m": [{"a/b": 1}]})).effect == "allow"
    assert rules.decide(asked(arguments={"m": [{"a/b": 2}]})).effect == "deny"


@pytest.mark.parametrize(
    ("when", "at", "held"),
    [
        ("hours: '09:00-17:00', days: [mon]", MONDAY, True),
        ("hours: '09:00-17:00', days: [tue]", MONDAY, False),
        ("hours: '22:00-11:00', days: [sun]", MONDAY, True),
        ("hours: '22:00-10:30', days: [sun]", MONDAY, False),
        ("hours: '19:00-20:00', timezone: Asia/Tokyo", MONDAY, True),
        ("days: [mon]", MONDAY, True),
    ],
)
def test_a_window_holds_in_its_hours(when: str, at: datetime, held: bool) -> None:
    rules = one(f"match: {{capability: '*'}}, when: {{{when}}}")
    assert (rules.decide(asked(at=at)).effect == "allow") is held


@pytest.mark.parametrize("effect", ["allow", "deny"])
def test_a_time_without_a_zone_is_in_no_window_and_denied(effect: str) -> None:
    rules = one("match: {capability: '*'}, when: {days: [mon]}", effect)
    decided = rules.decide(asked(at=MONDAY.replace(tzinfo=None)))
    assert decided.effect == "deny"
    assert "has no time zone; use datetime.now(UTC)" in decided.reason


def test_counts_labels_and_roles_are_looked_at() -> None:
    rules = one(
        "match: {role: 'op*', labels: {env: prod}}, when: {min_step_count: 2, min_duration_ms: 5}"
    )
    full = {"roles": frozenset({"ops"}), "labels": {"env": "prod"}}
    assert rules.decide(asked(**full, step_count=2, duration_ms=5)).effect == "allow"
    assert rules.decide(asked(**full, step_count=1, duration_ms=5)).effect == "deny"
    assert rules.decide(asked(labels={}, step_count=2, duration_ms=5)).effect == "deny"


class Counted:
    def __init__(self, calls: int) -> None:
        self.calls = calls
        self.counters: list[str] = []

    async def count(self, counter: str, seconds: float) -> int:
        self.counters.append(counter)
        return self.calls


async def test_a_limit_that_is_used_up_denies() -> None:
    rules = one("match: {capability: '*'}, limit: {calls: 2, seconds: 60, per: principal}")
    verdict = rules.decide(asked(principal="ann", tenant="acme"))
    assert (await verdict.within(Counted(1))).effect == "allow"
    used = Counted(2)
    assert "2 calls in 60 s" in (await verdict.within(used)).reason
    other = rules.decide(asked(principal="ann", tenant="other"))
    assert other.counter != used.counters[0]


RULE = "name: a, priority: 1, effect: allow, match: {capability: x}"


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("", (1, 1), "empty"),
        ("version: 1\nrules: []", (2, 8), "at least one"),
        ("version: 2\nrules: [1]", (1, 10), "version is 1"),
        ("version: 1\nrules: [{name: no}]", (2, 16), "quotes"),
        (f"version: 1\nrules: [{{{RULE}, x: 010}}]", (2, 74), "quotes"),
        (f"version: 1\nversion: 1\nrules: [{{{RULE}}}]", (2, 1), "twice"),
        (f"version: 1\nrules: [{{{RULE}}}, {{{RULE}}}]", (2, 72), "too"),
        (f"version: 1\nrules: [{{{RULE}}}, {{name: b{RULE[7:]}}}]", (2, 72), "same priority"),
        ("version: 1\nrules: &a [*a]", (2, 8), "anchor"),
        ("version: !!python/object:os.system 1", (1, 10), "tag"),
        ("version: 1\n---\nversion: 1", (2, 1), "second document"),
        (f"version: 1\nrules: [{{{RULE}, arguments: {{a: {{}}}}}}]", (2, 86), "give tests"),
        (f"version: 1\nrules: [{{{RULE}, arguments: {{}}}}]", (2, 82), "at least one"),
        (f"version: 1\nrules: [{{{RULE[:-1]}, extra: 1}}}}]", (2, 77), "has no"),
        ("version: 1\nrules: [{name: a, priority: 1, effect: allow, match: {}}]", (2, 54), "empty"),
        (
            f"version: 1\nrules: [{{{RULE}, arguments: {{a: {{regex: '(?=a)'}}}}}}]",
            (2, 94),
            "RE2",
        ),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_its_place_and_denies(
    text: str, place: tuple[int, int], says: str
) -> None:
    with pytest.raises(RuleError, match=says) as refused:
        parse(text)
    assert says in refused.value.problem
    assert (refused.value.line, refused.value.column) == place
    assert read(text).decide(asked()).effect == "deny"
    assert "cannot be used" in read(text).decide(asked()).reason


@pytest.mark.parametrize("opening", ["[", "- ", "{a: "])
@pytest.mark.parametrize("depth", [30, 5_000])
def test_a_file_that_is_nested_too_deep_is_refused(opening: str, depth: int) -> None:
    """The column depends on the version of PyYAML, which may be the first to give up."""
    with pytest.raises(RuleError, match="is nested deeper than 12; flatten it") as refused:
        parse(f"version: 1\nrules:\n  {opening * depth}")
    assert refused.value.line == 3


TOML = """
version = 1
[[rules]]
name = "first"
priority = 1
effect = "deny"
reason = '''
[[rules]]
priority = 3
'''
match = { capability = "mail/purge" }

[[rules]]
name = "second"
priority = %s
effect = "allow"
[rules.match]
capability = [
  "mail/*",
]
[rules.arguments]
to = { equals = "a@acme.com" }
"""


def test_toml_says_the_same_with_its_places() -> None:
    rules = parse(TOML % 2, "toml")
    assert [rules.decide(asked(name)).effect for name in ("mail/purge", "mail/send")] == [
        "deny",
        "allow",
    ]
    with pytest.raises(RuleError, match="whole number") as refused:
        parse(TOML % '"x"', "toml")
    assert (refused.value.line, refused.value.column) == (15, 1)
    for bad in ("x = [" * 50_000, "a = 1\na = 2", "x = 2020-01-01", "="):
        assert read(bad, "toml").error is not None


def test_the_rules_of_other_capabilities_are_not_looked_at() -> None:
    rules = parse(
        HEAD
        + "".join(
            f"  - {{name: r{n}, priority: {n}, effect: allow, match: {{capability: "
            f"{'mail/send' if n % 50 == 0 else f'x/c{n}'}, agent: a}}}}\n"
            for n in range(1, 1_001)
        )
    )
    assert len(rules._named("mail/send")) == 20
    assert rules.decide(asked(agent="a")).rule == "r50"


def test_tests_beside_the_rules_say_what_fails() -> None:
    text = (
        MAILS
        + """
tests:
  - {name: purges, capability: mail/purge, expect: deny, rule: purge}
  - {name: large, capability: mail/send, safety: write, arguments: {amount: 100}, expect: allow}
  - {name: other, capability: mail/purge, expect: deny, rule: ours}
"""
    )
    failed = [case.failed(parse(text)) for case in cases(text)]
    assert failed[0] is None
    assert [each and each.rule for each in failed[1:]] == ["large", "purge"]
    assert cases(MAILS) == ()
    for wrong in ("x: 1", "roles: [1]", "at: '2026-01-05'", "labels: {a: 1}", "arguments: 1"):
        with pytest.raises(RuleError):
            cases(f"{MAILS}\ntests: [{{name: a, capability: b, expect: deny, {wrong}}}]")


@pytest.mark.parametrize(
    "approvers",
    ['["ann "]', '["a\\u200bnn"]', '["\\uff41nn"]', '["\\u0430nn"]', "[ann, Ann]", '["\\0"]'],
)
def test_approvers_whose_names_could_be_taken_for_others_are_refused(approvers: str) -> None:
    with pytest.raises(RuleError, match=r"approver|look alike"):
        parse(
            "version: 1\nrules: [{name: a, priority: 1, effect: require_approval, "
            f'match: {{capability: "*"}}, approval: {{approvers: {approvers}}}}}]'
        )

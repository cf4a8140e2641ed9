"""The arithmetic of one budget for a family: shares, cuts, raises and settled accounts (R18)."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import pytest

from agentic_kernel import InvalidValue, Kill, Task, apply
from agentic_kernel_engine.plans.accounts import (
    MOST_ADOPTED,
    Account,
    Grant,
    Shares,
    account_of,
    follow,
    regrant,
    settle,
)
from agentic_kernel_engine.plans.budget import (
    NONE_USED,
    UNLIMITED,
    Amounts,
    granted_to,
    lacking,
    minus,
    plus,
    share,
    shared,
    used_by,
    within,
    without,
)
from agentic_kernel_engine.plans.limits import BACKSTOP, Limits, Spent
from agentic_kernel_engine.plans.plan import Usage
from agentic_kernel_engine.record import FENCED, Record

pytestmark = pytest.mark.rule("R18")


def test_a_share_is_an_equal_part_and_at_least_one_while_one_is_left() -> None:
    left = Amounts(iterations=7, tool_calls=1, input_tokens=0, total_tokens=-3, cost=1.0)
    got = share(left, 4)
    assert got == Amounts(iterations=1, tool_calls=1, input_tokens=0, total_tokens=0, cost=0.25)
    assert share(UNLIMITED, 4) == UNLIMITED


def test_a_grant_without_tool_calls_is_enough_and_one_without_tokens_is_not() -> None:
    assert lacking(Amounts(iterations=1, tool_calls=0, cost=0.1)) == ""
    assert lacking(Amounts(iterations=1, output_tokens=0)) == "max_output_tokens"
    assert lacking(Amounts(cost=0.0)) == "max_cost"


def test_the_backstop_is_shared_only_if_a_grant_gives_it() -> None:
    assert shared(Limits(), None) == UNLIMITED
    assert shared(Limits(max_iterations=5), None) == Amounts(iterations=5)
    granted = Amounts(iterations=BACKSTOP + 1)
    capped = within(Limits(), granted)
    assert shared(capped, granted) == Amounts(iterations=BACKSTOP)


def test_limits_are_within_a_grant_and_without_what_children_hold() -> None:
    limits = Limits(max_cost=5.0, max_tool_calls=None, max_iterations=9, max_seconds=30)
    capped = within(limits, Amounts(cost=9.0, tool_calls=3), 10.0)
    assert (capped.max_cost, capped.max_tool_calls) == (5.0, 3)
    assert (capped.max_iterations, capped.max_seconds) == (9, 10.0)
    rest = without(capped, shared(capped, None), Amounts(iterations=4, tool_calls=5, cost=1.5))
    assert (rest.max_cost, rest.max_tool_calls, rest.max_iterations) == (3.5, 0, 5)
    assert limits.max_cost == 5.0, "the given limits stay as they are"


WRONG: list[Any] = [
    [], {"bananas": 1}, {"cost": -1}, {"cost": "1"}, {"cost": float("nan")}, {"iterations": 1.0},
    {"iterations": True}, {"seconds": -1}, {"cost": 10**13},
]  # fmt: skip


@pytest.mark.parametrize("grant", WRONG, ids=map(str, WRONG))
def test_a_grant_that_is_none_is_refused(grant: Any) -> None:
    with pytest.raises(InvalidValue, match="grant"):
        granted_to(grant)


def test_a_grant_is_read_back_with_its_seconds() -> None:
    assert granted_to({"cost": 1.0, "seconds": 2.0}) == (Amounts(cost=1.0), 2.0)
    assert granted_to({"seconds": 2.0}) == (None, 2.0)
    assert granted_to(None) == (None, None)


def test_a_raise_is_divided_among_the_children_and_the_task() -> None:
    shares = Shares({"a": Grant(Amounts(cost=2.0)), "b": Grant(Amounts(cost=4.0))})
    assert regrant(shares, Amounts(cost=8.0), Amounts(cost=11.0), Amounts(cost=1.0))
    assert [each.amounts.cost for each in shares.grants.values()] == [3.0, 5.0]
    assert [each.seq for each in shares.grants.values()] == [1, 1]


def test_a_cut_is_told_and_counts_in_full_until_the_child_has_heard_of_it() -> None:
    shares = Shares({"a": Grant(Amounts(cost=6.0))})
    assert regrant(shares, Amounts(cost=8.0), Amounts(cost=3.0), Amounts(cost=1.0))
    grant = shares.grants["a"]
    assert (grant.amounts.cost, grant.cap.cost, grant.seq) == (6.0, 1.0, 1), (
        "half of what is left is the Task's own"
    )
    late = Account(Amounts(cost=1.0), {}, False, heard=0)
    assert not follow(grant, late)
    over = Account(Amounts(cost=2.5), {"c": Grant(Amounts(cost=0.5))}, False, heard=1)
    assert follow(grant, over)
    assert grant.amounts.cost == 3.0, "what it has spent and granted already stays counted"
    assert follow(grant, Account(Amounts(cost=1.0), {}, False, heard=1))
    assert (grant.amounts.cost, grant.told) == (1.0, None)


def test_a_cut_that_fits_is_told_to_nobody() -> None:
    shares = Shares({"a": Grant(Amounts(cost=2.0))})
    assert not regrant(shares, Amounts(cost=8.0), Amounts(cost=5.0), Amounts(cost=1.0))
    assert shares.grants["a"].seq == 0


def test_random_changes_keep_the_sum_within_the_limits() -> None:
    chance = random.Random(7)
    for _ in range(2_000):
        limit, own = chance.randint(10, 100), chance.randint(0, 9)
        grants = {str(n): Grant(Amounts(iterations=0)) for n in range(chance.randint(1, 5))}
        shares = Shares(grants)
        for grant in grants.values():
            left = limit - own - (shares.taken.iterations or 0)
            grant.amounts = Amounts(iterations=chance.randint(0, max(left, 0)))
        for _ in range(4):
            after, before = chance.randint(1, 150), shares.taken
            regrant(shares, Amounts(iterations=limit), Amounts(iterations=after), Amounts(own))
            taken = shares.taken.iterations or 0
            assert taken + own <= after or taken <= (before.iterations or 0)
            told = sum(grant.cap.iterations or 0 for grant in grants.values())
            assert told + own <= after or after < own or told <= (before.iterations or 0)
            limit = after


def test_a_settled_child_counts_what_it_used_and_leaves_its_grants() -> None:
    left = {"grandchild": Grant(Amounts(cost=1.0), via="x", away=True)}
    shares = Shares({"child": Grant(Amounts(cost=5.0), via="tool")})
    used = settle(shares, "child", Account(Amounts(cost=2.0), left, True))
    assert used.cost == 2.0
    assert shares.used.cost == 2.0
    adopted = shares.grants["grandchild"]
    assert (adopted.via, adopted.away, adopted.adopted) == ("tool", True, True)
    assert settle(shares, "grandchild", None).cost == 1.0, "the whole grant, if nothing is known"
    assert (shares.used.cost, shares.grants) == (3.0, {})


def test_more_open_grants_than_are_kept_count_as_used() -> None:
    left = {str(n): Grant(Amounts(iterations=1)) for n in range(MOST_ADOPTED + 5)}
    shares = Shares({"child": Grant(Amounts(iterations=1_000))})
    settle(shares, "child", Account(NONE_USED, left, True))
    assert len(shares.grants) == MOST_ADOPTED
    assert shares.taken.iterations == MOST_ADOPTED + 5


def test_the_account_of_a_task_that_was_ended_from_outside_is_its_last_state() -> None:
    now = datetime.now(UTC)
    task = apply(Task.new(summary="", instructions="", runtime_kind="x"), Kill(), now)
    for state, spent in (
        (None, 0), (FENCED, 0), (b'{"spent":{"iterations":3}}', 3),
        (b'{"spent":{"iterations":3},"reserved":{"cost":1.0}}', 4),
        (b'{"spent":{"iterations":3},"shares":{"used":{"iterations":5}}}', 8),
    ):  # fmt: skip
        account = account_of(Record(task, state=state))
        assert (account.spent.iterations, account.known, account.ended) == (spent, True, True)
        assert account.begun == 0, "no tool call was prepared"
    for state in (b"{}", b"[]", b'{"spent":3}', b'{"spent":{},"shares":{"blind":true}}'):
        assert not account_of(Record(task, state=state)).known


def test_prepared_calls_count_as_far_as_the_grant_left_room() -> None:
    account = Account(Amounts(tool_calls=2), {}, True, begun=5)
    assert account.begun_within(4).tool_calls == 2
    assert account.begun_within(None).tool_calls == 5
    assert account.begun_within(1).tool_calls == 0


def test_what_has_no_limit_is_not_added_up() -> None:
    assert plus(Amounts(cost=1.0), UNLIMITED) == Amounts(0, 0, 0, 0, 0, 1.0)
    assert minus(UNLIMITED, Amounts(cost=1.0)) == UNLIMITED


def test_a_call_that_may_be_under_way_counts_with_its_reservation() -> None:
    spent = Spent(iterations=2, tool_calls=3, input_tokens=10, output_tokens=4, cost=1.0)
    assert used_by(spent) == Amounts(2, 3, 10, 4, 14, 1.0)
    reserved = Usage(input_tokens=5, output_tokens=1, cost=0.5)
    assert used_by(spent, reserved) == Amounts(3, 3, 15, 5, 20, 1.5)

"""What a store on Postgres has to hold beyond the contract of every store, check by check.

Each is a function of a `Bench`: it returns if the store holds, and says what it found if not. The
same functions gate `PostgresStore` and catch the faulty stores.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from ..bench import Bench
from . import few_connections, leases, lost_answers, races, restarts, upgrades


class Check(NamedTuple):
    """One check, and the special part of the kit that it belongs to."""

    holds: Callable[[Bench], Awaitable[None]]
    part: str
    rule: str = ""
    """The rule of the port that it is about, if it is about one."""
    slow: bool = False


_RESTART: Final = "the postmaster killed and restarted"
_LOST: Final = "a connection dropped before COMMIT and after it"
_POOL: Final = "the pool exhausted"
_CLOCK: Final = "a clock an hour off on one worker"
_LEASE: Final = "leases that run out"
_UPGRADE: Final = "two schema versions side by side"
_RACE: Final = "two writers, and lost news"

_ALL: Final = (
    Check(restarts.a_restart_is_a_delay_and_loses_nothing, _RESTART, "R5", slow=True),
    Check(lost_answers.each_kind_of_write_lands_once, _LOST, "R5"),
    Check(lost_answers.a_late_write_that_nobody_repeats_never_lands, _LOST, "R5"),
    Check(few_connections.one_connection_is_enough, _POOL),
    Check(few_connections.an_exhausted_pool_is_a_typed_error, _POOL),
    Check(few_connections.callers_who_give_up_leave_the_pool_as_it_was, _POOL),
    Check(leases.a_clock_an_hour_off_plays_no_part, _CLOCK, "R14", slow=True),
    Check(leases.a_lease_ends_with_its_process, _LEASE, "R14"),
    Check(leases.a_lease_that_ran_out_is_not_renewed, _LEASE, "R14"),
    Check(leases.a_zombie_writes_nothing, _LEASE, "R14"),
    Check(upgrades.stores_that_open_at_once_make_the_schema_once, _UPGRADE),
    Check(upgrades.two_versions_work_side_by_side, _UPGRADE),
    Check(upgrades.a_schema_that_left_this_version_behind_is_refused, _UPGRADE),
    Check(races.of_two_writers_of_one_version_one_lands, _RACE, "R1"),
    Check(races.what_no_news_came_of_is_noticed_all_the_same, _RACE, "R8"),
)
CHECKS: Final = {check.holds.__name__: check for check in _ALL}

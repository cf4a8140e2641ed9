"""The faulty stores, each with the check that catches it and a word of what that check says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from agentic_kernel_postgres import PostgresStore
from agentic_kernel_postgres.schema import Migration

from . import faulty_stores
from .bench import NEXT
from .checks import CHECKS, Check

RENAMES: Final = Migration(
    NEXT.version,
    1,
    """DO $$ BEGIN ALTER TABLE @schema@.heads RENAME COLUMN head TO body;
    EXCEPTION WHEN undefined_column THEN NULL; END $$;""",
)
"""Renames a column, and with it what the version before reads."""
REPLACES: Final = Migration(
    NEXT.version,
    1,
    """DROP FUNCTION IF EXISTS @schema@.step_2;
    CREATE OR REPLACE FUNCTION @schema@.step_2(_id text) RETURNS boolean LANGUAGE sql AS
    $$ SELECT true $$;""",
)
"""Gives a function other parameters under the name that the version before calls."""


class Fault(NamedTuple):
    """A mistake, the check that catches it, and a word of what that check says."""

    check: Check
    says: str
    kind: type[PostgresStore] = PostgresStore
    later: Migration = NEXT
    mistake: str = ""
    slow: bool = False
    """Whether it takes seconds to be caught."""

    @property
    def story(self) -> str:
        """The mistake in a line."""
        return self.mistake or (self.kind.__doc__ or "").partition("\n")[0]


def _fault(
    check: str, says: str, kind: type[PostgresStore] = PostgresStore, **others: Any
) -> Fault:
    return Fault(CHECKS[check], says, kind, **others)


_LOST: Final = "each_kind_of_write_lands_once"
_UPGRADE: Final = "two_versions_work_side_by_side"
_CLOCK: Final = "a_clock_an_hour_off_plays_no_part"
_RESTART: Final = "a_restart_is_a_delay_and_loses_nothing"
_AT_ONCE: Final = "stores_that_open_at_once_make_the_schema_once"
_RACE: Final = "of_two_writers_of_one_version_one_lands"

FAULTS: Final[Mapping[str, Fault]] = {
    "CommitsUnflushed": _fault(
        _RESTART, "Conflict|TaskNotFound|is lost", faulty_stores.CommitsUnflushed, slow=True
    ),
    "LeasesUnlogged": _fault(_RESTART, "made a living host dead", faulty_stores.LeasesUnlogged),
    "FailsWhileDown": _fault(
        _RESTART, "StoreError|UnknownOutcome", faulty_stores.FailsWhileDown, slow=True
    ),
    "BlindRetry": _fault(_LOST, "TaskExists", faulty_stores.BlindRetry),
    "LostIsDone": _fault(_LOST, "TaskNotFound", faulty_stores.LostIsDone),
    "LostIsFailed": _fault(_LOST, "the write failed", faulty_stores.LostIsFailed),
    "RetryOnTop": _fault(_LOST, "lost AFTER: claimed as", faulty_stores.RetryOnTop),
    "LooksTooEarly": _fault(
        "a_late_write_that_nobody_repeats_never_lands",
        "a late write landed",
        faulty_stores.LooksTooEarly,
    ),
    "HoldsAndWaits": _fault(
        "one_connection_is_enough",
        "no connection became free",
        faulty_stores.HoldsAndWaits,
        slow=True,
    ),
    "WaitsForEver": _fault(
        "an_exhausted_pool_is_a_typed_error", "nothing for", faulty_stores.WaitsForEver, slow=True
    ),
    "LandsAfterAll": _fault(
        "an_exhausted_pool_is_a_typed_error", "landed later", faulty_stores.LandsAfterAll
    ),
    "LeaksConnections": _fault(
        "callers_who_give_up_leave_the_pool_as_it_was",
        "no connection",
        faulty_stores.LeaksConnections,
        slow=True,
    ),
    "WorkersClock": _fault(
        _CLOCK,
        "slow (works, and is taken for dead|cannot begin)",
        faulty_stores.WorkersClock,
        slow=True,
    ),
    "JudgesByItsClock": _fault(
        _CLOCK, "by a worker whose clock is off", faulty_stores.JudgesByItsClock, slow=True
    ),
    "EternalLease": _fault(
        "a_lease_ends_with_its_process", "after its end", faulty_stores.EternalLease, slow=True
    ),
    "RenewsTheDead": _fault(
        "a_lease_that_ran_out_is_not_renewed", "was renewed", faulty_stores.RenewsTheDead
    ),
    "WritesAreHeartbeats": _fault(
        "a_zombie_writes_nothing", "a zombie may", faulty_stores.WritesAreHeartbeats
    ),
    "MigratesWithoutLock": _fault(_AT_ONCE, "did not open", faulty_stores.MigratesWithoutLock),
    "LooksBeforeTheLock": _fault(_AT_ONCE, "did not open", faulty_stores.LooksBeforeTheLock),
    "OpensAnything": _fault(
        "a_schema_that_left_this_version_behind_is_refused",
        "left it behind",
        faulty_stores.OpensAnything,
    ),
    "ReadsWhateverThereIs": _fault(
        _UPGRADE, "must not change result type", faulty_stores.ReadsWhateverThereIs
    ),
    "RenamesAColumn": _fault(
        _UPGRADE,
        "does not exist",
        later=RENAMES,
        mistake="Renames a column that the version before reads.",
    ),
    "ReplacesAFunction": _fault(
        _UPGRADE,
        "does not exist",
        later=REPLACES,
        mistake="Gives a function other parameters under the name that the version before calls.",
    ),
    "UpdatesWithoutVersion": _fault(
        _RACE, "2 of two writes landed", faulty_stores.UpdatesWithoutVersion
    ),
    "SelectsThenUpdates": _fault(_RACE, "2 of two writes landed", faulty_stores.SelectsThenUpdates),
    "NewsAlone": _fault(
        "what_no_news_came_of_is_noticed_all_the_same",
        "went unnoticed",
        faulty_stores.NewsAlone,
        slow=True,
    ),
}

"""Random families under one budget (R18); and broken protocols that the trees must find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from agentic_kernel_engine.loop import budget_grants, ledger
from agentic_kernel_engine.plans import accounts
from agentic_kernel_engine.plans.budget import used_by

from .family_trees import play

pytestmark = pytest.mark.rule("R18")


async def test_sixty_trees_never_pass_their_roots_limits() -> None:
    counts = await play(range(60))
    assert counts["trees"] == 60
    # How often each happens depends on the machine's pace.
    for what in (
        "kills",
        "crashes",
        "zombies",
        "zombie inserts",
        "raises",
        "cuts",
        "all came back",
    ):
        assert counts[what] > 0, f"the trees do not try {what}: {counts}"


@pytest.mark.torture
@pytest.mark.timeout(7200)
async def test_ten_thousand_trees_never_pass_their_roots_limits() -> None:
    counts = await play(range(200, 10_200))
    assert counts["trees"] == 10_000


def _without_adoption(patch: pytest.MonkeyPatch) -> None:
    honest = accounts.settle

    def settle(shares: Any, child: str, account: Any) -> Any:
        if account is not None:
            account = msgspec.structs.replace(account, grants={})
        return honest(shares, child, account)

    patch.setattr(budget_grants, "settle", settle)


def _with_cuts_booked_at_once(patch: pytest.MonkeyPatch) -> None:
    honest = accounts.regrant

    def regrant(shares: accounts.Shares, *given: Any) -> bool:
        told = honest(shares, *given)
        for grant in shares.grants.values():
            if grant.told is not None:
                grant.amounts, grant.told = grant.told, None
        return told

    patch.setattr(ledger, "regrant", regrant)


def _without_reservations_of_killed_children(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(accounts, "used_by", lambda spent, _: used_by(spent))


@pytest.mark.torture
@pytest.mark.parametrize(
    "sabotage",
    [_without_adoption, _with_cuts_booked_at_once, _without_reservations_of_killed_children],
)
async def test_a_broken_protocol_is_found(
    sabotage: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    sabotage(monkeypatch)
    found: list[int] = []
    await play(range(200), lambda seed, _: found.append(seed))
    assert len(found) >= 2

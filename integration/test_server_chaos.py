"""Server processes, agents, runners and the database that are killed at random, under load."""

from __future__ import annotations

from pathlib import Path

import pytest

from .server_chaos import chaos

pytestmark = [pytest.mark.torture, pytest.mark.timeout(0)]
SHARE = 0.5
"""The part of ``--conformance-minutes`` that each store gets."""


@pytest.mark.parametrize("store", ["files", "postgres"])
async def test_kills_lose_nothing_repeat_no_effect_and_leave_nothing_stuck(
    store: str, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    minutes = pytestconfig.getoption("--conformance-minutes") or 2.0
    seed = pytestconfig.getoption("--conformance-seed") or 0
    place = f"file:{tmp_path / 'state'}" if store == "files" else store
    report = await chaos(place, SHARE * minutes, seed)
    print(report.text())
    assert report.good, report.text()
    assert report.kills["server"] > 3
    assert report.ends["completed"] > 0
    assert report.effects >= 2 * report.ends["completed"]
    assert report.histories > 10

"""Server processes, agents and runners that are killed at random, under load."""

from __future__ import annotations

import pytest

from .postgres_server import schema as schema
from .postgres_server import server as server
from .server_chaos import Chaos
from .test_server import place as place

pytestmark = [pytest.mark.torture, pytest.mark.timeout(400)]
SECONDS = 60.0


@pytest.mark.parametrize("seed", [1, 2])
async def test_kills_lose_nothing_repeat_no_effect_and_leave_nothing_stuck(
    place: str, seed: int
) -> None:
    report = await Chaos(place, seed).run(SECONDS)
    assert report.good, report.text()
    assert report.kills["server"] > 3
    assert report.ends["completed"] > report.created / 2

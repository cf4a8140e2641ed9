"""The usage of a failed call: nothing if it was refused, what was counted, or not known."""

from __future__ import annotations

import pytest

from agentic_kernel_engine.loop import NOTHING_USED, Usage
from integration.peers.faulty import FaultyServer

from .asking import failure, planning, seen
from .test_faults import failed

USED = {
    "status_400": NOTHING_USED,
    "status_401": NOTHING_USED,
    "model_not_found": NOTHING_USED,
    "rate_limit": NOTHING_USED,
    "status_500": None,
    "status_503": None,
    "closed": None,
    "cut": None,
    "breaks": None,
    "ends_early": None,
    "not_json": None,
    "cut_in_text": Usage(7, 3),
    "empty_answer": Usage(7, 3),
}
"""By fault."""


@pytest.mark.parametrize("fault", USED)
async def test_a_failed_call_tells_its_usage(fault: str) -> None:
    with FaultyServer(fault) as server:
        assert (await failed(server)).usage == USED[fault]


async def test_a_server_that_is_not_there_used_nothing() -> None:
    async with planning("http://127.0.0.1:9") as planner:
        error = await failure(planner, seen())
    assert (error.code, error.usage) == ("ollama/connection", NOTHING_USED)

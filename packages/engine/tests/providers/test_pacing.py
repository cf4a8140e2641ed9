"""A request waits for a rate limit that the last response told, and never for long."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentic_kernel_engine.providers import pacing
from agentic_kernel_engine.providers.pacing import Pace

NOW = datetime(2026, 11, 26, tzinfo=UTC)


def openai(kind: str, limit: Any, left: Any, reset: str) -> dict[str, str]:
    parts = {"limit": limit, "remaining": left, "reset": reset}
    return {f"x-ratelimit-{name}-{kind}": str(value) for name, value in parts.items()}


def anthropic(kind: str, limit: int, left: int, seconds: float) -> dict[str, str]:
    reset = (NOW + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")
    parts = {"limit": limit, "remaining": left, "reset": reset}
    return {f"anthropic-ratelimit-{kind}-{name}": str(value) for name, value in parts.items()}


def wanted(pace: Pace, tokens: int = 1) -> float:
    """The seconds until a request may be sent, to a hundredth."""
    now = asyncio.get_running_loop().time()
    limits = pace._limits.items()
    return round(
        max(
            (each.wait(1 if kind == "requests" else tokens, now) for kind, each in limits),
            default=0,
        ),
        2,
    )


@pytest.mark.parametrize(
    ("headers", "tokens", "seconds"),
    [
        ({}, 1, 0),
        (openai("requests", 60, 59, "1s"), 1, 0),
        (openai("requests", 60, 0, "60s"), 1, 1),
        (openai("requests", 60, 0, "1m0s"), 1, 1),
        (openai("requests", 10, 0, "500ms"), 1, 0.05),
        (openai("tokens", 1_000, 400, "6s"), 400, 0),
        (openai("tokens", 1_000, 400, "6s"), 500, 1),
        (openai("tokens", 100, 0, "1h0m0s"), 100, 3_600),
        (anthropic("requests", 50, 0, 60), 1, 1.2),
        (anthropic("tokens", 1_000, 0, 10), 500, 5),
        (anthropic("input-tokens", 1_000, 0, 10), 500, 5),
        (anthropic("requests", 50, 0, -60), 1, 0),
    ],
    ids=str,
)
async def test_the_wait_is_until_the_limit_has_room(
    headers: dict[str, str], tokens: int, seconds: float
) -> None:
    pace = Pace(lambda: NOW)
    pace.note(headers)
    assert wanted(pace, tokens) == pytest.approx(seconds, abs=0.02)


@pytest.mark.parametrize("reset", ["", "soon", "-1s", "1e9s", "9" * 30 + "s", "0s", "2026-13-01"])
@pytest.mark.parametrize(
    ("limit", "left"), [(60, 0), ("many", 0), (60, "-1"), ("9" * 30, 0), ("", ""), (60, "²")]
)
async def test_what_cannot_be_read_is_ignored(reset: str, limit: Any, left: Any) -> None:
    pace = Pace(lambda: NOW)
    pace.note(openai("requests", limit, left, reset))
    assert wanted(pace) == 0


async def test_a_later_response_replaces_an_earlier_one() -> None:
    pace = Pace()
    pace.note(openai("requests", 60, 0, "60s"))
    pace.note({})
    assert wanted(pace) == 1
    pace.note(openai("requests", 60, 60, "1s"))
    assert wanted(pace) == 0


async def test_requests_at_once_share_the_room() -> None:
    pace = Pace()
    pace.note(openai("requests", 10, 2, "800ms"))  # One comes back each 100 ms.
    started, sent = asyncio.get_running_loop().time(), []

    async def one() -> None:
        async for _ in pace.turn(1):
            pass
        sent.append(round(asyncio.get_running_loop().time() - started, 1))

    await asyncio.gather(*(one() for _ in range(4)))
    assert sorted(sent)[:2] == [0, 0]
    assert sorted(sent)[2] >= 0.1
    assert sorted(sent)[3] >= 0.2


async def test_a_wait_that_is_too_long_is_left_to_the_server() -> None:
    pace = Pace()
    pace.note(openai("requests", 1, 0, "1h0m0s"))
    assert [look async for look in pace.turn(1)] == []


async def test_a_waiting_call_gives_signs_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "LOOK", 0.01)
    pace = Pace()
    pace.note(openai("requests", 1, 0, "100ms"))
    assert len([look async for look in pace.turn(1)]) >= 3

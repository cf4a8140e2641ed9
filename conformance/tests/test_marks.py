"""Marks are made by the command, by a call and by a coroutine, and a failure names its reason."""

from __future__ import annotations

import subprocess
import sys

import pytest

from agentic_kernel_conformance.mark import ADDRESS, MarkFailed, mark, marked
from agentic_kernel_conformance.mark_pacing import paced


def command(token: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agentic_kernel_conformance.mark", token],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


async def test_a_mark_is_made_in_three_ways() -> None:
    paced()
    mark("one")
    await marked("two")
    assert command("three").returncode == 0


def test_without_an_address_a_mark_fails_and_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(ADDRESS, raising=False)
    with pytest.raises(MarkFailed, match=ADDRESS):
        mark("one")
    done = command("one")
    assert done.returncode == 1
    assert ADDRESS in done.stderr

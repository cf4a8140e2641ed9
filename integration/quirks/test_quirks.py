"""Each quirk of a server has the outcome that the page says."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import pytest

from ..pages.quirks import main
from ..peers.faulty import FaultyServer
from .playing import play, quirks
from .quirk import Quirk

QUIRKS = list(quirks())


@pytest.fixture(scope="module")
def peer() -> Iterator[FaultyServer]:
    with FaultyServer("closed") as server:
        yield server


@pytest.mark.parametrize(
    "quirk",
    [pytest.param(quirk, id=f"{server}-{quirk.name}") for server, quirk in QUIRKS],
)
async def test_a_quirk_has_its_outcome(quirk: Quirk, peer: FaultyServer) -> None:
    outcome = await play(quirk, peer)
    assert outcome.fits(quirk), outcome


def test_a_server_without_the_quirk_is_told_from_one_with_it() -> None:
    """Each row is one of its own: no two of a server have the same responses and the same wish."""
    for server, rows in groupby(QUIRKS, key=lambda each: each[0]):
        played = [(each.replies, each.refuses, each.wants, each.azure) for _, each in rows]
        assert all(played.count(each) == 1 for each in played), server


def test_the_page_has_the_outcomes() -> None:
    main(["--check"])

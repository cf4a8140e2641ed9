"""Items of memory: what may be one, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_engine.seams.memory import (
    MAX_TEXT,
    Item,
    Origin,
    Query,
    Scope,
)

from .items import ANN

HOSTILE = ["a\0b", "\ud800", math.nan, 5, None, b"bytes", ["list"], {"a": math.nan}]


@pytest.mark.parametrize("part", ["id", "text", "key"])
@pytest.mark.parametrize("bad", [*HOSTILE, "x" * 10_000_000], ids=range(9))
async def test_an_item_that_cannot_be_stored_is_none(part: str, bad: Any) -> None:
    fields: dict[str, Any] = {"id": "a", "scope": ANN, "text": "text", part: bad}
    with pytest.raises(InvalidValue) as refused:
        Item(**fields)
    assert refused.value.path == f"item.{part}"
    assert len(str(refused.value)) < 200


OUT_OF_RANGE: dict[str, Callable[[], object]] = {
    "an empty id": lambda: Item("", ANN, "text"),
    "an empty text": lambda: Item("a", ANN, ""),
    "a scope that is a text": lambda: Item("a", "acme", "text"),  # type: ignore[arg-type]
    "an origin that is a pair": lambda: Item("a", ANN, "text", "", ("t", 1)),  # type: ignore[arg-type]
    "too long a text": lambda: Item("a", ANN, "x" * (MAX_TEXT + 1)),
    "no tenant": lambda: Scope(tenant=None),  # type: ignore[arg-type]
    "a session with NUL": lambda: Scope(session="a\0"),
    "a step below 0": lambda: Origin("t", -1),
    "a step that is a boolean": lambda: Origin("t", True),
    "a step beyond 64 bits": lambda: Origin("t", 10**5_000),
    "a query of a text": lambda: Query("acme"),  # type: ignore[arg-type]
    "a lone surrogate": lambda: Query(ANN, "\ud800"),
    "no hits": lambda: Query(ANN, limit=0),
    "too many hits": lambda: Query(ANN, limit=1_001),
    "half a hit": lambda: Query(ANN, limit=1.5),  # type: ignore[arg-type]
    "NaN": lambda: Query(ANN, min_score=math.nan),
    "infinity": lambda: Query(ANN, min_score=math.inf),
    "a huge score": lambda: Query(ANN, min_score=10**5_000),
    "a score that is a text": lambda: Query(ANN, min_score="1"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("what", OUT_OF_RANGE)
def test_what_is_out_of_range_is_refused(what: str) -> None:
    with pytest.raises(InvalidValue):
        OUT_OF_RANGE[what]()

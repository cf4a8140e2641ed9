"""The page about the server says what the code does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from msgspec.structs import fields as fields_of

from agentic_kernel_server.executions.events import FROM_HOST, OWN
from agentic_kernel_server.executions.tables import EXECUTIONS, STEPS
from agentic_kernel_server.observing.metrics import HELP
from agentic_kernel_server.routes import ROUTES

PAGE = (Path(__file__).parents[1] / "docs" / "server.md").read_text(encoding="utf-8")
SERVING = (Path(__file__).parents[1] / "docs" / "serving.md").read_text(encoding="utf-8")


def rows(mark: str) -> list[list[str]]:
    """The cells of the first table after a mark."""
    text = PAGE.split(f"<!-- {mark}: checked by", 1)[1].split("|---", 1)[1]
    table = text.split("\n", 1)[1].split("\n\n", 1)[0]
    return [[cell.strip() for cell in line.strip()[1:-1].split("|")] for line in table.splitlines()]


def cells(table: Mapping[Any, Mapping[str, Enum]]) -> list[list[str]]:
    """The transitions of a table of the code."""
    return [
        [before.value, trigger, after.value]
        for before, row in table.items()
        for trigger, after in row.items()
    ]


def test_the_page_has_every_transition_of_an_execution() -> None:
    assert rows("states of executions") == cells(EXECUTIONS)


def test_the_page_has_every_transition_of_a_step() -> None:
    assert rows("states of steps") == cells(STEPS)


def test_the_page_has_every_call_its_scope_and_its_fields() -> None:
    said = {call.strip("`"): (scope, fields) for call, scope, fields in rows("calls")}
    assert list(said) == [f"{call.method} {call.path}" for call in ROUTES]
    for call in ROUTES:
        scope, fields = said[f"{call.method} {call.path}"]
        assert call.scope in scope
        named = [
            field.name for part in (call.query, call.body) if part for field in fields_of(part)
        ]
        optional = {
            field.name
            for part in (call.query, call.body)
            if part
            for field in fields_of(part)
            if not field.required
        }
        assert re.findall(r"`([a-z_]+)`", fields)[: len(named)] == named
        assert set(re.findall(r"\*`([a-z_]+)`\*", fields)) >= optional


def test_the_page_about_serving_has_every_figure() -> None:
    table = SERVING.split("| metric | labels | what it is |", 1)[1].split("\n\n", 1)[0]
    said = [name for line in table.splitlines()[2:] for name in line.split("|")[1].split(", ")]
    assert {name.strip(" `").removesuffix("_total") for name in said} == set(HELP)


def test_the_page_has_every_event_and_what_it_is_stored_as() -> None:
    stored = {kind: f"`{host}`" for host, kind in FROM_HOST.items()}
    said = {name.strip("`"): where for name, where, _ in rows("events")}
    assert said == {**dict.fromkeys(OWN, "the same"), **stored}

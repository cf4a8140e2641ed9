"""The small programs run, and the page has what is counted in them."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from ..pages.beside import main
from .counting import count
from .programs import OURS, PROGRAMS, Servers, servers

LONGEST = {"chat": 6, "tools": 18}
"""The lines that a program of ours may have."""


@pytest.fixture(scope="module")
def peers() -> Iterator[Servers]:
    with servers() as started:
        yield started


@pytest.mark.parametrize(
    "program",
    # A real model takes its time.
    [*sorted({*PROGRAMS} - {"server"}), pytest.param("server", marks=pytest.mark.torture)],
)
def test_a_program_of_ours_runs(program: str, peers: Servers) -> None:
    peers.check(OURS, program, peers.run(sys.executable, OURS, program))


@pytest.mark.parametrize("program", LONGEST)
def test_a_program_of_ours_is_short(program: str) -> None:
    assert count(OURS.source(program)).lines <= LONGEST[program]


def test_the_page_has_what_is_counted() -> None:
    main(["--check"])


def test_lines_and_names_of_the_library_are_counted() -> None:
    source = """\
import asyncio

from pydantic import BaseModel  # the program's own

from library import Agent, tool as made
from library.models import Model


# A comment, and above it blank lines.
class Advice(BaseModel):
    city: str


@made(strict=True)
def place() -> str:
    return "Bonn".strip()


async def main():
    agent = Agent(Model("m", key="k"))
    async with agent.opened(wide=True) as answer:
        async for piece in answer.pieces():
            print(piece.text, end="")
    print((await agent.run("x")).output)


asyncio.run(main())
"""
    counted = count(source)
    assert counted.lines == 16
    assert counted.names == set(
        "Agent tool Model strict key opened wide pieces text run output".split()
    )

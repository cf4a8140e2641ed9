"""R21, R22: whatever foreign code does, every Task ends or pauses and the store stays readable."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agentic_kernel_engine import MemoryStore, Store
from agentic_kernel_file import FileStore
from agentic_kernel_postgres import PostgresStore

from .hostile import Opening, play
from .postgres_server import schema as schema
from .postgres_server import server as server

TASKS = 50


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Thousands of tracebacks would be kept until a test ends."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def in_memory() -> Opening:
    store = MemoryStore()

    @asynccontextmanager
    async def opening() -> AsyncIterator[Store]:
        yield store

    return opening


def in_files(folder: Path) -> Opening:
    @asynccontextmanager
    async def opening() -> AsyncIterator[Store]:
        store = FileStore(folder)
        try:
            yield store
        finally:
            store.close()

    return opening


def in_postgres(server: str, schema: str) -> Opening:
    @asynccontextmanager
    async def opening() -> AsyncIterator[Store]:
        async with PostgresStore(server, schema=schema) as store:
            yield store

    return opening


@pytest.mark.rule("R21")
@pytest.mark.parametrize("seed", range(6))
async def test_whatever_foreign_code_does_every_task_ends(seed: int) -> None:
    assert await play(seed, in_memory(), TASKS) >= TASKS


@pytest.mark.rule("R21")
@pytest.mark.torture
@pytest.mark.parametrize("first", range(100, 380, 10))
async def test_whatever_foreign_code_does_every_task_in_memory_ends(first: int) -> None:
    for seed in range(first, first + 10):
        assert await play(seed, in_memory(), TASKS) >= TASKS


@pytest.mark.rule("R21")
@pytest.mark.torture
@pytest.mark.parametrize("first", range(1_000, 1_100, 10))
async def test_whatever_foreign_code_does_every_task_in_files_ends(
    first: int, tmp_path: Path
) -> None:
    for seed in range(first, first + 10):
        assert await play(seed, in_files(tmp_path / str(seed)), TASKS) >= TASKS


@pytest.mark.rule("R21")
@pytest.mark.torture
@pytest.mark.parametrize("first", range(2_000, 2_030, 5))
async def test_whatever_foreign_code_does_every_task_in_postgres_ends(
    first: int, server: str, schema: str
) -> None:
    """One schema for all batches of a test: the ids tell them apart, and the store fills."""
    for seed in range(first, first + 5):
        assert await play(seed, in_postgres(server, schema), TASKS) >= TASKS

"""A Task that kills every worker that runs it is set aside, and the next worker lives."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any

import psycopg
import pytest

from .postgres_crash_worker import expire
from .postgres_fatal_worker import ATTEMPTS, SUBSTRATE, TOOL
from .postgres_server import schema as schema
from .postgres_server import server as server
from .test_sqlite_processes import ROOT

pytestmark = pytest.mark.slow

MOST = ATTEMPTS + 2
"""How many workers are started at most."""


@pytest.mark.rule("R12")
@pytest.mark.parametrize("where", [SUBSTRATE, pytest.param(TOOL, marks=pytest.mark.torture)])
def test_a_task_that_kills_its_workers_fails_after_so_many_of_them(
    where: str, server: str, schema: str
) -> None:
    """One worker after the other, as whoever restarts what died does it."""
    codes: list[int] = []
    said: list[Any] = []
    while len(codes) < MOST and not (codes and codes[-1] == 0):
        done = subprocess.run(
            [sys.executable, "-m", "integration.postgres_fatal_worker", server, schema, where],
            stdout=subprocess.PIPE, text=True, cwd=ROOT, timeout=120, check=False,
        )  # fmt: skip
        codes.append(done.returncode)
        name, *what = (json.loads(line) for line in done.stdout.splitlines())
        said += what
        expire(server, schema, name)
    assert codes == [-signal.SIGKILL] * ATTEMPTS + [0]
    assert said == ["begun"] * ATTEMPTS + [["engine/attempts_exhausted", ATTEMPTS]]
    with psycopg.connect(server) as connection:
        found = connection.execute(f"SELECT status, holder FROM {schema}.tasks").fetchall()
    assert found == [("failure", None)]

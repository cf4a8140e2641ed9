"""The command on a real Postgres: from two terminals, and with nobody told a password."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from typer.testing import CliRunner

from agentic_kernel import CannotStart, InvalidValue, Task, TaskStatus
from agentic_kernel_cli.commands import app
from agentic_kernel_cli.database import Database
from agentic_kernel_cli.invocation import place_of
from agentic_kernel_cli.place import Folder
from agentic_kernel_cli.upkeep import examined, migrated
from agentic_kernel_engine import Host, Loop, tool
from agentic_kernel_engine.loop import (
    ALLOW,
    AskUser,
    Context,
    Decision,
    FinalAnswer,
    ToolCall,
    require_approval,
)
from agentic_kernel_engine.plans.action import Action
from agentic_kernel_engine.seams import ScriptedPlanner
from agentic_kernel_postgres import PostgresStore
from agentic_kernel_postgres.schema import migrations
from integration.postgres_server import Server

from .terminals import ANOTHER, SOME, STORY, Terminals

NEWEST = migrations()[-1].version


@pytest.fixture
def url(server: str, terminals: Terminals) -> Iterator[str]:
    """A database of the test's own, which its terminals use."""
    name = f"test_{token_hex(6)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        terminals.url = with_parameter(server, f"dbname={name}")
        yield terminals.url
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def with_parameter(url: str, parameter: str) -> str:
    """The URL with one parameter more, which wins over what the URL said before."""
    return f"{url}{'&' if '?' in url else '?'}{parameter}"


def said(url: str, *words: str) -> str:
    """The output of a command on this place, run in this process."""
    done = CliRunner().invoke(app, ["--state", url, *words], catch_exceptions=False)
    return done.output


@pytest.mark.slow
@pytest.mark.torture
def test_two_terminals_run_pause_resume_crash_and_recover(terminals: Terminals, url: str) -> None:
    running = terminals.start("run", STORY, "--id", "story", "--max-tokens", "3000")
    running.until(out=SOME)
    with pytest.raises(CannotStart, match="or recover it 10 s after that process died"):
        said(url, "recover", "story")
    assert terminals.call("pause", "story").out == "story: paused\n"
    running.ended(3)
    hint = shlex.split(running.err.partition("go on with: ")[2])
    assert hint == ["agentic-kernel", "--state", str(Database(url)), "resume", "story"]

    resumed = terminals.program("-m", "agentic_kernel_cli", *hint[1:], "--extra", ANOTHER)
    resumed.until(out=len(running.out) + SOME)
    resumed.process.send_signal(signal.SIGKILL)
    resumed.ended(-signal.SIGKILL)
    assert "may count as alive for 10 s" in said(url, "recover")
    with psycopg.connect(url, autocommit=True) as connection:  # ten seconds pass
        connection.execute("UPDATE agentic_kernel.hosts SET until = now()")
    left = json.loads(said(url, "--json", "show", "story"))
    assert (left["status"], left["orphaned"]) == ("running", True)
    # With an extra the model begins its answer anew, and the text of the new answer counts.
    assert left["said"]
    assert not left["said"].startswith(running.out.rstrip("\n"))
    assert left["supplements"] == [ANOTHER]

    recovered = terminals.start("recover")
    recovered.until(out=len(left["said"]) + SOME)
    assert recovered.out.startswith(left["said"])
    assert terminals.call("kill", "story").out == "story: killed\n"
    recovered.ended(4)
    assert said(url, "list").startswith("story\tcancelled\tlocal\t")


@pytest.mark.slow
def test_work_is_run_again_and_what_ended_is_removed(terminals: Terminals, url: str) -> None:
    metadata = {"local/max_tokens": 60}
    task = Task.new(
        summary="", instructions="Say hello.", runtime_kind="local", metadata=metadata, id="one"
    )

    async def ended() -> None:
        loop = Loop(ScriptedPlanner(FinalAnswer("hello")))
        async with PostgresStore(url) as store, Host(loop, store) as host:
            await host.run(task)

    asyncio.run(ended())
    again = terminals.call("rerun", "one", "--json").lines[-1]
    assert again["status"] == "success"
    assert again["instructions"] == "Say hello."
    assert said(url, "prune", "--older-than", "0s", "--yes") == "removed 2 Tasks\n"
    assert said(url, "list").startswith("no Tasks in postgresql://")


class AskFirst:
    """Every tool call needs a person."""

    async def authorize(self, action: Action, context: Context) -> Decision:
        return require_approval("it writes") if isinstance(action, ToolCall) else ALLOW


@pytest.mark.slow
@pytest.mark.torture
async def test_decisions_from_another_terminal_reach_the_process(
    terminals: Terminals, url: str
) -> None:
    written: list[str] = []

    def write(text: str) -> str:
        written.append(text)
        return "written"

    script = ScriptedPlanner(
        ToolCall("write", {"text": "one"}),
        ToolCall("write", {"text": "two"}),
        AskUser("Which?"),
        lambda context: FinalAnswer(context.transcript[-1].text),
    )
    async with (
        PostgresStore(url) as store,
        Host(Loop(script, [tool(write, inline=True)], AskFirst()), store) as host,
    ):
        await host.dispatch(
            Task.new(summary="", instructions="write", runtime_kind="scripted", id="it")
        )
        for words, told in (
            (["retune", "it", "--max-iterations", "9"], "max_iterations 9"),
            (["approve", "it", "DIGEST", "--by", "ada"], "approved; it goes on"),
            (["deny", "it", "DIGEST", "--reason", "too early"], "denied; it goes on"),
            (["answer", "it", "the second"], "answered; it goes on"),
        ):
            note: Any = (await host.wait("it", TaskStatus.PAUSED)).metadata["engine/waiting_for"]
            digest = note.get("digest") or note["requests"][0]["digest"]
            exact = [digest if word == "DIGEST" else word for word in words]
            said = await asyncio.to_thread(terminals.call, *exact)
            assert told in said.out
        assert (await host.wait("it")).result == "the second"
        watched = await asyncio.to_thread(terminals.call, "watch", "it")
        assert watched.out == "the second\n"
    assert written == ["one"]


def test_migrate_says_from_which_version_to_which(url: str) -> None:
    made = json.loads(said(url, "--json", "migrate"))
    assert made == {"kind": "migrated", "from": 0, "to": NEWEST}
    assert said(url, "migrate") == f"nothing to do: the schema already has version {NEWEST}\n"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DELETE FROM agentic_kernel.versions WHERE version = %s", [NEWEST])
    raised = f"migrated the schema from version {NEWEST - 1} to version {NEWEST}\n"
    assert said(url, "migrate") == raised


def test_a_folder_needs_no_migration(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    told = "nothing to do: only a Postgres database has a schema to migrate\n"
    assert said(str(folder), "migrate") == told
    assert not folder.exists()


async def test_the_doctor_tells_of_the_server_and_changes_nothing(url: str) -> None:
    place = Database(url)
    for _ in range(2):
        _, answers, settings, schema, state = await examined(place)
        assert "PostgreSQL" in answers.detail
        assert settings.detail.startswith("fsync on, full_page_writes on")
        assert "does not exist yet" in schema.detail
        assert state.ok
    await migrated(place)
    *_, schema, state = await examined(place)
    assert (schema.ok, schema.detail) == (True, f"the schema agentic_kernel has version {NEWEST}")
    assert (state.ok, state.detail) == (True, "writable, leases held")


@pytest.mark.parametrize(("newer", "fit"), [(f"{NEWEST}", True), ("99", False)])
async def test_the_doctor_knows_which_newer_schema_it_can_work_with(
    newer: str, fit: bool, url: str
) -> None:
    place = Database(url)
    await migrated(place)
    with psycopg.connect(url, autocommit=True) as connection:
        text = "INSERT INTO agentic_kernel.versions (version, oldest) VALUES (99, %s)"
        connection.execute(text, [newer])
    found = {finding.name: finding for finding in await examined(place)}
    schema = found["postgres schema"]
    assert schema.ok == fit
    assert "has version 99" in schema.detail
    assert ("state" in found) == fit
    assert "upgrade" in schema.advice or fit


async def test_the_doctor_tells_a_role_what_it_may_not_do(url: str) -> None:
    """It may make no schema, and is told who has to."""
    role = f"test_{token_hex(6)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role}")
        place = Database(with_parameter(url, f"options=-c%20role%3D{role}"))
        try:
            schema = (await examined(place))[-1]
            assert (schema.name, schema.ok) == ("postgres schema", False)
            assert "may not create it" in schema.detail
            assert place.command("migrate") in schema.advice
            await migrated(Database(url))
            schema = (await examined(place))[-1]
            assert (schema.name, schema.ok) == ("postgres schema", False)
            assert "permission denied" in schema.detail
        finally:
            connection.execute(f"DROP ROLE {role}")


@pytest.mark.slow
def test_a_server_that_is_not_there_is_told_without_the_password(terminals: Terminals) -> None:
    terminals.url = "postgresql://ada:s3cret@127.0.0.1:1/tasks"
    for command in [terminals.start("doctor"), terminals.start("run", "text", "--debug")]:
        told = command.ended(1).out + command.err
        assert "tasks at 127.0.0.1: " in told
        assert "s3cret" not in told


@pytest.mark.slow
def test_nobody_is_told_a_password(terminals: Terminals) -> None:
    """Neither a right one nor a wrong one, on a server that asks for it."""
    with Server() as server:
        with psycopg.connect(server.place, autocommit=True) as connection:
            connection.execute("CREATE ROLE ada LOGIN PASSWORD 's3cret'")
            connection.execute("CREATE DATABASE tasks OWNER ada")
            ((rules,),) = connection.execute("SHOW hba_file")
            Path(rules).write_text("local all postgres trust\nlocal all all scram-sha-256\n")
            connection.execute("SELECT pg_reload_conf()")
        folder = conninfo_to_dict(server.place)["host"]
        terminals.env["AGENTIC_KERNEL_STATE"] = f"postgresql://ada:s3cret@/tasks?host={folder}"
        done = terminals.program("-m", "agentic_kernel_cli", "migrate", "--debug").ended(0)
        terminals.url = f"postgresql://ada:0oops@/tasks?host={folder}"
        refused = terminals.call("list", "--json", code=1)
        assert "password authentication failed" in refused.err
        assert refused.err.count("\n") == 1
        wrong = asyncio.run(examined(Database(terminals.url)))[-1]
        assert (wrong.name, wrong.ok) == ("postgres server", False)
        assert "PGPASSWORD" in wrong.advice
        told = "".join([done.out, done.err, refused.out, refused.err, str(wrong)])
        assert "version 0 to" in told
        assert "s3cret" not in told
        assert "0oops" not in told


@pytest.mark.slow
def test_what_is_not_installed_is_named(terminals: Terminals, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    site.joinpath("agentic_kernel_postgres.py").write_text("raise ImportError('not installed')\n")
    terminals.env["PYTHONPATH"] = os.pathsep.join(
        [str(site), *filter(None, [terminals.env.get("PYTHONPATH")])]
    )
    terminals.url = "postgresql://"
    refused = terminals.call("run", "text", "--json", code=1)
    assert refused.lines[0]["type"] == "Unusable"
    assert "not installed" in refused.err


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://h/db", "postgresql://h/db"),
        ("postgres://ada@h:1,[::1]:2/db?a=b", "postgres://ada@h:1,[::1]:2/db?a=b"),
        ("postgresql://ada:s3cret@h/db", "postgresql://ada@h/db"),
        ("postgresql://ada:s%403cret@/db?host=/run", "postgresql://ada@/db?host=/run"),
        ("postgresql://h/db?password=s3cret", "postgresql://h/db"),
        ("postgresql://h?a=b&p%61ssword=s3cret", "postgresql://h?a=b"),
        ("postgresql://h/db?sslpassword=s3cret&sslkey=k", "postgresql://h/db?sslkey=k"),
        ("postgresql://", "postgresql://"),
    ],
)
def test_a_proposed_command_names_the_place_without_its_password(
    url: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the variable that holds it."""
    monkeypatch.delenv("AGENTIC_KERNEL_STATE", raising=False)
    place = place_of(url)
    assert str(place) == shown
    assert shlex.split(place.command("show", "a b")) == [
        *("agentic-kernel", "--state", shown, "show", "a b")
    ]
    monkeypatch.setenv("AGENTIC_KERNEL_STATE", url)
    secret = url != shown
    assert ('--state "$AGENTIC_KERNEL_STATE" show' in place_of(url).command("show")) == secret
    assert "s3cret" not in f"{place!r}{place_of(url).command('show')}"


@pytest.mark.parametrize(
    "state",
    [
        "",
        "mysql://ada:s3cret@h/db",
        "POSTGRESQL://ada:s3cret@h/db",
        "postgresql:/ada:s3cret@h/db",
        "postgresql//ada:s3cret@h/db",
        "postgresql:",
        "postgres:ada:s3cret@h/db",
        "postgresql:tasks",
        "file:",
        "FILE:tasks",
        "sqlite:",
        "mysql:tasks",
        "postgresql://ada:s3@cret@h/db",
        "postgresql://ada:s3/cret@h/db",
        "postgresql://ada:s3?cret@h/db",
        "postgresql://ada:s3cret",
        "postgresql://h,ada:s3cret/db",
    ],
)
def test_what_names_no_place_is_refused_and_not_repeated(state: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        place_of(state)
    assert str(refused.value).startswith("--state: ")
    assert "s3" not in str(refused.value)
    assert "cret" not in str(refused.value)


@pytest.mark.parametrize("state", ["here", "./postgresql:", "/a:b", "C:/here", "postgres"])
def test_everything_else_is_a_folder(state: str) -> None:
    assert place_of(state) == Folder(Path(state), named=True)
